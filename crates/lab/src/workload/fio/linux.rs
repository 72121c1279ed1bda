//! fio jobs for the real fio under a real kernel in virtual time.
//!
//! fio's own results become the run's record, in the same form as the model's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};

use file_systems::FileSystem;
use linux::{Ended, Kernel, Linux, LinuxError, Outcome};
use nvme::NamespaceId;
use ssd::command_log::{self, CommandRecord};
use units::Nanos;
use workload::fio::JobFile;
use workload::fio::parse::{EngineKind, Source};

use super::super::{Reading, Workload};
use super::{job_file, result};
use crate::commands::{self, COMMANDS_MAX};
use crate::error::{LabError, LinuxHostError};
use crate::host::Stand;
use crate::host::linux::{self as host, words};
use crate::results::RunResult;
use crate::spec::{Inline, Stack, value_text};

/// Files of a run, in a folder that the guest may write.
const JOB_FILE: &str = "job.fio";
const FIO_RESULT: &str = "fio.txt";
const COMMAND_LOG: &str = "commands.tsv";
/// Begins the line with the kernel's counters of the device.
const COUNTERS: &str = "plumb-queue-counters ";

/// A job file for the real fio, and the kernel it runs under.
#[derive(Clone, Debug)]
pub(super) struct LinuxJobs {
    kernel: Kernel,
    fio: String,
    /// A built-in name or an absolute path.
    device: String,
    text: String,
    sections: Vec<String>,
    overrides: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    file_system: FileSystem,
    /// The jobs use NVMe passthrough.
    passthrough: bool,
}

impl LinuxJobs {
    /// Reads what `spec`, a file in `folder`, asks of a real kernel; kernel, fio
    /// and job file go into `hasher`, since results depend on them.
    pub(super) fn read(reading: &mut Reading<'_>) -> Result<Self, LabError> {
        let (spec, folder, source) = (reading.spec, reading.folder, reading.source);
        let (name, text) = match (&spec.workload.fio_file, &spec.workload.fio) {
            (Some(path), _) => {
                let path = folder.join(path);
                let text = std::fs::read_to_string(&path)
                    .map_err(|source| LabError::Input { path: path.display().to_string(), source })?;
                (path.display().to_string(), text)
            }
            (None, inline) => {
                let text = inline.clone().unwrap_or_default();
                let place = source.inline(&text);
                (place.as_ref().map_or("--set workload.fio", Inline::name).to_owned(), text)
            }
        };
        let variables: Vec<(String, String)> =
            spec.workload.variables.iter().map(|(key, value)| (key.clone(), value_text(value))).collect();
        let overrides: Vec<(String, String)> =
            spec.workload.set.iter().map(|(key, value)| (key.clone(), value_text(value))).collect();
        let passthrough = check_jobs(&name, &text, &variables, &overrides)?;
        let sections: Vec<String> = spec.workload.sections.values().flatten().cloned().collect();
        let known = job_file::sections(&text);
        if let Some(absent) = sections.iter().find(|section| !known.contains(section)) {
            let message = format!(
                "workload.sections names `{absent}`, which {name} does not have; write one of {}",
                known.join(", ")
            );
            return Err(LabError::Unfit { message });
        }
        let kernel = spec.stack.linux.kernel().map_err(LinuxHostError::from)?;
        let fio = fio_version()?;
        for part in ["linux", kernel.release(), kernel.recipe(), &fio, &text] {
            reading.hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let device = host::device_argument(spec, folder);
        let file_system = spec.stack.filesystem;
        Ok(Self { kernel, fio, device, text, sections, overrides, variables, file_system, passthrough })
    }

    /// The job file as fio gets it.
    fn job_file(&self, seed: u64) -> String {
        let place = match self.file_system.mount_type() {
            Some(_) => job_file::JobTarget::MountPoint,
            None => job_file::JobTarget::Device,
        };
        job_file::for_fio(&self.text, &self.sections, &self.overrides, place, seed)
    }

    /// The environment of fio: what `${NAME}` stands for, and nothing of the
    /// caller's but the search path.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = host::environment();
        environment.extend(self.variables.iter().map(|(key, value)| (key.into(), value.into())));
        environment
    }

    /// What a reader must know of such a run.
    fn note(&self, stand: Stand<'_>) -> String {
        let free = "Time travel makes what a real kernel computes free, \
             so its latencies and rates are those of the device and of waiting alone; processor time (stack.cpu, \
             stack.io_path) is the model's alone, and the two hosts differ by it";
        let processor = host::processor_note(stand, free);
        format!("host = \"linux\": Linux {} and {} in virtual time. {processor}", self.kernel.release(), self.fio)
    }
}

impl Workload for LinuxJobs {
    fn run(&self, stand: Stand<'_>, _: &dyn Fn(f64), halted: &dyn Fn() -> bool) -> Result<Option<RunResult>, LabError> {
        let done = if stand.spec.run.commands {
            run_logged(stand, self, COMMANDS_MAX, halted).map(|(mut result, records, left_out)| {
                result.commands = commands::classes(&records);
                result.notes.extend(commands::left_out_note(left_out));
                result
            })
        } else {
            play(stand, self, None, halted).map(|(result, _)| result)
        };
        match done {
            Ok(result) => Ok(Some(result)),
            Err(LinuxHostError::Guest(LinuxError::Stopped)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn logged(&self, stand: Stand<'_>, capacity: usize) -> Result<(RunResult, Vec<CommandRecord>, u64), LabError> {
        Ok(run_logged(stand, self, capacity, &|| false)?)
    }
}

/// Runs it with the commands that the device got while fio ran.
fn run_logged(
    stand: Stand<'_>,
    workload: &LinuxJobs,
    capacity: usize,
    halted: &dyn Fn() -> bool,
) -> Result<(RunResult, Vec<CommandRecord>, u64), LinuxHostError> {
    let (result, records) = play(stand, workload, Some(capacity), halted)?;
    let kept = records.len().min(capacity);
    let left_out = (records.len() - kept) as u64;
    let mut records = records;
    records.truncate(kept);
    Ok((result, records, left_out))
}

fn play(
    stand: Stand<'_>,
    workload: &LinuxJobs,
    log: Option<usize>,
    halted: &dyn Fn() -> bool,
) -> Result<(RunResult, Vec<CommandRecord>), LinuxHostError> {
    let scratch = tempfile::Builder::new()
        .prefix("plumb-run")
        .tempdir()
        .map_err(LinuxHostError::file("make a folder for the guest's files"))?;
    let file = |name: &str| scratch.path().join(name);
    std::fs::write(file(JOB_FILE), workload.job_file(stand.seed))
        .map_err(LinuxHostError::file("write the job file for the guest"))?;
    let guest = guest(stand, workload, scratch.path(), log.is_some())?;
    let outcome = guest.run_until(&workload.kernel, halted)?;
    let text = std::fs::read(file(FIO_RESULT)).unwrap_or_default();
    let status = match outcome.ended {
        Ended::Exited(0) => None,
        ended => Some(ended.shell_status()),
    };
    let parsed = result::parse(&text);
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
    let mut counters = host::device_counters(outcome.device.as_ref());
    counters.extend(told_counters(&outcome.text()));
    let result = RunResult {
        device_model: host::model_name(stand),
        elapsed_ns: outcome.virtual_time().0,
        jobs: fio.jobs,
        counters,
        failures,
        notes: vec![workload.note(stand)],
        text: fio.text,
        fio_json: Some(fio.json),
        ..RunResult::default()
    };
    Ok((result, records))
}

/// The guest that does the run.
fn guest(stand: Stand<'_>, workload: &LinuxJobs, scratch: &Path, logged: bool) -> Result<Linux, LinuxHostError> {
    let mut guest = host::bare_guest(stand, &workload.device, scratch)?;
    if logged {
        guest.serve_arguments = vec!["--command-log".into(), scratch.join(COMMAND_LOG).into()];
    }
    guest.environment = workload.environment();
    Ok(guest.script(&script(&stand.spec.stack, scratch, workload)))
}

/// The shell script of a run; its status is fio's.
fn script(stack: &Stack, scratch: &Path, workload: &LinuxJobs) -> String {
    let mut script = host::queue_commands(stack);
    if workload.passthrough {
        // The character device of the same namespace.
        script += "PLUMB_DEVICE=/dev/ng${node#/dev/nvme}; export PLUMB_DEVICE\n";
    }
    let folder = scratch.display();
    script += &format!(
        "status=0; fio --output-format=normal,json+ --output='{folder}/{FIO_RESULT}' '{folder}/{JOB_FILE}' >&2 || status=$?\n"
    );
    script += &format!("echo \"{COUNTERS}\"$(cat \"$disk/stat\")\nexit $status\n");
    script
}

/// The kernel's counters out of the script's output.
fn told_counters(output: &str) -> Vec<(String, u64)> {
    let line = output.lines().rev().find_map(|line| line.strip_prefix(COUNTERS));
    line.map(host::queue_counters).unwrap_or_default()
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
    let of_the_server = |command: &nvme::Command| *command == nvme::Command::Flush { nsid: NamespaceId::ALL };
    records.retain(|record| (began..=done).contains(&record.submitted_at) && !of_the_server(&record.command));
    for record in &mut records {
        record.submitted_at = record.submitted_at.since(began);
        record.completed_at = record.completed_at.map(|at| at.since(began));
    }
    Ok(records)
}

/// Whether the jobs use passthrough; an error for what a real kernel does not have.
fn check_jobs(
    name: &str,
    text: &str,
    variables: &[(String, String)],
    overrides: &[(String, String)],
) -> Result<bool, LabError> {
    let variables: BTreeMap<String, String> = variables.iter().cloned().collect();
    let overrides: Vec<String> = overrides.iter().map(|(key, value)| format!("{key}={value}")).collect();
    // The real fio is the judge of a job file, and knows options that the model does not.
    let Ok(jobs) =
        JobFile::parse(&Source { name, text: text.as_bytes(), variables: &variables, overrides: &overrides })
    else {
        return Ok(job_file::mentions(text, "io_uring_cmd"));
    };
    for job in &jobs.jobs {
        if job.options.engine.kind == EngineKind::Spdk {
            let reason = format!(
                "job `{}` uses a driver of its own, and here the kernel's drives the device; use io_uring, libaio or \
                 psync, or io_uring_cmd for passthrough",
                job.name
            );
            return Err(
                LinuxHostError::Option { option: format!("ioengine={}", job.options.engine.name), reason }.into()
            );
        }
        if job.options.frag_size_bytes > 0 {
            let reason = format!(
                "job `{}` describes the pieces of a file, and here a real file system decides where they lie; use \
                 host = \"model\"",
                job.name
            );
            return Err(LinuxHostError::Option { option: "frag_size".to_owned(), reason }.into());
        }
        if job.options.namespace() != 1 {
            let reason = format!(
                "job `{}` names namespace {}, and the guest serves the first one only",
                job.name,
                job.options.namespace()
            );
            return Err(LinuxHostError::Option { option: "filename".to_owned(), reason }.into());
        }
    }
    Ok(jobs.jobs.iter().any(|job| job.options.engine.kind == EngineKind::UringCommand))
}

/// What `fio --version` says.
fn fio_version() -> Result<String, LinuxHostError> {
    let missing = |reason: String| LinuxHostError::NoFio { program: "fio".to_owned(), reason };
    let output = Command::new("fio")
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| missing(error.to_string()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && version.starts_with("fio") { Ok(version) } else { Err(missing(version)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_by_column() {
        let text = format!("noise\n{COUNTERS}1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n");
        let counters = told_counters(&text);
        assert!(counters.contains(&("block.read_commands".to_owned(), 1)));
        assert!(counters.contains(&("block.write_merges".to_owned(), 6)));
        assert!(counters.contains(&("block.flush_commands".to_owned(), 16)));
        assert_eq!(told_counters("nothing"), []);
        assert_eq!(told_counters(&format!("{COUNTERS}x")), []);
    }
}
