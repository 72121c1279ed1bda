//! Throughput and latency over time.

use super::chart::{Chart, Line};
use super::html::views;
use super::published::Reference;
use super::scale::Axis;
use super::{DirectionData, ThroughputSample, Unit};

/// Bandwidth, operations and latencies of `directions` (with their colours) over time.
/// `name` is unique in the page.
pub(super) fn over_time(name: &str, directions: &[(usize, &DirectionData)]) -> Option<String> {
    let drawn: Vec<_> = directions.iter().filter(|(_, direction)| direction.throughput.len() > 1).collect();
    let samples = || drawn.iter().flat_map(|(_, direction)| &direction.throughput);
    let end = samples().map(|sample| sample.at_ns).max_by(f64::total_cmp)?;
    let chart = |title: &str, unit: Unit, of: fn(&ThroughputSample) -> Option<f64>| {
        let highest = samples().filter_map(of).fold(0.0, f64::max);
        let lines = drawn.iter().map(|(colour, direction)| Line {
            name: direction.name.clone(),
            colour: *colour,
            points: direction.throughput.iter().filter_map(|sample| Some((sample.at_ns, of(sample)?))).collect(),
            filled: drawn.len() == 1,
            joined: true,
            ..Line::default()
        });
        Chart {
            x: Axis::from_zero(end, "Time since measuring began", Unit::Time).ending_at(end),
            y: Axis::from_zero(highest, title, unit),
            lines: lines.collect(),
            summary: format!("{title} over time"),
            reference: Reference::default(),
        }
        .html()
    };
    let bandwidth = chart("Bandwidth", Unit::Bandwidth, |sample| Some(sample.bytes_per_s));
    let operations = chart("Operations", Unit::Iops, |sample| Some(sample.iops));
    let mut shown = vec![("Bandwidth", bandwidth), ("Operations", operations)];
    // Records of earlier versions have none, nor has the real fio's output.
    if samples().any(|sample| sample.latency_mean_ns.is_some()) {
        shown.push(("Mean latency", chart("Mean latency", Unit::Time, |sample| sample.latency_mean_ns)));
        shown.push(("Longest latency", chart("Longest latency", Unit::Time, |sample| sample.latency_max_ns)));
    }
    Some(views(name, &shown))
}
