//! What a finished experiment comes to.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::experiment::Experiment;
use crate::quantity::{Effect, Quantity};
use crate::results::{RunResult, Swept};
use crate::summary::PointSummary;
use crate::value::{Comparison, Estimate};

/// What a finished experiment comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// How many runs there are.
    pub runs: usize,
    /// The metrics printed.
    pub metrics: Vec<String>,
    /// One row a point.
    pub points: Vec<PointSummary>,
    /// What one stream costs the other, where the spec asks; one estimate for
    /// each of `Effect::SHOWN`.
    pub interference: Vec<PointSummary>,
    /// Values derived from others.
    pub derived: Vec<(String, Option<Estimate>)>,
    /// Published values beside ours, in the units of their metrics' names.
    pub comparisons: Vec<Comparison>,
    /// The same as pages show them.
    pub shown_comparisons: Vec<Comparison>,
    /// What went wrong.
    pub failures: Vec<Failed>,
    /// What changes the meaning of the numbers: one line each.
    pub remarks: Vec<String>,
    /// What fio would have printed of the only run.
    pub text: Option<String>,
    /// fio's json+ output of the only run.
    pub fio_json: Option<String>,
}

/// What went wrong in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The point.
    pub point: usize,
    /// Which repeat.
    pub repeat: u32,
    /// One line.
    pub text: String,
}

impl Finished {
    /// What `--json` prints: fio's json+ when the experiment is a single fio run.
    pub fn json_text(&self, experiment: &Experiment) -> String {
        self.fio_json.clone().unwrap_or_else(|| format!("{:#}", self.json(experiment)))
    }

    /// All of it as JSON.
    pub fn json(&self, experiment: &Experiment) -> serde_json::Value {
        json_of(experiment, self)
    }

    /// How many published values are further away than the spec allows.
    pub fn missed(&self) -> usize {
        self.comparisons.iter().filter(|row| row.holds() == Some(false)).count()
    }
}

/// What went wrong in the runs, in their order.
pub fn failures(runs: &[RunResult]) -> Vec<Failed> {
    let of = |run: &RunResult| {
        let (point, repeat) = (run.point, run.repeat);
        run.failures.iter().map(move |text| Failed { point, repeat, text: text.clone() }).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of).collect()
}

fn json_of(experiment: &Experiment, finished: &Finished) -> serde_json::Value {
    let swept = Swept::of(finished.points.iter().map(|row| row.parameters.as_slice()));
    let parameter = |(key, value): &(String, String)| {
        let known = swept.iter().find(|swept| swept.key() == key);
        (key.clone(), known.map_or_else(|| json!(value), |swept| swept.json(value)))
    };
    let rows = |rows: &[PointSummary], names: &[String]| -> Vec<serde_json::Value> {
        rows.iter()
            .map(|row| {
                let parameters: serde_json::Map<_, _> = row.parameters.iter().map(parameter).collect();
                let values: serde_json::Map<_, _> = names
                    .iter()
                    .zip(&row.estimates)
                    .filter_map(|(name, estimate)| estimate.map(|estimate| (name.clone(), json!(estimate))))
                    .collect();
                json!({ "parameters": parameters, "metrics": values })
            })
            .collect()
    };
    let failures: Vec<_> = finished.failures.iter().map(|failure| &failure.text).collect();
    let mut whole = json!({
        "experiment": experiment.name,
        "title": experiment.spec.title,
        "hash": experiment.hash(),
        "version": env!("CARGO_PKG_VERSION"),
        "points": rows(&finished.points, &finished.metrics),
        "published": finished.comparisons,
        "failures": failures,
        "remarks": finished.remarks,
    });
    if !finished.interference.is_empty() {
        let names: Vec<String> =
            Effect::SHOWN.into_iter().map(|effect| Quantity::Interference(effect).to_string()).collect();
        whole["interference"] = rows(&finished.interference, &names).into();
    }
    if !finished.derived.is_empty() {
        let values: serde_json::Map<_, _> =
            finished.derived.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        whole["derived"] = values.into();
    }
    whole
}
