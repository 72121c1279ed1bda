//! Points over their repeats, and published values beside ours.

use serde::{Deserialize, Serialize};

use crate::metric::{Metric, MetricError};
use crate::quantity::{Effect, Place, Quantity, Values};
use crate::report::{Comparison, Estimate, Unit};
use crate::results::RunResult;
use crate::spec::{Derived, Experiment};

/// A point with its estimates, in the order of the metrics asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// Swept keys and values.
    pub parameters: Vec<(String, String)>,
    /// One for each metric; `None` where no run has it.
    pub estimates: Vec<Option<Estimate>>,
}

/// The metrics an experiment prints.
pub fn metrics(experiment: &Experiment, runs: &[RunResult]) -> Result<Vec<Metric>, MetricError> {
    if experiment.spec.metrics.is_empty() {
        return Ok(Metric::defaults(runs));
    }
    experiment.spec.metrics.iter().map(|name| name.parse()).collect()
}

/// One summary a point that has runs, which are in the sweep's order.
pub fn points(runs: &[RunResult], metrics: &[Metric]) -> Vec<PointSummary> {
    runs.chunk_by(|one, other| one.point == other.point)
        .map(|repeats| {
            let estimates = metrics.iter().map(|metric| estimate(metric, repeats)).collect();
            PointSummary { parameters: repeats[0].parameters.clone(), estimates }
        })
        .collect()
}

/// The runs of a point among `runs`, which are in the sweep's order.
pub(crate) fn repeats_of(runs: &[RunResult], point: usize) -> &[RunResult] {
    let from = runs.partition_point(|run| run.point < point);
    let count = runs[from..].partition_point(|run| run.point == point);
    &runs[from..from + count]
}

fn estimate(metric: &Metric, repeats: &[RunResult]) -> Option<Estimate> {
    over_repeats(repeats.iter().filter_map(|run| metric.value(run)))
}

/// Mean and 95 % confidence interval of the repeats' values; `None` without any.
pub(crate) fn over_repeats(values: impl Iterator<Item = f64>) -> Option<Estimate> {
    let interval = stats::mean_interval_95(&values.collect::<Vec<_>>());
    (interval.count > 0).then_some(Estimate { value: interval.mean, half_width: interval.half_width })
}

/// Every published value of the spec beside ours.
pub fn comparisons(experiment: &Experiment, values: Values<'_>) -> Result<Vec<Comparison>, MetricError> {
    let mut rows = Vec::new();
    for published in &experiment.spec.published {
        let quantity = Quantity::parse(&published.metric, &experiment.spec)?;
        for place in values.at(&quantity, &published.at) {
            rows.push(Comparison {
                metric: published.metric.clone(),
                at: place.label(),
                // The metric's name ends in the unit of these numbers.
                unit: Unit::Plain,
                published: published.value,
                published_to: published.to,
                ours: place.estimate,
                within: published.within,
                source: published.source.clone(),
                note: published.note.clone(),
            });
        }
    }
    Ok(rows)
}

/// What one stream costs the other, one row a combination of the swept values
/// that are not averaged over; estimates in the order of `Effect::SHOWN`.
pub fn interference(experiment: &Experiment, values: Values<'_>) -> Vec<PointSummary> {
    if experiment.spec.interference.is_none() {
        return Vec::new();
    }
    let columns: Vec<Vec<Place>> =
        Effect::SHOWN.into_iter().map(|effect| values.of(&Quantity::Interference(effect))).collect();
    let rows = columns.first().map_or(&[][..], Vec::as_slice);
    let row = |(index, place): (usize, &Place)| PointSummary {
        parameters: place.parameters.clone(),
        estimates: columns.iter().map(|column| column.get(index).and_then(|place| place.estimate)).collect(),
    };
    rows.iter().enumerate().map(row).collect()
}

/// The values that the spec derives from others, in its order.
pub fn derived(experiment: &Experiment, values: Values<'_>) -> Result<Vec<(Quantity, Option<Estimate>)>, MetricError> {
    let spec = &experiment.spec;
    let value = |row: &Derived| {
        let quantity = Quantity::parse(&format!("derived.{}", row.name), spec)?;
        let estimate = values.of(&quantity).first().and_then(|place| place.estimate);
        Ok((quantity, estimate))
    };
    spec.derived.iter().map(value).collect()
}
