//! Throughput over time.

use super::chart::{Chart, Line};
use super::html::views;
use super::scale::Axis;
use super::{DirectionData, ThroughputSample, Unit};

/// Bandwidth and operations of `directions` (with their colours) over time.
/// `name` is unique in the page.
pub(super) fn over_time(name: &str, directions: &[(usize, &DirectionData)]) -> Option<String> {
    let drawn: Vec<_> = directions.iter().filter(|(_, direction)| direction.throughput.len() > 1).collect();
    let samples = || drawn.iter().flat_map(|(_, direction)| &direction.throughput);
    let end = samples().map(|sample| sample.at_ns).max_by(f64::total_cmp)?;
    let chart = |title: &str, unit: Unit, of: fn(&ThroughputSample) -> f64| {
        let lines = drawn.iter().map(|(colour, direction)| Line {
            name: direction.name.clone(),
            colour: *colour,
            points: direction.throughput.iter().map(|sample| (sample.at_ns, of(sample))).collect(),
            filled: drawn.len() == 1,
            joined: true,
            ..Line::default()
        });
        Chart {
            x: Axis::from_zero(end, "Time since measuring began", Unit::Time).ending_at(end),
            y: Axis::from_zero(samples().map(of).fold(0.0, f64::max), title, unit),
            lines: lines.collect(),
            summary: format!("{title} over time"),
        }
        .html()
    };
    let bandwidth = chart("Bandwidth", Unit::Bandwidth, |sample| sample.bytes_per_s);
    let operations = chart("Operations", Unit::Iops, |sample| sample.iops);
    Some(views(name, &[("Bandwidth", bandwidth), ("Operations", operations)]))
}
