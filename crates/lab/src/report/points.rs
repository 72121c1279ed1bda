//! One point in full.

use super::html::esc;
use super::latency::{Curve, distribution, percentile_table};
use super::number::show;
use super::overview::{coloured, label};
use super::throughput::over_time;
use super::utilisation::heat;
use super::{CounterGroup, DirectionData, PointData, Unit};

/// Points whose distributions are drawn together.
const OVERLAID: usize = 8;

/// The distributions of all points of a small sweep, one picture a direction.
pub(super) fn overlay(points: &[PointData]) -> String {
    if !(2..=OVERLAID).contains(&points.len()) {
        return String::new();
    }
    let mut names: Vec<&str> = Vec::new();
    for direction in points.iter().flat_map(|point| &point.directions) {
        if !names.contains(&direction.name.as_str()) {
            names.push(&direction.name);
        }
    }
    let mut body = String::new();
    for (index, name) in names.iter().enumerate() {
        let curves: Vec<Curve<'_>> = points
            .iter()
            .enumerate()
            .flat_map(|(colour, point)| {
                let same = point.directions.iter().filter(|direction| direction.name == *name);
                same.map(move |direction| Curve { name: label(point), colour, direction })
            })
            .collect();
        if let Some(picture) = distribution(&format!("overlay-{index}"), &curves, false) {
            body += &format!("<h3>{} latency at each point</h3>\n{picture}", esc(name));
        }
    }
    body
}

/// The pictures and tables of point `number`.
pub(super) fn point(number: usize, point: &PointData, alone: bool) -> String {
    let mut out = format!("<article class=\"point\" id=\"point-{number}\">");
    if !alone {
        let label = label(point);
        out += &format!("<h3>Point {number}{}{}</h3>\n", if label.is_empty() { "" } else { ": " }, esc(&label));
    }
    let repeats = match point.repeats {
        1 => "1 run".to_owned(),
        repeats => format!("{repeats} runs, each"),
    };
    out += &format!(
        "<p class=\"note\">{repeats} of {} of modelled time.{}</p>\n",
        show(point.duration_ns, &Unit::Time),
        if point.repeats > 1 { " ± is half of the 95 % confidence interval over the runs." } else { "" }
    );
    if point.directions.is_empty() {
        out += "<p class=\"note\">No request was served here.</p>\n";
    }
    let directions: Vec<(usize, &DirectionData)> = coloured(&point.directions).collect();
    let curves: Vec<Curve<'_>> = directions
        .iter()
        .map(|(colour, direction)| Curve { name: direction.name.clone(), colour: *colour, direction })
        .collect();
    let mut part = |heading: &str, body: Option<String>| {
        if let Some(body) = body {
            out += &format!("<div class=\"part\"><h4>{heading}</h4>\n{body}</div>\n");
        }
    };
    part("Latency", distribution(&format!("cdf-{number}"), &curves, true));
    part("Percentiles", percentile_table(&directions));
    part("Over time", over_time(&format!("time-{number}"), &directions));
    part("How busy the device was", heat(&point.utilisation));
    part("Counters", counters(&point.counters));
    out + "</article>\n"
}

fn counters(groups: &[CounterGroup]) -> Option<String> {
    let filled: Vec<&CounterGroup> = groups.iter().filter(|group| !group.counters.is_empty()).collect();
    if filled.is_empty() {
        return None;
    }
    let mut out = String::from("<div class=\"counters\">");
    for group in filled {
        out += &format!("<table><caption>{}</caption><tbody>", esc(&group.name));
        for counter in &group.counters {
            out += &format!(
                "<tr><th scope=\"row\">{}</th><td class=\"n\" title=\"{}\">{}</td></tr>",
                esc(&counter.name),
                if counter.value.is_finite() { counter.value.to_string() } else { String::new() },
                esc(&show(counter.value, &counter.unit))
            );
        }
        out += "</tbody></table>";
    }
    Some(out + "</div>\n")
}
