//! Published values beside ours.

use super::Comparison;
use super::html::esc;
use super::number::{show, show_difference, show_estimate};

/// Difference at either end of the picture; farther ones sit at the end.
const REACH: f64 = 0.5;

/// What ours stands beside.
#[derive(Clone, Copy, Default)]
pub(super) enum Reference {
    /// Values of a publication.
    #[default]
    Published,
    /// Measurements that the user has.
    Measured,
}

impl Reference {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Measured => "measured",
        }
    }

    /// Of the table's section.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Published => "Published beside ours",
            Self::Measured => "Measured beside ours",
        }
    }

    fn column(self) -> &'static str {
        match self {
            Self::Published => "Published",
            Self::Measured => "Measured",
        }
    }
}

/// The table; `None` without rows.
pub(super) fn comparisons(rows: &[Comparison], reference: Reference) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let judged: Vec<bool> = rows.iter().filter_map(Comparison::holds).collect();
    let held = judged.iter().filter(|holds| **holds).count();
    let mut out =
        format!("<p>The line is the {} value, the shaded part its range, the dot is ours: ", reference.word());
    out += &format!("half the width stands for a difference of {}.", show_difference(REACH).replace('+', ""));
    if !judged.is_empty() {
        out += &format!(" {held} of {} judged values are as close as was asked.", judged.len());
    }
    out += &format!(
        "</p><div class=\"scroll\"><table class=\"published\"><thead><tr><th>Metric</th><th class=\"n\">{}</th>\
         <th class=\"n\">Ours</th><th class=\"n\">Difference</th><th class=\"dots\"></th><th>Source</th></tr></thead><tbody>",
        reference.column()
    );
    for row in rows {
        out += &self::row(row);
    }
    Some(out + "</tbody></table></div>\n")
}

fn row(row: &Comparison) -> String {
    let mut published = show(row.published, &row.unit);
    if let Some(to) = row.published_to {
        published += &format!(" to {}", show(to, &row.unit));
    }
    let ours = row.ours.map_or("not measured".to_owned(), |ours| show_estimate(ours, &row.unit));
    let difference = row.difference();
    let (class, verdict) = match row.holds() {
        Some(true) => (" good", "✓ "),
        Some(false) => (" bad", "✗ "),
        None => ("", ""),
    };
    let asked = row.within.map_or(String::new(), |within| {
        format!("<small>within {} asked</small>", show_difference(within.abs()).replace('+', ""))
    });
    let at = if row.at.is_empty() { String::new() } else { format!("<small>{}</small>", esc(&row.at)) };
    let note = if row.note.is_empty() { String::new() } else { format!("<small>{}</small>", esc(&row.note)) };
    format!(
        "<tr><th scope=\"row\">{}{at}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n{class}\">{verdict}{}{asked}</td><td class=\"dots\">{}</td><td class=\"source\">{}{note}</td></tr>",
        esc(&row.metric),
        esc(&published),
        esc(&ours),
        difference.map_or("–".to_owned(), show_difference),
        picture(row),
        esc(&row.source)
    )
}

/// Ours relative to the published value, on a strip of `±REACH`.
fn picture(row: &Comparison) -> String {
    let place = |fraction: f64| (fraction / REACH * 50.0 + 50.0).clamp(0.0, 100.0);
    let to = row.published_to.unwrap_or(row.published);
    let middle = (row.published + to) / 2.0;
    let relative = |value: f64| (value - middle) / middle.abs();
    let mut out = String::from("<div class=\"strip\">");
    let reach = relative(to).abs();
    if reach.is_finite() && reach > 0.0 {
        let (left, right) = (place(-reach), place(reach));
        out += &format!("<i class=\"range\" style=\"left:{left:.1}%;width:{:.1}%\"></i>", right - left);
    }
    if let Some(ours) = row.ours.map(|ours| relative(ours.value)).filter(|ours| ours.is_finite()) {
        let far = if ours.abs() > REACH { " far" } else { "" };
        let bad = if row.holds() == Some(false) { " bad" } else { "" };
        out += &format!("<b class=\"ours{far}{bad}\" style=\"left:{:.1}%\"></b>", place(ours));
    }
    out + "</div>"
}

#[cfg(test)]
mod tests {
    use super::super::Estimate;
    use super::*;

    #[test]
    fn differences_and_verdicts() {
        let range = |ours: Option<f64>| Comparison {
            published: 11.0,
            published_to: Some(14.0),
            ours: ours.map(Estimate::from),
            within: Some(0.1),
            ..Comparison::default()
        };
        assert_eq!((range(Some(12.0)).difference(), range(Some(12.0)).holds()), (Some(0.0), Some(true)));
        assert_eq!((range(Some(5.5)).difference(), range(Some(5.5)).holds()), (Some(-0.5), Some(false)));
        assert_eq!(range(Some(15.0)).holds(), Some(true));
        assert_eq!((range(None).difference(), range(None).holds()), (None, Some(false)));
        assert_eq!(range(Some(f64::NAN)).holds(), Some(false));
        let zero = Comparison { ours: Some(1.0.into()), ..Comparison::default() };
        assert_eq!((zero.difference(), zero.holds()), (None, None));
        assert!(comparisons(&[], Reference::Published).is_none());
        let text = comparisons(&[range(None), range(Some(5.5)), zero], Reference::Published).unwrap();
        assert!(text.contains("not measured") && text.contains("✗ −50") && text.contains("0 of 2 judged"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf%"), "{text}");
    }
}
