//! Cells of the fragmentation study: under a real kernel in virtual time, or on a loop device of this machine.
//!
//! The cell itself is `plumb defrag-study`, a process of its own on either host ([`defrag::study`]); here is what goes
//! before and after it.

mod linux;
mod live;

use std::path::Path;
use std::sync::Arc;

use ::linux::Kernel;
use defrag::study::Measured;
use file_systems::FileSystem;
use stats::Histogram;
use units::Nanos;

use super::{Reading, Workload};
use crate::error::{LabError, StudyHostError};
use crate::host::{Stand, linux as linux_host, live as live_host};
use crate::results::{DirectionResult, JobResult, RunResult, Series};
use crate::spec::HostKind;

/// Files that the cell's process reads and writes.
const CELL: &str = "study.json";
const MEASURED: &str = "measured.json";
/// The job that the measured I/O is shown as.
const JOB: &str = "io";

/// What a cell needs, read and checked before anything runs.
#[derive(Clone, Debug)]
pub(super) struct StudyInput {
    cell: defrag::study::Cell,
    host: Host,
}

#[derive(Clone, Debug)]
enum Host {
    Linux { kernel: Kernel, device: String },
    Live { release: String },
}

impl StudyInput {
    fn read(reading: &mut Reading<'_>) -> Result<Self, LabError> {
        let (spec, folder) = (reading.spec, reading.folder);
        let Some(cell) = spec.workload.defrag.clone() else { return unfit("workload.defrag is not there") };
        cell.check().map_err(|error| StudyHostError::Unfit { message: format!("workload.defrag: {error}") })?;
        if matches!(spec.stack.filesystem, FileSystem::None | FileSystem::Zonefs) {
            return unfit(
                "workload.defrag needs a file system: stack.filesystem = \"ext4\", \"xfs\", \"btrfs\" or \"f2fs\"",
            );
        }
        if spec.run.commands {
            return unfit("run.commands logs what fio jobs and traces do; take it out beside workload.defrag");
        }
        let host = match spec.stack.host {
            HostKind::Model => {
                return unfit("workload.defrag needs a real kernel: stack.host = \"linux\", or \"live\" as root");
            }
            HostKind::Linux => {
                let kernel = spec.stack.linux.kernel().map_err(StudyHostError::from)?;
                Host::Linux { kernel, device: linux_host::device_argument(spec, folder) }
            }
            HostKind::Live => {
                if spec.stack.device != live_host::LOOP {
                    return unfit("host = \"live\" makes a loop device: write stack.device = \"loop\"");
                }
                Host::Live { release: live_host::release().map_err(StudyHostError::from)? }
            }
        };
        let parts = match &host {
            Host::Linux { kernel, .. } => ["study", kernel.release(), kernel.recipe()],
            Host::Live { release } => ["study", "live", release.as_str()],
        };
        for part in parts {
            reading.hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        Ok(Self { cell, host })
    }
}

fn unfit(message: &str) -> Result<StudyInput, LabError> {
    Err(StudyHostError::Unfit { message: message.to_owned() }.into())
}

/// Reads the spec's cell, for its host.
pub(super) fn read(reading: &mut Reading<'_>) -> Result<Arc<dyn Workload>, LabError> {
    Ok(Arc::new(StudyInput::read(reading)?))
}

impl Workload for StudyInput {
    fn run(&self, stand: Stand<'_>, _: &dyn Fn(f64), halted: &dyn Fn() -> bool) -> Result<Option<RunResult>, LabError> {
        Ok(match &self.host {
            Host::Linux { kernel, device } => linux::run(stand, &self.cell, kernel, device, halted)?,
            Host::Live { release } => live::run(stand, &self.cell, release, halted)?,
        })
    }
}

/// Where a run's process finds what it is to do, and leaves what came of it.
fn scratch(cell: &defrag::study::Cell) -> Result<tempfile::TempDir, StudyHostError> {
    let scratch = tempfile::Builder::new()
        .prefix("plumb-study")
        .tempdir()
        .map_err(StudyHostError::file("make a folder for the run's files"))?;
    let text = serde_json::to_vec(cell).map_err(|error| StudyHostError::Answer { why: error.to_string() })?;
    std::fs::write(scratch.path().join(CELL), text).map_err(StudyHostError::file("write what the run is to do"))?;
    Ok(scratch)
}

/// What the run's process left.
fn measured(scratch: &Path) -> Result<Measured, StudyHostError> {
    let text = std::fs::read(scratch.join(MEASURED)).map_err(StudyHostError::file("read what was measured"))?;
    serde_json::from_slice(&text).map_err(|error| StudyHostError::Answer { why: error.to_string() })
}

/// The record of a run.
fn result(measured: Measured, device_model: String, elapsed_ns: u64) -> RunResult {
    let mut text = String::new();
    for (name, value) in &measured.counters {
        text += &format!("{name:24} {value}\n");
    }
    let mut counters: Vec<(String, u64)> = Vec::new();
    counters.extend(measured.counters.iter().map(|(name, value)| (format!("study.{name}"), *value)));
    RunResult {
        device_model,
        elapsed_ns,
        jobs: job(&measured).into_iter().collect(),
        counters,
        failures: Vec::new(),
        notes: measured.notes,
        text,
        ..RunResult::default()
    }
}

/// The measured requests as a job; none where others' programs did the I/O and told no latencies.
fn job(measured: &Measured) -> Option<JobResult> {
    let mut histogram = Histogram::new();
    measured.latencies_ns.iter().for_each(|nanos| histogram.record(Nanos(*nanos)));
    let ios = measured.latencies_ns.len() as u64;
    let direction = DirectionResult {
        direction: if measured.is_write { "write" } else { "read" }.to_owned(),
        ios,
        bytes: measured.bytes,
        runtime_ns: measured.elapsed_ns,
        iops_mean: if measured.elapsed_ns == 0 { 0.0 } else { ios as f64 * 1e9 / measured.elapsed_ns as f64 },
        slat: None,
        clat: None,
        lat: (&histogram).into(),
        series: Series::default(),
    };
    (ios > 0).then(|| JobResult { name: JOB.to_owned(), directions: vec![direction] })
}
