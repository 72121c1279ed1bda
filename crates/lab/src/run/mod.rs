//! From a spec to finished runs.

mod inputs;
mod pool;

use std::sync::Arc;

use ssd::command_log::CommandRecord;

use crate::error::LabError;
use crate::experiment::Experiment;
use crate::host::Stand;
use crate::quantity::texts;
use crate::results::{ResultError, RunResult, Store};
use crate::spec::Point;
use crate::workload::Shared;

pub use inputs::Inputs;
pub use pool::{Batch, Observer, PoolOptions, PoolOutcome, Quiet, Shard, execute, finished};

/// One run to do: a point under a seed.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// The point, which its repeats share.
    pub point: Arc<Point>,
    /// Its device profile and workload, read and checked.
    pub inputs: Arc<Inputs>,
    /// Which repeat.
    pub repeat: u32,
    /// The seed.
    pub seed: u64,
    /// Names the result.
    pub key: String,
}

impl PlannedRun {
    /// What it stands on.
    pub fn stand(&self) -> Stand<'_> {
        let Inputs { profile, charge, .. } = &*self.inputs;
        Stand { spec: &self.point.spec, profile: profile.as_ref(), charge: charge.as_ref(), seed: self.seed }
    }

    /// `result` as that of this run.
    fn named(&self, result: RunResult) -> RunResult {
        RunResult {
            key: self.key.clone(),
            point: self.point.index,
            repeat: self.repeat,
            seed: self.seed,
            parameters: texts(&self.point),
            ..result
        }
    }

    /// Its result, where `store` has it.
    pub fn kept(&self, store: &Store) -> Result<Option<RunResult>, ResultError> {
        let Some(result) = store.get(&self.key)? else { return Ok(None) };
        // Points of the same settings share a result, and sweeps may grow.
        let (point, repeat, parameters) = (self.point.index, self.repeat, texts(&self.point));
        Ok(Some(RunResult { point, repeat, parameters, ..result }))
    }
}

/// What one run asked its device for, under either host: the result, the first
/// `capacity` commands by time of submission, and how many there were beyond.
pub fn commands_of_run(run: &PlannedRun, capacity: usize) -> Result<(RunResult, Vec<CommandRecord>, u64), LabError> {
    let (result, records, left_out) = run.inputs.workload.logged(run.stand(), capacity)?;
    Ok((run.named(result), records, left_out))
}

/// Every run of an experiment, in order: repeats inside points. Reads and
/// checks all inputs, so that a fault shows before the first run.
pub fn plan(experiment: &Experiment) -> Result<Vec<PlannedRun>, LabError> {
    let mut plan = Vec::new();
    let source = &experiment.source;
    let mut shared = Shared::default();
    for point in experiment.points() {
        let inputs = Arc::new(Inputs::read(&point.spec, &experiment.folder, source, &mut shared)?);
        for repeat in 0..experiment.spec.run.repeats {
            let seed = experiment.spec.run.seed.wrapping_add(repeat.into());
            let key = point.key(seed, inputs.digest());
            plan.push(PlannedRun { point: Arc::clone(point), inputs: Arc::clone(&inputs), repeat, seed, key });
        }
    }
    Ok(plan)
}
