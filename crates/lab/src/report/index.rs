//! One page over many experiments: what each asks, and how far its values are
//! from the published ones.

use super::Comparison;
use super::html::esc;
use super::number::show_difference;
use super::published::{self, Reference};

/// One experiment of an index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexEntry {
    /// What the contents call it.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its question.
    pub description: String,
    /// Points of its sweep.
    pub points: usize,
    /// Published values beside ours, in base units.
    pub comparisons: Vec<Comparison>,
    /// What went wrong, one line each.
    pub failures: Vec<String>,
    /// Its report, relative to the index; empty where there is none.
    pub link: String,
}

impl IndexEntry {
    /// Half of the published values are nearer than this fraction.
    pub fn median_difference(&self) -> Option<f64> {
        let all = self.differences();
        all.get(all.len().checked_sub(1)? / 2).copied()
    }

    /// The largest distance of a published value, as a fraction of it.
    pub fn worst_difference(&self) -> Option<f64> {
        self.differences().last().copied()
    }

    /// Distances without their sign, ascending.
    fn differences(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.comparisons.iter().filter_map(Comparison::difference).map(f64::abs).collect();
        all.sort_by(f64::total_cmp);
        all
    }
}

/// The sections of the page: a table of all experiments, then each one's
/// question and published values.
pub(super) fn body(entries: &[IndexEntry]) -> String {
    let mut out = String::from(
        "<section id=\"all\"><h2>All experiments</h2>\n<div class=\"scroll\"><table class=\"overview\"><thead><tr>\
         <th>Experiment</th><th class=\"n\">Points</th><th class=\"n\">Published values</th><th class=\"n\">Median distance</th>\
         <th class=\"n\">Largest</th></tr></thead><tbody>",
    );
    for (index, entry) in entries.iter().enumerate() {
        let distance =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| show_difference(value).replace('+', ""));
        out += &format!(
            "<tr class=\"first\"><td><a href=\"#experiment-{index}\">{}</a></td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            esc(&entry.title),
            entry.points,
            entry.comparisons.len(),
            distance(entry.median_difference()),
            distance(entry.worst_difference()),
        );
    }
    out += "</tbody></table></div></section>\n";
    for (index, entry) in entries.iter().enumerate() {
        out += &section(index, entry);
    }
    out
}

fn section(index: usize, entry: &IndexEntry) -> String {
    let mut out = format!("<section id=\"experiment-{index}\"><h2>{}</h2>\n", esc(&entry.title));
    for paragraph in entry.description.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        out += &format!("<p>{}</p>\n", esc(paragraph));
    }
    for failure in &entry.failures {
        out += &format!("<p class=\"warning short\" role=\"note\"><b>Shortfall.</b> {}</p>\n", esc(failure));
    }
    out += &published::comparisons(&entry.comparisons, Reference::Published).unwrap_or_default();
    if !entry.link.is_empty() {
        out += &format!("<p><a href=\"{}\">The whole report</a></p>\n", esc(&entry.link));
    }
    out + "</section>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_an_experiment() {
        let row = |published: f64, ours: Option<f64>| Comparison {
            published,
            ours: ours.map(Into::into),
            ..Comparison::default()
        };
        let rows = vec![row(1.0, Some(1.1)), row(1.0, Some(0.5)), row(1.0, None), row(1.0, Some(1.0))];
        let entry = IndexEntry { comparisons: rows, ..IndexEntry::default() };
        assert!((entry.median_difference().unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(entry.worst_difference(), Some(0.5));
        assert_eq!(IndexEntry::default().median_difference(), None);
    }
}
