//! From finished runs to what a report shows.

mod index;
mod plots;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::error::LabError;
use crate::experiment::Experiment;
use crate::finished::Finished;
use crate::host::Host;
use crate::metric::{Metric, sentence};
use crate::quantity::{Effect, PointValue, Quantity, Values};
use crate::report::{
    ChannelUtilisation, Comparison, Counter, CounterGroup, DeviceData, DirectionData, EffectTable, Estimate,
    HeatMapData, PointData, ReportData, Severity, Story, ThroughputSample, Unit, Utilisation, Warning,
};
use crate::results::{DirectionResult, Latency, RunResult, repeats_of};

use crate::spec::{HeatMap, Point, short_key};
use crate::summary::PointSummary;
use crate::value::over_repeats;
use crate::workload;

pub use index::{failed_entry, finished_entry};

const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Everything a report needs; curves and counters of the `pictured` points.
pub fn report_data(
    experiment: &Experiment,
    points: &[Arc<Point>],
    runs: &[RunResult],
    finished: &Finished,
    pictured: Range<usize>,
) -> Result<ReportData, LabError> {
    let (spec, plan) = (&experiment.spec, experiment.plan());
    let values = experiment.values(points, runs);
    let mut seeds: Vec<u64> = runs.iter().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    Ok(ReportData {
        title: spec.title.clone(),
        description: spec.description.clone(),
        source: spec.source.clone(),
        date: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        spec_hash: experiment.hash(),
        // The spec stands below it in the report, and beside the report as a file.
        command: Some("plumb run spec.toml".to_owned()),
        spec_text: toml::to_string(&experiment.document).unwrap_or_default(),
        overrides: Vec::new(),
        seeds,
        points_before: 0,
        devices: devices(experiment, points)?,
        warnings: warnings(runs, finished),
        points: points.iter().filter_map(|point| point_data(point, runs, &pictured)).collect(),
        plots: plots::plots(experiment, values),
        heat_maps: spec.heat_map.iter().zip(&plan.heat_maps).map(|(map, cells)| heat_map(map, cells, values)).collect(),
        effects: effects(finished),
        derived: finished.derived.iter().zip(&plan.derived).map(derived_value).collect(),
        comparisons: finished.shown_comparisons.clone(),
        stories: stories(runs),
    })
}

fn devices(experiment: &Experiment, points: &[Arc<Point>]) -> Result<Vec<DeviceData>, LabError> {
    let mut devices: Vec<DeviceData> = Vec::new();
    // Of a loop device there is no profile to describe.
    for point in points.iter().filter(|point| (Host::of(&point.spec).models_device)(&point.spec)) {
        if devices.iter().all(|device| device.name != point.spec.stack.device) {
            let device = workload::device(&point.spec, &experiment.folder)?;
            devices.push(DeviceData {
                name: point.spec.stack.device.clone(),
                description: device.profile.description.clone(),
                facts: device.facts(),
            });
        }
    }
    Ok(devices)
}

/// Failures that a page lists one by one; and notes.
const FAILURES_LISTED: usize = 30;
const NOTES_LISTED: usize = 20;

fn warnings(runs: &[RunResult], finished: &Finished) -> Vec<Warning> {
    let mut seen = BTreeSet::new();
    let mut listed = |severity: Severity, most: usize, texts: &mut dyn Iterator<Item = String>| {
        let mut new: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
        if new.len() > most {
            let more = new.len() - most;
            new.truncate(most);
            new.push(format!("And {more} more of this kind."));
        }
        new.into_iter().map(|text| Warning { severity, text }).collect::<Vec<_>>()
    };
    let swept = runs.iter().any(|run| !run.parameters.is_empty());
    let mut failures = finished.failures.iter().map(|failure| {
        let at = if swept { format!(" (point {})", failure.point + 1) } else { String::new() };
        format!("{}{at}", failure.text)
    });
    let mut warnings = listed(Severity::Shortfall, FAILURES_LISTED, &mut failures);
    warnings.extend(listed(Severity::Caution, NOTES_LISTED, &mut finished.remarks.iter().cloned()));
    warnings.extend(listed(Severity::Note, NOTES_LISTED, &mut runs.iter().flat_map(|run| &run.notes).cloned()));
    warnings
}

fn stories(runs: &[RunResult]) -> Vec<Story> {
    let first = runs.first().map(|run| run.stories.as_slice()).unwrap_or_default();
    first.iter().map(|story| Story { title: story.title.clone(), path: story.path.clone() }).collect()
}

fn point_data(point: &Point, runs: &[RunResult], pictured: &Range<usize>) -> Option<PointData> {
    let repeats: Vec<&RunResult> = repeats_of(runs, point.index).iter().collect();
    let first = *repeats.first()?;
    let directions = ["read", "write", "trim", "reset", "finish", "sync"];
    let pictured = pictured.contains(&point.index);
    Some(PointData {
        parameters: first.parameters.iter().map(|(key, value)| (short_key(key).to_owned(), value.clone())).collect(),
        repeats: repeats.len() as u32,
        duration_ns: first.elapsed_ns as f64,
        directions: directions.iter().filter_map(|direction| direction_data(direction, &repeats, pictured)).collect(),
        utilisation: if pictured { utilisation(first) } else { Utilisation::default() },
        counters: if pictured { counters(first) } else { Vec::new() },
    })
}

fn direction_data(direction: &str, repeats: &[&RunResult], pictured: bool) -> Option<DirectionData> {
    let parts: Vec<DirectionResult> =
        repeats.iter().filter_map(|run| run.direction(direction)).filter(|part| part.ios > 0).collect();
    let first = parts.first()?;
    let over = |value: &dyn Fn(&DirectionResult) -> f64| over_repeats(parts.iter().map(value));
    let pooled = Latency::merged(parts.iter().map(|part| &part.lat));
    Some(DirectionData {
        name: direction.to_owned(),
        requests: first.ios as f64,
        iops: over(&DirectionResult::iops)?,
        bandwidth: over(&DirectionResult::bytes_per_s)?,
        latency_mean_ns: over(&|part| part.lat.mean_ns)?,
        latency_percentiles_ns: PERCENTILES
            .iter()
            .filter_map(|percent| Some((*percent, over(&|part| part.lat.percentile_ns(*percent) as f64)?)))
            .collect(),
        latency_cdf: if pictured { cdf(&pooled) } else { Vec::new() },
        throughput: if pictured { throughput(first) } else { Vec::new() },
    })
}

fn cdf(latency: &Latency) -> Vec<(f64, f64)> {
    let mut seen = 0;
    latency
        .bins
        .iter()
        .map(|(value_ns, count)| {
            seen += count;
            (value_ns as f64, seen as f64 / latency.count as f64)
        })
        .collect()
}

fn throughput(part: &DirectionResult) -> Vec<ThroughputSample> {
    let series = &part.series;
    let interval_s = series.interval_ns as f64 / 1e9;
    // The job starts and ends inside the first and the last interval; what is
    // left of those is no rate. A run of one interval keeps it.
    let (skip, keep) = if series.bytes.len() > 4 { (1, series.bytes.len() - 2) } else { (0, series.bytes.len()) };
    series
        .intervals()
        .enumerate()
        .skip(skip)
        .take(keep)
        .map(|(index, interval)| ThroughputSample {
            at_ns: (index as f64 + 0.5) * series.interval_ns as f64,
            bytes_per_s: interval.bytes as f64 / interval_s,
            iops: interval.ios as f64 / interval_s,
            latency_mean_ns: interval.lat_mean_ns,
            latency_max_ns: interval.lat_max_ns.map(|ns| ns as f64),
        })
        .collect()
}

/// Counters that are busy times: of channels (`device.channelN_busy_ns`), of
/// dies (`device.dieN_busy_ns`, numbered across the channels first) and of
/// other parts.
fn utilisation(run: &RunResult) -> Utilisation {
    let mut channels: Vec<ChannelUtilisation> = Vec::new();
    let mut dies = Vec::new();
    let mut parts = Vec::new();
    for (name, busy_ns) in &run.counters {
        let Some(part) = name.strip_suffix("_busy_ns") else { continue };
        let fraction = *busy_ns as f64 / run.elapsed_ns.max(1) as f64;
        if let Some(core) = part.strip_prefix("cpu.core") {
            parts.push((format!("CPU {core}"), fraction));
            continue;
        }
        let part = part.strip_prefix("device.").unwrap_or(part);
        let numbered = |kind: &str| part.strip_prefix(kind).is_some_and(|rest| rest.parse::<u32>().is_ok());
        if numbered("channel") {
            channels.push(ChannelUtilisation { bus: fraction, dies: Vec::new() });
        } else if numbered("die") {
            dies.push(fraction);
        } else {
            parts.push((sentence(part), fraction));
        }
    }
    let width = channels.len().max(1);
    for (die, fraction) in dies.into_iter().enumerate() {
        if let Some(channel) = channels.get_mut(die % width) {
            channel.dies.push(fraction);
        }
    }
    Utilisation { channels, parts }
}

fn counters(run: &RunResult) -> Vec<CounterGroup> {
    let mut groups: Vec<CounterGroup> = Vec::new();
    for (prefix, title) in [("device.", "Device"), ("block.", "Block layer"), ("cpu.", "Processors")] {
        let counters: Vec<Counter> = run
            .counters
            .iter()
            .filter(|(name, _)| !name.ends_with("_busy_ns"))
            .filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, *value)))
            .map(|(name, value)| counter(name, value))
            .collect();
        if !counters.is_empty() {
            groups.push(CounterGroup { name: title.to_owned(), counters });
        }
    }
    let amplification = "device.write_amplification".parse::<Metric>().ok().and_then(|metric| metric.value(run));
    // What the device writes of its own accord besides data has a line of its own.
    let with_map = || {
        let written = run.counter("device.flash_written_bytes")? + run.counter("device.journal_written_bytes")?;
        Some(written as f64 / run.counter("device.host_written_bytes")? as f64)
    };
    if let (Some(device), Some(value)) = (groups.first_mut(), amplification) {
        let factor = |name: &str, value| Counter { name: name.to_owned(), value, unit: Unit::Factor };
        let with_map = with_map().filter(|with_map| *with_map > value);
        if let Some(with_map) = with_map {
            device.counters.insert(0, factor("Write amplification, the map journal included", with_map));
        }
        device.counters.insert(0, factor("Write amplification (data written and moved)", value));
    }
    groups
}

fn counter(name: &str, value: u64) -> Counter {
    let (name, unit) = match name {
        _ if name.ends_with("_bytes") => (name.trim_end_matches("_bytes"), Unit::Bytes),
        _ if name.ends_with("_ns") => (name.trim_end_matches("_ns"), Unit::Time),
        _ => (name, Unit::Plain),
    };
    Counter { name: sentence(name), value: value as f64, unit }
}

/// The same comparisons in base units, in which the report chooses prefixes.
pub(crate) fn in_base_units(rows: &[(&Quantity, Comparison)]) -> Vec<Comparison> {
    let in_base = |(quantity, row): &(&Quantity, Comparison)| {
        let (unit, base) = quantity.unit();
        Comparison {
            metric: quantity.label(),
            unit,
            published: row.published * base,
            published_to: row.published_to.map(|to| to * base),
            ours: row.ours.map(|ours| scaled(ours, base)),
            ..row.clone()
        }
    };
    rows.iter().map(in_base).collect()
}

fn scaled(estimate: Estimate, base: f64) -> Estimate {
    Estimate { value: estimate.value * base, half_width: estimate.half_width.map(|half| half * base) }
}

/// What one stream costs the other, as the report shows it.
fn effects(finished: &Finished) -> Option<EffectTable> {
    let quantities: Vec<Quantity> = Effect::SHOWN.into_iter().map(Quantity::Interference).collect();
    let in_base = |(quantity, estimate): (&Quantity, &Option<Estimate>)| {
        estimate.map(|estimate| scaled(estimate, quantity.unit().1))
    };
    let row = |row: &PointSummary| {
        let parameters = row.parameters.iter().map(|(key, value)| (short_key(key).to_owned(), value.clone()));
        (parameters.collect(), quantities.iter().zip(&row.estimates).map(in_base).collect())
    };
    (!finished.interference.is_empty()).then(|| EffectTable {
        columns: quantities.iter().map(|quantity| (quantity.label(), quantity.unit().0)).collect(),
        rows: finished.interference.iter().map(row).collect(),
    })
}

fn derived_value(
    ((_, estimate), quantity): (&(String, Option<Estimate>), &Quantity),
) -> (String, Unit, Option<Estimate>) {
    let (unit, base) = quantity.unit();
    (quantity.label(), unit, estimate.map(|estimate| scaled(estimate, base)))
}

/// Every value of `names` once, in order.
fn once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).map(str::to_owned).collect()
}

fn heat_map(map: &HeatMap, quantity: &Quantity, values: Values<'_>) -> HeatMapData {
    let (unit, base) = quantity.unit();
    let places = values.of(quantity);
    let names = |key: &str| once(places.iter().map(|place| place.parameter(key)));
    let (x_names, y_names) = (names(&map.x), names(&map.y));
    let by = map.by.as_deref().unwrap_or_default();
    let panel = |name: &String| {
        let cell = |x: &String, y: &String| {
            let here = |place: &&PointValue| {
                place.parameter(by) == name && place.parameter(&map.x) == x && place.parameter(&map.y) == y
            };
            places.iter().find(here)?.estimate.map(|estimate| estimate.value * base)
        };
        let row = |y: &String| x_names.iter().map(|x| cell(x, y)).collect();
        (name.clone(), y_names.iter().map(row).collect())
    };
    HeatMapData {
        title: if map.title.is_empty() { quantity.label() } else { map.title.clone() },
        x_label: short_key(&map.x).to_owned(),
        y_label: short_key(&map.y).to_owned(),
        panels: names(by).iter().map(panel).collect(),
        value_label: quantity.label(),
        unit,
        x_names,
        y_names,
    }
}
