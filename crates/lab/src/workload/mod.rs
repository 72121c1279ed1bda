//! Workloads: what runs on a host. Each is a file or a folder here, and a row of [`WORKLOADS`].

mod defrag;
mod fio;
mod jobs;
mod journal;
mod program;
mod replay;
mod shared;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ssd::command_log::CommandRecord;
use trace::Span;

use crate::error::{LabError, LinuxHostError};
use crate::host::Stand;
use crate::host::model::{Simulated, simulate, simulate_logged, simulate_recorded};
use crate::results::RunResult;
use crate::spec::{self, Spec, SpecSource};

pub(crate) use jobs::job_results;
pub(crate) use shared::{Shared, device};

/// What runs, read and checked before anything does.
pub trait Workload: fmt::Debug + Send + Sync {
    /// Runs to the end; `None` when `halted` said so on the way.
    fn run(
        &self,
        stand: Stand<'_>,
        progress: &dyn Fn(f64),
        halted: &dyn Fn() -> bool,
    ) -> Result<Option<RunResult>, LabError>;

    /// Runs to the end for the sake of its commands: the first `capacity`, and how many there were beyond.
    fn logged(&self, stand: Stand<'_>, capacity: usize) -> Result<(RunResult, Vec<CommandRecord>, u64), LabError> {
        let _ = (stand, capacity);
        let message = "commands are logged of fio jobs and traces, and not of workload.defrag or .program".to_owned();
        Err(LabError::Unfit { message })
    }

    /// Runs to the end for the sake of its spans: the first `capacity`, and how many there were beyond.
    fn recorded(&self, stand: Stand<'_>, capacity: usize) -> Result<(Vec<Span>, u64), LabError> {
        let _ = (stand, capacity);
        let reason = "its first run is under a real kernel; `plumb linux --trace FILE -- fio job.fio` traces one";
        Err(LinuxHostError::Option { option: "--trace".to_owned(), reason: reason.to_owned() }.into())
    }
}

/// What a workload is read from, and what its content goes into.
pub(crate) struct Reading<'a> {
    pub(crate) spec: &'a Spec,
    /// Where the spec's file lies, and its text.
    pub(crate) folder: &'a Path,
    pub(crate) source: &'a SpecSource,
    /// Identifies the modelled device; empty where there is none.
    pub(crate) profile: &'a str,
    /// Results depend on what it takes in.
    pub(crate) hasher: &'a mut blake3::Hasher,
    pub(crate) shared: &'a mut Shared,
}

/// A kind of workload.
struct Row {
    /// Whether the spec names one.
    is_given: fn(&spec::Workload) -> bool,
    read: fn(&mut Reading<'_>) -> Result<Arc<dyn Workload>, LabError>,
}

/// Every kind of workload.
const WORKLOADS: [Row; 5] = [
    Row { is_given: |given| given.defrag.is_some(), read: defrag::read },
    Row { is_given: |given| given.program.is_some(), read: program::read },
    Row { is_given: |given| given.trace.is_some(), read: replay::read },
    Row { is_given: |given| given.journal.is_some(), read: journal::read },
    Row { is_given: |given| given.fio.is_some() || given.fio_file.is_some(), read: fio::read },
];

/// Reads the workload that the spec names.
pub(crate) fn read(reading: &mut Reading<'_>) -> Result<Arc<dyn Workload>, LabError> {
    let given = &reading.spec.workload;
    match WORKLOADS.iter().find(|row| (row.is_given)(given)) {
        Some(row) => (row.read)(reading),
        None => Err(spec::SpecError::WorkloadChoice.into()),
    }
}

/// What the kernel of this machine does not run; `instead` is what to write.
fn not_live(instead: &str) -> LabError {
    let message = format!("host = \"live\" runs workload.defrag and workload.program; write {instead}");
    LabError::Unfit { message }
}

/// A workload that only the modelled host runs.
#[derive(Debug)]
struct Modelled<W>(W);

impl<W: Simulated + fmt::Debug + Send + Sync> Workload for Modelled<W> {
    fn run(
        &self,
        stand: Stand<'_>,
        progress: &dyn Fn(f64),
        halted: &dyn Fn() -> bool,
    ) -> Result<Option<RunResult>, LabError> {
        simulate(stand, &self.0, progress, halted)
    }

    fn logged(&self, stand: Stand<'_>, capacity: usize) -> Result<(RunResult, Vec<CommandRecord>, u64), LabError> {
        simulate_logged(stand, &self.0, capacity)
    }

    fn recorded(&self, stand: Stand<'_>, capacity: usize) -> Result<(Vec<Span>, u64), LabError> {
        simulate_recorded(stand, &self.0, capacity)
    }
}
