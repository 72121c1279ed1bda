//! From a spec to finished runs.

mod convert;
mod inputs;
mod linux_host;
mod live_host;
mod pool;
mod program;
mod shared;
mod simulate;
mod stories;
mod study;

use std::sync::Arc;

use crate::quantity::texts;
use crate::results::{ResultError, RunResult, Store};
use crate::spec::{Experiment, Point, SpecError, SpecSource};

pub(crate) use convert::{job_results, latency};
pub use inputs::{Inputs, WorkloadInput};
pub use linux_host::{LinuxHostError, LinuxWorkload};
pub use live_host::LiveHostError;
pub use pool::{Batch, Observer, PoolOptions, PoolOutcome, Quiet, Shard, execute, finished};
pub use program::{ProgramError, ProgramInput};
pub(crate) use simulate::{simulate, simulate_recorded};
pub use study::{StudyHostError, StudyInput};

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
    /// A result of this run in which nothing has happened yet.
    fn result(&self) -> RunResult {
        RunResult {
            key: self.key.clone(),
            point: self.point.index,
            repeat: self.repeat,
            seed: self.seed,
            parameters: texts(&self.point),
            ..RunResult::default()
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

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The spec is at fault.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A device profile is at fault.
    #[error(transparent)]
    Profile(#[from] ssd::profile::ProfileError),
    /// A job file, whose text follows, is at fault.
    #[error("{0}")]
    Job(Box<workload::fio::ParseError>, String),
    /// A trace is at fault.
    #[error(transparent)]
    Trace(#[from] workload::replay::TraceError),
    /// A trace does not fit the device.
    #[error(transparent)]
    Replay(#[from] workload::replay::ReplayError),
    /// A metric's name is at fault.
    #[error(transparent)]
    Metric(#[from] crate::metric::MetricError),
    /// An input file cannot be read.
    #[error("cannot read {path}: {source}")]
    Input {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A run under a real kernel cannot be, or went wrong.
    #[error(transparent)]
    Linux(#[from] LinuxHostError),
    /// A cell of the fragmentation study cannot be run, or went wrong.
    #[error(transparent)]
    Study(#[from] StudyHostError),
    /// The device of a run on this machine.
    #[error(transparent)]
    Live(#[from] LiveHostError),
    /// A program cannot be run, or what goes before it failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Workload and stack do not fit.
    #[error("{message}")]
    Unfit {
        /// What does not fit, and the mend.
        message: String,
    },
    /// The results folder is at fault.
    #[error(transparent)]
    Results(#[from] ResultError),
}

impl LabError {
    /// With the place in the user's file, where the fault has one there.
    fn placed(self, source: &SpecSource) -> Self {
        match self {
            Self::Spec(error) => Self::Spec(error.placed(source)),
            Self::Metric(error) => {
                let (name, message) = (error.name().to_owned(), error.to_string());
                match source.at_text(&name, SpecError::Unclear { place: "metric", message }) {
                    SpecError::Unclear { .. } => Self::Metric(error),
                    placed => Self::Spec(placed),
                }
            }
            other => other,
        }
    }

    /// A setting that does not fit.
    fn unfit(error: impl std::error::Error) -> Self {
        Self::Unfit { message: error.to_string() }
    }
}

/// What one run asked its device for, under either host: the result, the first
/// `capacity` commands by time of submission, and how many there were beyond.
pub fn commands_of_run(
    run: &PlannedRun,
    capacity: usize,
) -> Result<(RunResult, Vec<ssd::command_log::CommandRecord>, u64), LabError> {
    match &run.inputs.workload {
        WorkloadInput::Linux(workload) => linux_host::run_logged(run, workload, capacity, &|| false),
        WorkloadInput::Study(_) | WorkloadInput::Program(_) => {
            let message =
                "commands are logged of fio jobs and traces, and not of workload.defrag or .program".to_owned();
            Err(LabError::Unfit { message })
        }
        WorkloadInput::Fio(_) | WorkloadInput::Trace { .. } => simulate::simulate_logged(run, capacity),
    }
}

/// Every run of an experiment, in order: repeats inside points. Reads and
/// checks all inputs, so that a fault shows before the first run.
pub fn plan(experiment: &Experiment) -> Result<Vec<PlannedRun>, LabError> {
    let mut plan = Vec::new();
    let source = &experiment.source;
    let points = experiment.points();
    crate::quantity::check(experiment, points).map_err(|error| error.placed(source))?;
    let mut shared = shared::Shared::default();
    for point in points {
        let inputs = Arc::new(Inputs::read(&point.spec, &experiment.folder, source, &mut shared)?);
        for repeat in 0..experiment.spec.run.repeats {
            let seed = experiment.spec.run.seed.wrapping_add(repeat.into());
            let key = point.key(seed, inputs.digest());
            plan.push(PlannedRun { point: Arc::clone(point), inputs: Arc::clone(&inputs), repeat, seed, key });
        }
    }
    Ok(plan)
}
