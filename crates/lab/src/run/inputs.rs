//! What a spec refers to, read and checked before anything runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use linux::FileSystem;
use ssd::profile::Profile;
use workload::fio::JobFile;
use workload::fio::parse::Source;
use workload::replay::{Align, Fit, Pace, Placement, ReadOptions, ReplayOptions, Speed, TraceReader};

use super::{LabError, LinuxHostError, LinuxWorkload, StudyInput};
use crate::device::{Described, describe, leaves};
use crate::spec::{HostKind, Override, Replay, ReplayMode, Spec, hash_document, value_text};

/// A device profile and a workload.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The device, where it is a modelled one.
    pub profile: Option<Profile>,
    /// What runs on it.
    pub workload: WorkloadInput,
    digest: String,
}

/// What runs.
#[derive(Clone, Debug)]
pub enum WorkloadInput {
    /// fio jobs.
    Fio(JobFile),
    /// fio jobs for the real fio under a real kernel.
    Linux(Box<LinuxWorkload>),
    /// A cell of the fragmentation study, under a real kernel.
    Study(Box<StudyInput>),
    /// A block trace, read while it is replayed.
    Trace {
        /// The file.
        path: PathBuf,
        /// How to read it.
        read: ReadOptions,
        /// How to replay it.
        replay: ReplayOptions,
    },
}

impl Inputs {
    /// Reads what `spec`, a file in `folder`, refers to.
    pub fn read(spec: &Spec, folder: &Path) -> Result<Self, LabError> {
        if spec.stack.host == HostKind::Model && spec.stack.filesystem != FileSystem::None {
            let option = "stack.filesystem".to_owned();
            return Err(LinuxHostError::ModelOption { option, what: "file systems" }.into());
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes());
        if spec.stack.host == HostKind::Live {
            let workload = WorkloadInput::Study(Box::new(StudyInput::read(spec, folder, &mut hasher)?));
            return Ok(Self { profile: None, workload, digest: digest(&hasher) });
        }
        let device = Self::device(spec, folder)?;
        hasher.update(hash_document(&device.document).as_bytes());
        let workload = match (&spec.workload.trace, &spec.workload.fio_file, &spec.workload.fio) {
            _ if spec.workload.defrag.is_some() => {
                WorkloadInput::Study(Box::new(StudyInput::read(spec, folder, &mut hasher)?))
            }
            _ if spec.stack.host == HostKind::Linux => {
                WorkloadInput::Linux(Box::new(LinuxWorkload::read(spec, folder, &mut hasher)?))
            }
            (Some(path), _, _) => trace(&folder.join(path), &spec.workload.replay, &mut hasher)?,
            (None, Some(path), _) => {
                let path = folder.join(path);
                let text = std::fs::read(&path).map_err(|source| unreadable(&path, source))?;
                jobs(spec, &path.display().to_string(), &text, &mut hasher)?
            }
            (None, None, inline) => {
                let text = inline.as_deref().unwrap_or_default();
                jobs(spec, "workload.fio", text.as_bytes(), &mut hasher)?
            }
        };
        Ok(Self { profile: Some(device.profile), workload, digest: digest(&hasher) })
    }

    /// The modelled device.
    pub fn profile(&self) -> Result<&Profile, LabError> {
        let message = || "host = \"live\" has no modelled device; write host = \"model\" or \"linux\"".to_owned();
        self.profile.as_ref().ok_or_else(|| LabError::Unfit { message: message() })
    }

    /// The device that `spec` names, with its changes.
    pub fn device(spec: &Spec, folder: &Path) -> Result<Described, LabError> {
        let changes: Vec<Override> =
            leaves(&spec.stack.device_set).into_iter().map(|(key, value)| Override::new(&key, value)).collect();
        describe(&spec.stack.device, folder, &changes)
    }

    /// Identifies device and workload by content.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

fn digest(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex()[..32].to_owned()
}

fn unreadable(path: &Path, source: std::io::Error) -> LabError {
    LabError::Input { path: path.display().to_string(), source }
}

fn jobs(spec: &Spec, name: &str, text: &[u8], hasher: &mut blake3::Hasher) -> Result<WorkloadInput, LabError> {
    let variables: BTreeMap<String, String> =
        spec.workload.variables.iter().map(|(key, value)| (key.clone(), value_text(value))).collect();
    let overrides: Vec<String> =
        spec.workload.set.iter().map(|(key, value)| format!("{key}={}", value_text(value))).collect();
    let mut jobs = JobFile::parse(&Source { name, text, variables: &variables, overrides: &overrides })
        .map_err(|error| LabError::Job(Box::new(error), String::from_utf8_lossy(text).into_owned()))?;
    let wanted: Vec<&String> = spec.workload.sections.values().flatten().collect();
    if let Some(absent) = wanted.iter().find(|name| jobs.jobs.iter().all(|job| job.name != ***name)) {
        let known: Vec<&str> = jobs.jobs.iter().map(|job| job.name.as_str()).collect();
        let message = format!(
            "workload.sections names `{absent}`, which {name} does not have; write one of {}",
            known.join(", ")
        );
        return Err(LabError::Unfit { message });
    }
    if !spec.workload.sections.is_empty() {
        jobs.jobs.retain(|job| wanted.contains(&&job.name));
    }
    hasher.update(b"fio").update(text);
    Ok(WorkloadInput::Fio(jobs))
}

fn trace(path: &Path, settings: &Replay, hasher: &mut blake3::Hasher) -> Result<WorkloadInput, LabError> {
    let options = ReadOptions {
        format: settings.format.as_deref().map(str::parse).transpose().map_err(LabError::unfit)?,
        disk: settings.disk.clone(),
        action: settings.action.as_deref().map(str::parse).transpose().map_err(LabError::unfit)?.unwrap_or_default(),
    };
    // To the end, so that a fault in the last line shows before the first run.
    open_trace(path, &options)?.try_for_each(|record| record.map(drop))?;
    hasher.update(b"trace");
    File::open(path)
        .and_then(|file| hasher.update_reader(file).map(drop))
        .map_err(|source| unreadable(path, source))?;
    let pace = match settings.mode {
        ReplayMode::Open => {
            let speed = Speed::new(settings.speed).map_err(LabError::unfit)?;
            Pace::OpenLoop { speed, max_in_flight: Pace::MAX_IN_FLIGHT }
        }
        ReplayMode::Closed => Pace::ClosedLoop { in_flight: settings.depth },
    };
    let placement = Placement {
        scale: settings.scale,
        align: if settings.round { Align::Round } else { Align::Exact },
        fit: if settings.wrap { Fit::Wrap } else { Fit::Error },
    };
    Ok(WorkloadInput::Trace { path: path.to_owned(), read: options, replay: ReplayOptions { pace, placement } })
}

/// Opens a trace for reading from its start.
pub(super) fn open_trace(path: &Path, options: &ReadOptions) -> Result<TraceReader<BufReader<File>>, LabError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    Ok(TraceReader::new(path.display().to_string(), BufReader::new(file), options)?)
}
