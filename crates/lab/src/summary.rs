//! Points over their repeats, and published values beside ours.

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::quantity::{Effect, PointValue, Quantity, Values};
use crate::results::RunResult;
use crate::value::{Comparison, Estimate, Unit, over_repeats};

/// A point with its estimates, in the order of the metrics asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// Swept keys and values.
    pub parameters: Vec<(String, String)>,
    /// One for each metric; `None` where no run has it.
    pub estimates: Vec<Option<Estimate>>,
}

/// The metrics an experiment prints.
pub fn metrics(experiment: &Experiment, runs: &[RunResult]) -> Vec<Metric> {
    let asked = &experiment.plan().metrics;
    if asked.is_empty() { Metric::defaults(runs) } else { asked.clone() }
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

fn estimate(metric: &Metric, repeats: &[RunResult]) -> Option<Estimate> {
    over_repeats(repeats.iter().filter_map(|run| metric.value(run)))
}

/// Every published value of the spec beside ours, with what it is.
pub fn comparisons<'a>(experiment: &'a Experiment, values: Values<'_>) -> Vec<(&'a Quantity, Comparison)> {
    let mut rows = Vec::new();
    for (published, quantity) in experiment.spec.published.iter().zip(&experiment.plan().published) {
        for place in values.at(quantity, &published.at) {
            let row = Comparison {
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
            };
            rows.push((quantity, row));
        }
    }
    rows
}

/// What one stream costs the other, one row a combination of the swept values
/// that are not averaged over; estimates in the order of `Effect::SHOWN`.
pub fn interference(experiment: &Experiment, values: Values<'_>) -> Vec<PointSummary> {
    if experiment.spec.interference.is_none() {
        return Vec::new();
    }
    let columns: Vec<Vec<PointValue>> =
        Effect::SHOWN.into_iter().map(|effect| values.of(&Quantity::Interference(effect))).collect();
    let rows = columns.first().map_or(&[][..], Vec::as_slice);
    let row = |(index, place): (usize, &PointValue)| PointSummary {
        parameters: place.parameters.clone(),
        estimates: columns.iter().map(|column| column.get(index).and_then(|place| place.estimate)).collect(),
    };
    rows.iter().enumerate().map(row).collect()
}

/// The values that the spec derives from others, in its order.
pub fn derived<'a>(experiment: &'a Experiment, values: Values<'_>) -> Vec<(&'a Quantity, Option<Estimate>)> {
    let value = |quantity: &'a Quantity| {
        let estimate = values.of(quantity).first().and_then(|place| place.estimate);
        (quantity, estimate)
    };
    experiment.plan().derived.iter().map(value).collect()
}
