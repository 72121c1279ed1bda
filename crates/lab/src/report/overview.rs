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

/// One row for each point and direction; points below `linked` link to their pictures.
pub(super) fn table(points: &[PointData], linked: usize) -> String {
    let keys: Vec<&str> =
        points.first().map_or(Vec::new(), |point| point.parameters.iter().map(|(key, _)| key.as_str()).collect());
    let percentiles: Vec<f64> = PERCENTILES
        .into_iter()
        .filter(|percent| {
            points.iter().flat_map(|point| &point.directions).any(|direction| at_percent(direction, *percent).is_some())
        })
        .collect();
    let mut out =
        String::from("<div class=\"scroll tall\"><table class=\"overview\"><thead><tr><th class=\"n\">#</th>");
    for key in &keys {
        out += &format!("<th>{}</th>", esc(short(key)));
    }
    out += "<th></th><th class=\"n\">Operations</th><th class=\"n\">Bandwidth</th><th class=\"n\">Mean</th>";
    for percent in &percentiles {
        out += &format!("<th class=\"n\">{}</th>", percentile(*percent));
    }
    out += "</tr></thead><tbody>";
    for (index, point) in points.iter().enumerate() {
        let link = if index < linked {
            format!("<a href=\"#point-{0}\">{0}</a>", index + 1)
        } else {
            format!("{}", index + 1)
        };
        if point.directions.is_empty() {
            let rest = keys.len() + 4 + percentiles.len();
            let label = label(point);
            out += &format!("<tr class=\"first\"><td class=\"n\">{link}</td><td colspan=\"{rest}\">");
            out += &format!("{} (no request served)</td></tr>\n", esc(&label));
        }
        for (row, (colour, direction)) in coloured(&point.directions).enumerate() {
            out += if row == 0 { "<tr class=\"first\">" } else { "<tr>" };
            if row == 0 {
                let rows = point.directions.len();
                out += &format!("<td class=\"n\" rowspan=\"{rows}\">{link}</td>");
                for (position, _) in keys.iter().enumerate() {
                    let value = point.parameters.get(position).map_or("", |(_, value)| value);
                    out += &format!("<td rowspan=\"{rows}\">{}</td>", esc(value));
                }
            }
            let cells = [(direction.iops, &Unit::Iops), (direction.bandwidth, &Unit::Bandwidth)];
            out += &format!("<td><span class=\"key c{colour}\"><i></i>{}</span></td>", esc(&direction.name));
            for (estimate, unit) in cells.into_iter().chain([(direction.latency_mean_ns, &Unit::Time)]) {
                // A flush moves no data.
                let nothing = estimate.value == 0.0 && *unit == Unit::Bandwidth;
                let text = if nothing { NONE.to_owned() } else { show_stacked(estimate, unit) };
                out += &format!("<td class=\"n\">{text}</td>");
            }
            for percent in &percentiles {
                let text = at_percent(direction, *percent).map_or("–".to_owned(), |it| show_stacked(it, &Unit::Time));
                out += &format!("<td class=\"n\">{text}</td>");
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
