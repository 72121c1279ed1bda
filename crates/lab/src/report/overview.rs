//! The answer first: figures of a single point, or a table of all points.

use super::html::esc;
use super::latency::at_percent;
use super::number::{NONE, percentile, show, show_stacked};
use super::{DirectionData, Estimate, PointData, Unit};

/// Percentiles in the overview, where they were measured.
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// Large figures of one point.
pub(super) fn figures(point: &PointData) -> String {
    let mut out = String::new();
    for (colour, direction) in coloured(&point.directions) {
        out += &format!("<div class=\"figures c{colour}\"><h3>{}</h3><dl>", esc(&direction.name));
        let mut figure = |name: &str, estimate: Estimate, unit: &Unit| {
            out += &format!("<div><dt>{name}</dt><dd>{}</dd></div>", show_stacked(estimate, unit));
        };
        if direction.bandwidth.value > 0.0 {
            figure("bandwidth", direction.bandwidth, &Unit::Bandwidth);
        }
        figure("operations", direction.iops, &Unit::Iops);
        figure("mean latency", direction.latency_mean_ns, &Unit::Time);
        for percent in [50.0, 99.0] {
            if let Some(estimate) = at_percent(direction, percent) {
                let name = if percent == 50.0 { "median".to_owned() } else { percentile(percent) };
                figure(&name, estimate, &Unit::Time);
            }
        }
        out += &format!("<div><dt>requests</dt><dd>{}</dd></div></dl></div>\n", show(direction.requests, &Unit::Plain));
    }
    out
}

/// Swept keys that get a column each; more of them share one.
const KEY_COLUMNS: usize = 3;
/// Rows that are shown before the reader asks for all.
const ROWS: usize = 40;

/// One row for each point and direction, after `before` others; the first `linked` link to their pictures.
pub(super) fn table(points: &[PointData], before: usize, linked: usize) -> String {
    let keys: Vec<&str> =
        points.first().map_or(Vec::new(), |point| point.parameters.iter().map(|(key, _)| key.as_str()).collect());
    let percentiles: Vec<f64> = PERCENTILES
        .into_iter()
        .filter(|percent| {
            points.iter().flat_map(|point| &point.directions).any(|direction| at_percent(direction, *percent).is_some())
        })
        .collect();
    let rows: usize = points.iter().map(|point| point.directions.len().max(1)).sum();
    let mut out = String::from("<div class=\"rows\">");
    if rows > ROWS {
        out += &format!(
            "<input type=\"checkbox\" id=\"all-rows\"/><label for=\"all-rows\">All {} points</label>",
            points.len()
        );
    }
    out += "<table class=\"overview\"><thead><tr><th class=\"n\">#</th>";
    let together = keys.len() > KEY_COLUMNS;
    let headings: Vec<&str> = if together { vec!["Parameters"] } else { keys.iter().map(|key| short(key)).collect() };
    for heading in &headings {
        out += &format!("<th>{}</th>", esc(heading));
    }
    out += "<th></th><th class=\"n\">Operations</th><th class=\"n\">Bandwidth</th><th class=\"n\">Mean</th>";
    for percent in &percentiles {
        out += &format!("<th class=\"n\">{}</th>", percentile(*percent));
    }
    out += "</tr></thead><tbody>";
    for (index, point) in points.iter().enumerate() {
        let link = if index < linked {
            format!("<a href=\"#point-{0}\">{0}</a>", before + index)
        } else {
            format!("{}", before + index)
        };
        if point.directions.is_empty() {
            let rest = headings.len() + 4 + percentiles.len();
            let label = label(point);
            out += &format!("<tr class=\"first\"><td class=\"n\">{link}</td><td colspan=\"{rest}\">");
            out += &format!("{} (no request served)</td></tr>\n", esc(&label));
        }
        for (row, (colour, direction)) in coloured(&point.directions).enumerate() {
            out += if row == 0 { "<tr class=\"first\">" } else { "<tr>" };
            if row == 0 {
                let rows = point.directions.len();
                out += &format!("<td class=\"n\" rowspan=\"{rows}\" data-label=\"Point\">{link}</td>");
                let mut cell = |heading: &str, value: &str| {
                    let (heading, value) = (esc(heading), esc(value));
                    out += &format!("<td class=\"key-value\" rowspan=\"{rows}\" data-label=\"{heading}\">{value}</td>");
                };
                let parts: Vec<String> = (0..keys.len())
                    .map(|position| point.parameters.get(position).map_or(String::new(), |(_, value)| value.clone()))
                    .collect();
                if together {
                    cell(headings[0], &label(point));
                } else {
                    headings.iter().zip(&parts).for_each(|(heading, value)| cell(heading, value));
                }
            }
            let cells =
                [("Operations", direction.iops, &Unit::Iops), ("Bandwidth", direction.bandwidth, &Unit::Bandwidth)];
            out += &format!(
                "<td class=\"what\"><span class=\"key c{colour}\"><i></i>{}</span></td>",
                esc(&direction.name)
            );
            for (heading, estimate, unit) in cells.into_iter().chain([("Mean", direction.latency_mean_ns, &Unit::Time)])
            {
                // A flush moves no data.
                let nothing = estimate.value == 0.0 && *unit == Unit::Bandwidth;
                let text = if nothing { NONE.to_owned() } else { show_stacked(estimate, unit) };
                out += &format!("<td class=\"n\" data-label=\"{heading}\">{text}</td>");
            }
            for percent in &percentiles {
                let text = at_percent(direction, *percent).map_or("–".to_owned(), |it| show_stacked(it, &Unit::Time));
                out += &format!("<td class=\"n\" data-label=\"{}\">{text}</td>", self::percentile(*percent));
            }
            out += "</tr>\n";
        }
    }
    out + "</tbody></table></div>\n"
}

/// The directions with their colours: the same for a direction on every page.
pub(super) fn coloured(directions: &[DirectionData]) -> impl Iterator<Item = (usize, &DirectionData)> {
    directions.iter().enumerate().map(|(index, direction)| {
        let colour = match direction.name.as_str() {
            "read" => 0,
            "write" => 1,
            "sync" => 2,
            "trim" | "reset" => 3,
            "finish" => 4,
            _ => 5 + index % 3,
        };
        (colour, direction)
    })
}

/// A point's parameters in words: `iodepth = 4, bs = 4k`.
pub(super) fn label(point: &PointData) -> String {
    let parts: Vec<String> = point.parameters.iter().map(|(key, value)| format!("{} = {value}", short(key))).collect();
    parts.join(", ")
}

/// The last part of a dotted path, which is what differs between keys.
fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}
