//! One run under a real Linux kernel in virtual time, with the real fio.
//!
//! The guest serves the modelled device to itself; fio's own results become the
//! run's record, in the same form as the model's. What the kernel computes takes
//! no virtual time, so that a record says nothing of processors, unless it is charged by a table.

mod fio_result;
mod job_file;
mod script;
mod workload;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use linux::{Ended, Linux, LinuxError, Outcome};
use nvme::{Command, NamespaceId};
use ssd::command_log::{self, CommandLogError, CommandRecord};
use ssd::profile::{BuildOptions, DeviceConfig};
use units::Nanos;

use super::{LabError, PlannedRun};
use crate::commands::{self, COMMANDS_MAX};
use crate::device::leaves;
use crate::results::{CommandClass, RunResult};

pub(super) use script::{queue_commands, queue_counters};
pub use workload::LinuxWorkload;
pub(super) use workload::{check_stack, device_argument, environment};

/// Files of a run, in a folder that the guest may write.
const JOB_FILE: &str = "job.fio";
const FIO_RESULT: &str = "fio.txt";
const COMMAND_LOG: &str = "commands.tsv";

/// Why a run under a real kernel cannot be, or what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum LinuxHostError {
    /// An option that only the model has.
    #[error("`{option}` has no meaning under host = \"linux\": {reason}")]
    Option {
        /// Its dotted path, or the job's option.
        option: String,
        /// Why, and the mend.
        reason: String,
    },
    /// An option that only a real kernel has.
    #[error("`{option}` needs host = \"linux\": the model has no {what}")]
    ModelOption {
        /// Its dotted path.
        option: String,
        /// What the model lacks.
        what: &'static str,
    },
    /// There is no fio.
    #[error("host = \"linux\" runs the real fio, and `{program} --version` failed: {reason}; install the package fio")]
    NoFio {
        /// What was run.
        program: String,
        /// What came of it.
        reason: String,
    },
    /// fio refused the job or failed.
    #[error("fio ended with status {status} under Linux {kernel}: {message}")]
    Fio {
        /// Its exit status.
        status: u8,
        /// The kernel's release.
        kernel: String,
        /// Its own words.
        message: String,
    },
    /// fio's result cannot be read.
    #[error("fio's result cannot be read: {message}")]
    Result {
        /// What is wrong with it.
        message: String,
    },
    /// The command log cannot be read.
    #[error(transparent)]
    Log(#[from] CommandLogError),
    /// Files for the guest cannot be made or read.
    #[error("cannot {what}: {source}")]
    File {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kernel, or the guest.
    #[error(transparent)]
    Guest(#[from] LinuxError),
}

impl LinuxHostError {
    pub(super) fn file(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::File { what, source }
    }
}

/// Runs to the end; `None` when `halted` said so on the way.
pub(super) fn run(
    run: &PlannedRun,
    workload: &LinuxWorkload,
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, LabError> {
    if run.point.spec.run.commands {
        let done = run_logged(run, workload, COMMANDS_MAX, halted);
        return match done {
            Ok((mut result, records, left_out)) => {
                result.commands = classes(&records);
                result.notes.extend(commands::left_out_note(left_out));
                Ok(Some(result))
            }
            Err(LabError::Linux(LinuxHostError::Guest(LinuxError::Stopped))) => Ok(None),
            Err(error) => Err(error),
        };
    }
    match play(run, workload, None, halted) {
        Ok((result, _)) => Ok(Some(result)),
        Err(LinuxHostError::Guest(LinuxError::Stopped)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn classes(records: &[CommandRecord]) -> Vec<CommandClass> {
    commands::classes(records)
}

/// As [`run`], with the commands that the device got while fio ran.
pub(super) fn run_logged(
    run: &PlannedRun,
    workload: &LinuxWorkload,
    capacity: usize,
    halted: &dyn Fn() -> bool,
) -> Result<(RunResult, Vec<CommandRecord>, u64), LabError> {
    let (result, records) = play(run, workload, Some(capacity), halted)?;
    let kept = records.len().min(capacity);
    let left_out = (records.len() - kept) as u64;
    let mut records = records;
    records.truncate(kept);
    Ok((result, records, left_out))
}

fn play(
    run: &PlannedRun,
    workload: &LinuxWorkload,
    log: Option<usize>,
    halted: &dyn Fn() -> bool,
) -> Result<(RunResult, Vec<CommandRecord>), LinuxHostError> {
    let scratch = tempfile::Builder::new()
        .prefix("plumb-run")
        .tempdir()
        .map_err(LinuxHostError::file("make a folder for the guest's files"))?;
    let file = |name: &str| scratch.path().join(name);
    std::fs::write(file(JOB_FILE), workload.job_file(run.seed))
        .map_err(LinuxHostError::file("write the job file for the guest"))?;
    let guest = guest(run, workload, scratch.path(), log.is_some())?;
    let outcome = guest.run_until(workload.kernel(), halted)?;
    let text = std::fs::read(file(FIO_RESULT)).unwrap_or_default();
    let status = match outcome.ended {
        Ended::Exited(0) => None,
        ended => Some(ended.shell_status()),
    };
    let parsed = fio_result::parse(&text);
    let failed = |status| LinuxHostError::Fio { status, kernel: outcome.kernel.clone(), message: words(&outcome) };
    let fio = match (parsed, status) {
        (Ok(fio), _) => fio,
        (Err(_), Some(status)) => return Err(failed(status)),
        (Err(message), None) => return Err(LinuxHostError::Result { message }),
    };
    let mut failures = fio.failures;
    if let Some(status) = status.filter(|_| failures.is_empty()) {
        failures.push(format!("fio ended with status {status}: {}", last_word(&fio.text, &outcome)));
    }
    let records = match log {
        Some(_) => commands_during(&file(COMMAND_LOG), &outcome)?,
        None => Vec::new(),
    };
    let mut counters = device_counters(outcome.device.as_ref());
    counters.extend(script::told_counters(&outcome.text()));
    let result = RunResult {
        device_model: model_name(run),
        elapsed_ns: outcome.virtual_time().0,
        jobs: fio.jobs,
        counters,
        failures,
        notes: vec![workload.note(run)],
        text: fio.text,
        fio_json: Some(fio.json),
        ..run.result()
    };
    Ok((result, records))
}

/// The guest that does the run.
fn guest(run: &PlannedRun, workload: &LinuxWorkload, scratch: &Path, logged: bool) -> Result<Linux, LinuxHostError> {
    let mut guest = bare_guest(run, workload.device(), scratch)?;
    if logged {
        guest.serve_arguments = vec!["--command-log".into(), scratch.join(COMMAND_LOG).into()];
    }
    guest.environment = workload.environment();
    Ok(guest.script(&script::of(&run.point.spec.stack, scratch, workload)))
}

/// A guest with the run's stack, that may write to `scratch` and has nothing to do yet.
pub(super) fn bare_guest(run: &PlannedRun, device: &str, scratch: &Path) -> Result<Linux, LinuxHostError> {
    let stack = &run.point.spec.stack;
    let program = std::env::current_exe().map_err(LinuxHostError::file("find the plumb program"))?;
    let mut guest = Linux::new(program, device);
    guest.settings = device_settings(run, run.seed);
    guest.front_end = stack.linux.front_end;
    guest.file_system = stack.filesystem;
    guest.mkfs_options.clone_from(&stack.linux.mkfs_options);
    guest.mount_options.clone_from(&stack.linux.mount_options);
    guest.memory_bytes = stack.linux.memory.0;
    guest.charge.clone_from(&run.inputs.charge);
    guest.seed = run.seed;
    guest.output = Some(scratch.to_owned());
    Ok(guest)
}

/// Changes to the profile that the device's server is told: the spec's, and the seed.
pub(super) fn device_settings(run: &PlannedRun, seed: u64) -> Vec<String> {
    let changes = leaves(&run.point.spec.stack.device_set).into_iter();
    let mut settings: Vec<String> = changes.map(|(key, value)| format!("{key}={value}")).collect();
    match run.inputs.profile.as_ref().map(|profile| &profile.config) {
        Some(DeviceConfig::Ssd(_)) => settings.push(format!("initial.seed={}", seed as i64)),
        Some(DeviceConfig::Zoned(_)) => settings.push(format!("controller.seed={}", seed as i64)),
        Some(DeviceConfig::Disk(_) | DeviceConfig::Card(_)) | None => {}
    }
    settings
}

/// What a reader must know of the processor's time: these words where it is free, the costs where it is charged.
pub(super) fn processor_note(run: &PlannedRun, free: &str) -> String {
    match &run.inputs.charge {
        None => free.to_owned(),
        Some(charges) => {
            let costs: Vec<String> = charges.entries().iter().map(|(name, ns)| format!("{name} = {ns}")).collect();
            format!(
                "Processor time is charged: the kernel's work for the workload takes {}; what programs compute themselves is free, \
                 and each process has a processor of its own",
                costs.join(", ")
            )
        }
    }
}

/// What went wrong, in the words of fio or of the shell.
pub(super) fn words(outcome: &Outcome) -> String {
    let text = String::from_utf8_lossy(&outcome.stderr).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(6).collect();
    if lines.is_empty() { "it said nothing".to_owned() } else { lines.join("; ") }
}

/// The last line that fio printed for people, or what the shell said.
fn last_word(text: &str, outcome: &Outcome) -> String {
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    last.map_or_else(|| words(outcome), str::to_owned)
}

/// The commands of the log that the device got while fio ran: `mkfs`, `mount`
/// and the like come before it.
fn commands_during(path: &Path, outcome: &Outcome) -> Result<Vec<CommandRecord>, LinuxHostError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(LinuxHostError::file(format!("open {name}")))?;
    let mut records = command_log::read(&name, BufReader::new(file), COMMANDS_MAX)?;
    // The log is on the device's clock, whose zero the server tells.
    let zero = outcome.device.as_ref().and_then(|report| report.get("started_at_ns")?.as_u64()).map(Nanos);
    let Some(zero) = zero else {
        return Err(LinuxHostError::Result { message: "the server did not say when its clock began".to_owned() });
    };
    let (began, done) = (outcome.began.since(zero), outcome.done.since(zero));
    // The server's own flush of everything ends the log.
    let of_the_server = |command: &Command| *command == Command::Flush { nsid: NamespaceId::ALL };
    records.retain(|record| (began..=done).contains(&record.submitted_at) && !of_the_server(&record.command));
    for record in &mut records {
        record.submitted_at = record.submitted_at.since(began);
        record.completed_at = record.completed_at.map(|at| at.since(began));
    }
    Ok(records)
}

/// The device's counters out of the server's report.
pub(super) fn device_counters(report: Option<&serde_json::Value>) -> Vec<(String, u64)> {
    let Some(counters) = report.and_then(|report| report.get("counters")) else { return Vec::new() };
    let named = |name: &str, value: u64| (format!("device.{name}"), value);
    match counters {
        serde_json::Value::Object(counters) => {
            counters.iter().filter_map(|(name, value)| Some(named(name, value.as_u64()?))).collect()
        }
        serde_json::Value::Array(counters) => {
            counters.iter().filter_map(|pair| Some(named(pair.get(0)?.as_str()?, pair.get(1)?.as_u64()?))).collect()
        }
        _ => Vec::new(),
    }
}

/// What the device calls itself.
pub(super) fn model_name(run: &PlannedRun) -> String {
    let options = BuildOptions { contents: ssd::Contents::None, ..BuildOptions::default() };
    let device = run.inputs.profile.as_ref().and_then(|profile| profile.build(&options).ok());
    device.map(|device| device.identity().model.clone()).unwrap_or_default()
}
