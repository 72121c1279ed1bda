//! What a report shows: plain values, filled by the runner, drawn by [`super::render`].
//!
//! Every number is in a base unit named by its field or its [`Unit`]; the
//! report chooses prefixes and rounding. A value that is not finite is shown
//! as a dash and left out of plots. Text may hold anything: it is escaped.

use serde::Serialize;
use trace::Path;

pub use crate::value::{Comparison, Estimate, Unit};

/// Everything in one report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReportData {
    /// One line.
    pub title: String,
    /// Paragraphs, separated by blank lines: the question, and how to read the answer.
    pub description: String,
    /// The publication whose figure this is, if it is one.
    pub source: Option<String>,
    /// The date to show; reports without one are the same bytes every time.
    pub date: Option<String>,
    /// Version of Plumb that ran.
    pub version: String,
    /// Identity of the spec after overrides.
    pub spec_hash: String,
    /// The command that makes these results again.
    pub command: Option<String>,
    /// The spec as it was run.
    pub spec_text: String,
    /// Overrides, each `key=value`.
    pub overrides: Vec<String>,
    /// The seed of each repeat.
    pub seeds: Vec<u64>,
    /// The devices that ran: one, unless the sweep varies it.
    pub devices: Vec<DeviceData>,
    /// What the reader must know before believing a number.
    pub warnings: Vec<Warning>,
    /// The points of the sweep, in order.
    pub points: Vec<PointData>,
    /// How many points of the sweep come before these.
    pub points_before: usize,
    /// Metrics against swept parameters.
    pub plots: Vec<SweepPlot>,
    /// Values over two swept parameters.
    pub heat_maps: Vec<HeatMapData>,
    /// What one stream of commands costs another, where that was measured.
    pub effects: Option<EffectTable>,
    /// Values made of others: what, its unit, and ours where there is one.
    pub derived: Vec<(String, Unit, Option<Estimate>)>,
    /// Published values beside ours.
    pub comparisons: Vec<Comparison>,
    /// The story of one request of each kind.
    pub stories: Vec<Story>,
}

/// A device as its profile describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceData {
    /// The profile's name, such as `optane-905p-960gb`.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// Facts in reading order: ("Channels", "8").
    pub facts: Vec<(String, String)>,
}

/// How bad a warning is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Severity {
    /// The run did less than it was asked to; shown in red.
    Shortfall,
    /// The numbers do not mean what they seem to.
    Caution,
    /// Worth knowing.
    Note,
}

/// Something the reader must know.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// How bad.
    pub severity: Severity,
    /// What.
    pub text: String,
}

/// One point of the sweep, over all its repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PointData {
    /// Swept parameters in the spec's order; empty when nothing is swept.
    pub parameters: Vec<(String, String)>,
    /// Repeats that finished.
    pub repeats: u32,
    /// Modelled time of one run.
    pub duration_ns: f64,
    /// Directions that did I/O (`read`, `write`, `trim`, `sync`).
    pub directions: Vec<DirectionData>,
    /// How busy the device's parts were.
    pub utilisation: Utilisation,
    /// Device, block layer and host counters, in groups.
    pub counters: Vec<CounterGroup>,
}

/// One direction of a point's I/O.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DirectionData {
    /// Its name in fio's words.
    pub name: String,
    /// Requests served in one run.
    pub requests: f64,
    /// Operations per second.
    pub iops: Estimate,
    /// Bytes per second.
    pub bandwidth: Estimate,
    /// Mean latency in nanoseconds.
    pub latency_mean_ns: Estimate,
    /// Percentiles: (50 for the median, latency in nanoseconds), ascending.
    pub latency_percentiles_ns: Vec<(f64, Estimate)>,
    /// Latency distribution: (nanoseconds, fraction of requests at or below), ascending.
    pub latency_cdf: Vec<(f64, f64)>,
    /// Throughput of the first repeat over time, ascending.
    pub throughput: Vec<ThroughputSample>,
}

/// Throughput in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ThroughputSample {
    /// Middle of the interval, in nanoseconds since the start of measuring.
    pub at_ns: f64,
    /// Bytes per second in it.
    pub bytes_per_s: f64,
    /// Operations per second in it.
    pub iops: f64,
    /// Mean latency in it, in nanoseconds; none where nothing completed.
    pub latency_mean_ns: Option<f64>,
    /// The longest latency in it.
    pub latency_max_ns: Option<f64>,
}

/// How busy the device's parts were: fractions of the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Utilisation {
    /// Channels in order.
    pub channels: Vec<ChannelUtilisation>,
    /// Other parts: ("Host link", 0.4), ("Controller", 0.1), ("CPU 0", 0.7).
    pub parts: Vec<(String, f64)>,
}

/// One channel and the dies on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChannelUtilisation {
    /// The bus.
    pub bus: f64,
    /// Its dies in order.
    pub dies: Vec<f64>,
}

/// Counters of one part of the stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CounterGroup {
    /// The part: `Flash translation layer`, `Block layer`.
    pub name: String,
    /// Its counters in reading order.
    pub counters: Vec<Counter>,
}

/// One counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counter {
    /// Its name as a reader would say it.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// What it counts.
    pub unit: Unit,
}

/// A metric against a swept parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SweepPlot {
    /// Heading.
    pub title: String,
    /// Name of the swept parameter.
    pub x_label: String,
    /// Its unit, for tick labels.
    pub x_unit: Unit,
    /// Whether its axis is logarithmic.
    pub log_x: bool,
    /// Names of the parameter's values when they are not numbers; a line's `x`
    /// is then an index into this list.
    pub x_names: Vec<String>,
    /// Name of the metric.
    pub y_label: String,
    /// Its unit.
    pub y_unit: Unit,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// One line each.
    pub lines: Vec<SweepLine>,
    /// The same at each of several places, side by side under the same axes:
    /// a name and its lines; `lines` is empty then.
    pub facets: Vec<(String, Vec<SweepLine>)>,
    /// What is not drawn, where that is too much for a picture.
    pub left_out: String,
}

/// One line of a sweep plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SweepLine {
    /// Its name in the legend; may be empty when it is the only one.
    pub name: String,
    /// (swept value, metric), ascending.
    pub points: Vec<(f64, Estimate)>,
    /// Published values of the same metric: (swept value, lower end, upper end).
    pub published: Vec<(f64, f64, f64)>,
}

/// A value over two swept parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeatMapData {
    /// Heading.
    pub title: String,
    /// Name of the parameter across.
    pub x_label: String,
    /// Its values.
    pub x_names: Vec<String>,
    /// Name of the parameter down.
    pub y_label: String,
    /// Its values, from the top.
    pub y_names: Vec<String>,
    /// What the cells show.
    pub value_label: String,
    /// Unit of the cells.
    pub unit: Unit,
    /// Maps side by side, under one scale: a name, which may be empty for the
    /// only one, and rows of cells.
    pub panels: Vec<(String, Vec<Vec<Option<f64>>>)>,
}

/// What one stream of commands costs another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EffectTable {
    /// The measures: name and unit.
    pub columns: Vec<(String, Unit)>,
    /// Swept parameters that tell the rows apart, and a cell for each column.
    pub rows: Vec<EffectRow>,
}

/// Swept parameters as text, and one estimate for each column.
pub type EffectRow = (Vec<(String, String)>, Vec<Option<Estimate>>);

/// The story of one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Story {
    /// Which request, and why this one: `A median 4 KiB read`.
    pub title: String,
    /// What it did and when, from [`trace::follow`].
    pub path: Path,
}
