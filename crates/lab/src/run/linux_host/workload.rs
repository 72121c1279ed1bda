//! What a run under a real kernel needs, read and checked before anything runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use block::{QueueConfig, SchedulerKind};
use linux::{FileSystem, Kernel};
use workload::fio::JobFile;
use workload::fio::parse::{EngineKind, Source};

use super::super::{LabError, PlannedRun};
use super::{LinuxHostError, job_file, processor_note};
use crate::spec::{Contents, Inline, Spec, SpecSource, value_text};

/// A job file for the real fio, and the kernel it runs under.
#[derive(Clone, Debug)]
pub struct LinuxWorkload {
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

impl LinuxWorkload {
    /// Reads what `spec`, a file in `folder`, asks of a real kernel; kernel, fio
    /// and job file go into `hasher`, since results depend on them.
    pub(in super::super) fn read(
        spec: &Spec,
        folder: &Path,
        source: &SpecSource,
        hasher: &mut blake3::Hasher,
    ) -> Result<Self, LabError> {
        check_stack(spec)?;
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
        let kernel = Kernel::cached().map_err(LinuxHostError::from)?;
        let fio = fio_version()?;
        for part in ["linux", kernel.release(), kernel.recipe(), &fio, &text] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let device = device_argument(spec, folder);
        let file_system = spec.stack.filesystem;
        Ok(Self { kernel, fio, device, text, sections, overrides, variables, file_system, passthrough })
    }

    pub(super) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub(super) fn device(&self) -> &str {
        &self.device
    }

    pub(super) fn passthrough(&self) -> bool {
        self.passthrough
    }

    /// The job file as fio gets it.
    pub(super) fn job_file(&self, seed: u64) -> String {
        let place = match self.file_system.mount_type() {
            Some(_) => job_file::Place::MountPoint,
            None => job_file::Place::Device,
        };
        job_file::for_fio(&self.text, &self.sections, &self.overrides, place, seed)
    }

    /// The environment of fio: what `${NAME}` stands for, and nothing of the
    /// caller's but the search path.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = environment();
        environment.extend(self.variables.iter().map(|(key, value)| (key.into(), value.into())));
        environment
    }

    /// What a reader must know of such a run.
    pub(super) fn note(&self, run: &PlannedRun) -> String {
        let free = "Time travel makes what a real kernel computes free, \
             so its latencies and rates are those of the device and of waiting alone; processor time (stack.cpu, \
             stack.io_path) is the model's alone, and the two hosts differ by it";
        let processor = processor_note(run, free);
        format!("host = \"linux\": Linux {} and {} in virtual time. {processor}", self.kernel.release(), self.fio)
    }
}

/// What every program inside gets: the search path, and nothing else of the caller's.
pub(in super::super) fn environment() -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = vec![("LC_ALL".into(), "C".into()), ("TZ".into(), "UTC".into())];
    environment.extend(std::env::var_os("PATH").map(|path| ("PATH".into(), path)));
    environment
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

/// The spec's device as the guest's server takes it: a built-in name, or an absolute path.
pub(in super::super) fn device_argument(spec: &Spec, folder: &Path) -> String {
    if !spec.stack.device.ends_with(".toml") {
        return spec.stack.device.clone();
    }
    let path: PathBuf = folder.join(&spec.stack.device);
    std::path::absolute(&path).unwrap_or(path).display().to_string()
}

/// Refuses what a real kernel cannot be asked for.
pub(in super::super) fn check_stack(spec: &Spec) -> Result<(), LinuxHostError> {
    let refuse = |option: &str, reason: &str| {
        Err(LinuxHostError::Option { option: option.to_owned(), reason: reason.to_owned() })
    };
    if spec.workload.trace.is_some() {
        return refuse("workload.trace", "traces are replayed by the model; give fio's read_iolog in a job instead");
    }
    if spec.stack.contents == Contents::None {
        return refuse("stack.contents", "a served device always keeps what is written to it; take the key out");
    }
    let default = QueueConfig::default();
    let block = &spec.stack.block;
    if matches!(block.scheduler, Some(SchedulerKind::Zinc | SchedulerKind::ZincLifo)) {
        return refuse("stack.block.scheduler", "Linux 6.12 has no ZINC; write none or mq-deadline");
    }
    let fixed = "it follows from the driver and the device; take the key out";
    if block.cpus != default.cpus {
        return refuse("stack.block.cpus", "the guest has one processor; take the key out");
    }
    if block.nr_hw_queues.is_some() {
        return refuse("stack.block.nr_hw_queues", fixed);
    }
    if block.queue_depth.is_some() {
        return refuse("stack.block.queue_depth", "it follows from the driver; set stack.block.nr_requests");
    }
    if block.max_segments != default.max_segments {
        return refuse("stack.block.max_segments", fixed);
    }
    if block.segment_bytes != default.segment_bytes {
        return refuse("stack.block.segment_bytes", "it follows from the memory of the jobs; use fio's iomem");
    }
    if block.zinc != default.zinc {
        return refuse("stack.block.zinc", "Linux 6.12 has no ZINC");
    }
    Ok(())
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
