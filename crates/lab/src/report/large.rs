//! Reports of sweeps with more points than a page can hold: a page with the
//! first of them and an index of all, whose data lie in a file beside it.

use super::html::esc;
use super::latency::at_percent;
use super::overview::coloured;
use super::{DirectionData, Estimate, PointData, ReportData};

/// Points of the largest sweep whose page holds everything.
pub(super) const POINTS: usize = 300;
/// Points in the page's own table, which scripts replace by the index.
pub(super) const LISTED: usize = 40;
/// Points with pictures.
pub(super) const PICTURED: usize = 24;
/// The file with the rows of the index.
pub(super) const FILE: &str = "report-points.js";

/// What the index shows of a direction, with its unit for the page's script.
const COLUMNS: [(&str, &str); 6] = [
    ("Operations", "iops"),
    ("Bandwidth", "bandwidth"),
    ("Mean", "time"),
    ("p50", "time"),
    ("p99", "time"),
    ("p99.9", "time"),
];

/// Whether the sweep is too large for one page.
pub(super) fn is_large(data: &ReportData) -> bool {
    data.points.len() > POINTS
}

/// Where the script puts the index, around the table of the first points.
pub(super) fn index(first: &str, points: usize) -> String {
    format!(
        "<div id=\"index\"><p class=\"note\">The first {LISTED} of {points} points. <code>{FILE}</code> beside this page has all of \
         them for the page's script; so have runs.csv and runs.parquet.</p>\n{first}</div>\n"
    )
}

/// Links to the files beside the page.
pub(super) fn links() -> String {
    let files = [
        ("runs.csv", "Runs (CSV)"),
        ("runs.parquet", "Runs (Parquet)"),
        ("latency.parquet", "Latency distributions (Parquet)"),
        ("counters.parquet", "Counters (Parquet)"),
    ];
    let link = |(file, label)| format!("<a class=\"button\" href=\"{file}\">{label}</a> ");
    format!("<p class=\"downloads\">{}</p>\n", files.map(link).concat())
}

/// The script that loads the index, before the page's own.
pub(super) fn script() -> String {
    format!("<script src=\"{FILE}\"></script>\n")
}

/// What is said where pictures of the other points would be.
pub(super) fn note(pictured: usize, points: usize) -> String {
    format!(
        "<p class=\"note\">The first {pictured} of {points} points are drawn. Any others: <code>{}</code></p>\n",
        esc("plumb report FOLDER --points 100-120")
    )
}

/// The index's data, as a script: pages opened from a disk may load no other kind of file.
pub(super) fn file(points: &[PointData]) -> String {
    let keys: Vec<&str> =
        points.first().map_or(Vec::new(), |point| point.parameters.iter().map(|(key, _)| &key[..]).collect());
    let mut out = String::from("var plumbPoints = {\"keys\":");
    out += &json(&keys);
    out += ",\"columns\":";
    out += &json(&COLUMNS);
    // A row: point, values of the keys, direction and its colour, numbers.
    out += ",\"rows\":[\n";
    let mut first = true;
    for (index, point) in points.iter().enumerate() {
        let values: Vec<&str> = point.parameters.iter().map(|(_, value)| &value[..]).collect();
        let mut rows: Vec<(usize, &str, Vec<f64>)> =
            coloured(&point.directions).map(|(colour, part)| (colour, &part.name[..], numbers(part))).collect();
        if rows.is_empty() {
            rows.push((0, "", Vec::new()));
        }
        for (colour, name, numbers) in rows {
            out += if first { "" } else { ",\n" };
            first = false;
            let numbers: Vec<_> = numbers.into_iter().map(|number| number.is_finite().then_some(number)).collect();
            out += &json(&(index, &values, name, colour, numbers));
        }
    }
    out + "\n]};\n"
}

/// Four digits of each column's value.
fn numbers(part: &DirectionData) -> Vec<f64> {
    let percentile = |percent| at_percent(part, percent).unwrap_or(Estimate { value: f64::NAN, half_width: None });
    let estimates =
        [part.iops, part.bandwidth, part.latency_mean_ns, percentile(50.0), percentile(99.0), percentile(99.9)];
    estimates.iter().map(|estimate| format!("{:.3e}", estimate.value).parse().unwrap_or(f64::NAN)).collect()
}

/// JSON that no page takes for its own end.
fn json(value: &impl serde::Serialize) -> String {
    // Text, numbers and lists: there is nothing in them that JSON cannot hold.
    serde_json::to_string(value).unwrap_or_default().replace('<', "\\u003c").replace(['\u{2028}', '\u{2029}'], " ")
}
