//! Points over their repeats, and published values beside ours.

use crate::metric::{Metric, MetricError};
use crate::report::{Comparison, Estimate, Unit};
use crate::results::RunResult;
use crate::spec::{Experiment, Point, value_text};

/// A point with its estimates, in the order of the metrics asked for.
#[derive(Clone, Debug, PartialEq)]
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

/// One summary a point that has runs, in the sweep's order.
pub fn points(runs: &[RunResult], metrics: &[Metric]) -> Vec<PointSummary> {
    let mut order: Vec<usize> = runs.iter().map(|run| run.point).collect();
    order.dedup();
    order
        .into_iter()
        .filter_map(|point| {
            let repeats: Vec<_> = runs.iter().filter(|run| run.point == point).collect();
            let parameters = repeats.first()?.parameters.clone();
            let estimates = metrics.iter().map(|metric| estimate(metric, &repeats)).collect();
            Some(PointSummary { parameters, estimates })
        })
        .collect()
}

fn estimate(metric: &Metric, repeats: &[&RunResult]) -> Option<Estimate> {
    over_repeats(repeats.iter().filter_map(|run| metric.value(run)))
}

/// Mean and 95 % confidence interval of the repeats' values; `None` without any.
pub(crate) fn over_repeats(values: impl Iterator<Item = f64>) -> Option<Estimate> {
    let interval = stats::mean_interval_95(&values.collect::<Vec<_>>());
    (interval.count > 0).then_some(Estimate { value: interval.mean, half_width: interval.half_width })
}

/// Every published value of the spec beside ours.
pub fn comparisons(
    experiment: &Experiment,
    points: &[Point],
    runs: &[RunResult],
) -> Result<Vec<Comparison>, MetricError> {
    let mut rows = Vec::new();
    for published in &experiment.spec.published {
        let metric: Metric = published.metric.parse()?;
        let matching = points.iter().filter(|point| {
            published.at.iter().all(|(key, value)| {
                point.parameters.iter().any(|(swept, at)| swept == key && value_text(at) == value_text(value))
            })
        });
        for point in matching {
            let repeats: Vec<_> = runs.iter().filter(|run| run.point == point.index).collect();
            rows.push(Comparison {
                metric: published.metric.clone(),
                at: if point.parameters.is_empty() { String::new() } else { point.label() },
                // The metric's name ends in the unit of these numbers.
                unit: Unit::Plain,
                published: published.value,
                published_to: published.to,
                ours: estimate(&metric, &repeats),
                within: published.within,
                source: published.source.clone(),
                note: published.note.clone(),
            });
        }
    }
    Ok(rows)
}
