//! From finished runs to what a report shows.

use crate::metric::{Metric, sentence};
use crate::outputs::Finished;
use crate::quantity::{Effect, Place, Quantity, Values};
use crate::report::{
    ChannelUtilisation, Comparison, Counter, CounterGroup, DeviceData, DirectionData, EffectTable, Estimate,
    HeatMapData, PointData, ReportData, Severity, Story, SweepLine, SweepPlot, ThroughputSample, Unit, Utilisation,
    Warning,
};
use crate::results::{DirectionResult, Latency, RunResult};
use crate::run::{Inputs, LabError};
use crate::spec::{Experiment, HeatMap, HostKind, Plot, Point, Spec, short_key};
use crate::summary::{self, PointSummary};

const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Everything a report needs.
pub fn report_data(
    experiment: &Experiment,
    points: &[Point],
    runs: &[RunResult],
    finished: &Finished,
) -> Result<ReportData, LabError> {
    let spec = &experiment.spec;
    let values = Values::new(experiment, points, runs);
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
        devices: devices(experiment, points)?,
        warnings: warnings(runs),
        points: points.iter().filter_map(|point| point_data(point, runs)).collect(),
        plots: spec.plot.iter().map(|plot| sweep_plot(plot, experiment, values)).collect::<Result<_, _>>()?,
        heat_maps: spec.heat_map.iter().map(|map| heat_map(map, experiment, values)).collect::<Result<_, _>>()?,
        effects: effects(finished),
        derived: finished.derived.iter().map(derived_value).collect(),
        comparisons: finished.shown_comparisons.clone(),
        stories: stories(runs),
    })
}

fn devices(experiment: &Experiment, points: &[Point]) -> Result<Vec<DeviceData>, LabError> {
    let mut devices: Vec<DeviceData> = Vec::new();
    // Under the kernel of this machine there is no profile to describe.
    for point in points.iter().filter(|point| point.spec.stack.host != HostKind::Live) {
        if devices.iter().all(|device| device.name != point.spec.stack.device) {
            let device = Inputs::device(&point.spec, &experiment.folder)?;
            devices.push(DeviceData {
                name: point.spec.stack.device.clone(),
                description: device.profile.description.clone(),
                facts: device.facts(),
            });
        }
    }
    Ok(devices)
}

fn warnings(runs: &[RunResult]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    let mut add = |severity, text: String| {
        if warnings.iter().all(|warning| warning.text != text) {
            warnings.push(Warning { severity, text });
        }
    };
    for run in runs {
        let at = if run.parameters.is_empty() { String::new() } else { format!(" (point {})", run.point) };
        run.failures.iter().for_each(|text| add(Severity::Shortfall, format!("{text}{at}")));
        run.notes.iter().for_each(|text| add(Severity::Note, text.clone()));
    }
    warnings
}

fn stories(runs: &[RunResult]) -> Vec<Story> {
    let first = runs.first().map(|run| run.stories.as_slice()).unwrap_or_default();
    first.iter().map(|story| Story { title: story.title.clone(), path: story.path.clone() }).collect()
}

fn point_data(point: &Point, runs: &[RunResult]) -> Option<PointData> {
    let repeats: Vec<&RunResult> = runs.iter().filter(|run| run.point == point.index).collect();
    let first = *repeats.first()?;
    let directions = ["read", "write", "trim", "reset", "finish", "sync"];
    Some(PointData {
        parameters: first.parameters.iter().map(|(key, value)| (short_key(key).to_owned(), value.clone())).collect(),
        repeats: repeats.len() as u32,
        duration_ns: first.elapsed_ns as f64,
        directions: directions.iter().filter_map(|direction| direction_data(direction, &repeats)).collect(),
        utilisation: utilisation(first),
        counters: counters(first),
    })
}

fn direction_data(direction: &str, repeats: &[&RunResult]) -> Option<DirectionData> {
    let parts: Vec<DirectionResult> =
        repeats.iter().filter_map(|run| run.direction(direction)).filter(|part| part.ios > 0).collect();
    let first = parts.first()?;
    let over = |value: &dyn Fn(&DirectionResult) -> f64| summary::over_repeats(parts.iter().map(value));
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
        latency_cdf: cdf(&pooled),
        throughput: throughput(first),
    })
}

fn cdf(latency: &Latency) -> Vec<(f64, f64)> {
    let mut seen = 0;
    latency
        .bins
        .iter()
        .map(|(value_ns, count)| {
            seen += count;
            (*value_ns as f64, seen as f64 / latency.count as f64)
        })
        .collect()
}

fn throughput(part: &DirectionResult) -> Vec<ThroughputSample> {
    let series = &part.series;
    let interval_s = series.interval_ns as f64 / 1e9;
    // The job starts and ends inside the first and the last interval; what is
    // left of those is no rate. A run of one interval keeps it.
    let (skip, keep) = if series.bytes.len() > 4 { (1, series.bytes.len() - 2) } else { (0, series.bytes.len()) };
    let samples = series.bytes.iter().zip(&series.ios).enumerate().skip(skip).take(keep);
    samples
        .map(|(index, (bytes, ios))| ThroughputSample {
            at_ns: (index as f64 + 0.5) * series.interval_ns as f64,
            bytes_per_s: *bytes as f64 / interval_s,
            iops: *ios as f64 / interval_s,
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
    if let (Some(device), Some(value)) = (groups.first_mut(), amplification) {
        device.counters.insert(0, Counter { name: "Write amplification".to_owned(), value, unit: Unit::Factor });
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
pub(crate) fn in_base_units(rows: &[Comparison], spec: &Spec) -> Result<Vec<Comparison>, LabError> {
    let in_base = |row: &Comparison| {
        let quantity = Quantity::parse(&row.metric, spec)?;
        let (unit, base) = quantity.unit();
        Ok(Comparison {
            metric: quantity.label(),
            unit,
            published: row.published * base,
            published_to: row.published_to.map(|to| to * base),
            ours: row.ours.map(|ours| scaled(ours, base)),
            ..row.clone()
        })
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

fn derived_value((quantity, estimate): &(Quantity, Option<Estimate>)) -> (String, Unit, Option<Estimate>) {
    let (unit, base) = quantity.unit();
    (quantity.label(), unit, estimate.map(|estimate| scaled(estimate, base)))
}

/// Every value of `names` once, in order.
fn once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for name in names {
        if known.iter().all(|known| known != name) {
            known.push(name.to_owned());
        }
    }
    known
}

fn heat_map(map: &HeatMap, experiment: &Experiment, values: Values<'_>) -> Result<HeatMapData, LabError> {
    let quantity = Quantity::parse(&map.value, &experiment.spec)?;
    let (unit, base) = quantity.unit();
    let places = values.of(&quantity);
    let names = |key: &str| once(places.iter().map(|place| place.parameter(key)));
    let (x_names, y_names) = (names(&map.x), names(&map.y));
    let by = map.by.as_deref().unwrap_or_default();
    let panel = |name: &String| {
        let cell = |x: &String, y: &String| {
            let here = |place: &&Place| {
                place.parameter(by) == name && place.parameter(&map.x) == x && place.parameter(&map.y) == y
            };
            places.iter().find(here)?.estimate.map(|estimate| estimate.value * base)
        };
        let row = |y: &String| x_names.iter().map(|x| cell(x, y)).collect();
        (name.clone(), y_names.iter().map(row).collect())
    };
    Ok(HeatMapData {
        title: if map.title.is_empty() { quantity.label() } else { map.title.clone() },
        x_label: short_key(&map.x).to_owned(),
        y_label: short_key(&map.y).to_owned(),
        panels: names(by).iter().map(panel).collect(),
        value_label: quantity.label(),
        unit,
        x_names,
        y_names,
    })
}

fn sweep_plot(plot: &Plot, experiment: &Experiment, values: Values<'_>) -> Result<SweepPlot, LabError> {
    let quantity = Quantity::parse(&plot.y, &experiment.spec)?;
    let (unit, base) = quantity.unit();
    let places = values.of(&quantity);
    let series_of = |place: &Place| plot.series.as_ref().map_or("", |key| place.parameter(key)).to_owned();
    let names = once(places.iter().map(|place| place.parameter(&plot.x)));
    let series: Vec<String> = places.iter().map(series_of).collect();
    let series = once(series.iter().map(String::as_str));
    let sizes = names.iter().any(|name| name.parse::<f64>().is_err());
    let numbers: Option<Vec<f64>> = names.iter().map(|name| number(name)).collect();
    let x_of = |place: &Place| {
        let index = names.iter().position(|known| known == place.parameter(&plot.x)).unwrap_or(0);
        numbers.as_ref().map_or(index as f64, |numbers| numbers[index])
    };
    let line = |name: &String| {
        let here: Vec<&Place> = places.iter().filter(|place| series_of(place) == *name).collect();
        let published = experiment.spec.published.iter().filter(|row| row.metric == plot.y).filter_map(|row| {
            let place = here.iter().find(|place| place.is_at(&row.at))?;
            Some((x_of(place), row.value * base, row.to.unwrap_or(row.value) * base))
        });
        SweepLine {
            name: name.clone(),
            published: published.collect(),
            points: here.iter().filter_map(|place| Some((x_of(place), scaled(place.estimate?, base)))).collect(),
        }
    };
    Ok(SweepPlot {
        title: if plot.title.is_empty() {
            format!("{} by {}", quantity.label(), short_key(&plot.x))
        } else {
            plot.title.clone()
        },
        x_label: short_key(&plot.x).to_owned(),
        x_unit: if sizes && numbers.is_some() { Unit::Bytes } else { Unit::Plain },
        log_x: plot.log_x,
        lines: series.iter().map(line).collect(),
        x_names: if numbers.is_some() { Vec::new() } else { names },
        y_label: quantity.label(),
        y_unit: unit,
    })
}

/// A swept value as a number: itself, or bytes for a size such as `4k`.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().or_else(|| text.parse::<units::ByteSize>().ok().map(|size| size.0 as f64))
}
