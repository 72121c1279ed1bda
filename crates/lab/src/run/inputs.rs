//! What a spec refers to, read and checked before anything runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linux::{Charges, FileSystem};
use ssd::profile::Profile;
use workload::fio::parse::Source;
use workload::fio::{JobFile, ParseError};
use workload::replay::{Align, Fit, Pace, Placement, ReadOptions, Record, ReplayOptions, Speed};

use super::shared::{self, Shared};
use super::{LabError, LinuxHostError, LinuxWorkload, ProgramInput, StudyInput, program};
use crate::device::Described;
use crate::spec::{HostKind, Inline, Replay, ReplayMode, Spec, SpecError, SpecSource, value_text};

/// A device profile and a workload.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The device, where it is a modelled one.
    pub profile: Option<Profile>,
    /// What runs on it.
    pub workload: WorkloadInput,
    /// What the processor's work costs, where it is charged.
    pub charge: Option<Charges>,
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
    /// Any program, under a real kernel.
    Program(Box<ProgramInput>),
    /// A block trace; one too large to keep is read while it is replayed.
    Trace {
        /// The file.
        path: PathBuf,
        /// How to read it.
        read: ReadOptions,
        /// How to replay it.
        replay: ReplayOptions,
        /// Its requests, where there was room to keep them.
        records: Option<Arc<[Record]>>,
    },
}

impl Inputs {
    /// Reads what `spec`, a file in `folder` with the text `source`, refers to.
    pub(super) fn read(spec: &Spec, folder: &Path, source: &SpecSource, shared: &mut Shared) -> Result<Self, LabError> {
        if spec.stack.host == HostKind::Model && spec.stack.filesystem != FileSystem::None {
            let option = "stack.filesystem".to_owned();
            return Err(LinuxHostError::ModelOption { option, what: "file systems" }.into());
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes());
        if spec.stack.host == HostKind::Live && !(spec.workload.program.is_some() && program::has_profile(spec)) {
            let workload = match spec.workload.program {
                Some(_) => WorkloadInput::Program(Box::new(ProgramInput::read(spec, folder, "", &mut hasher)?)),
                None => WorkloadInput::Study(Box::new(StudyInput::read(spec, folder, &mut hasher)?)),
            };
            return Ok(Self { profile: None, workload, charge: None, digest: digest(&hasher) });
        }
        let charge = charge(spec, folder, &mut hasher)?;
        let device = shared.device(spec, folder)?;
        hasher.update(device.hash.as_bytes());
        let workload = match (&spec.workload.trace, &spec.workload.fio_file, &spec.workload.fio) {
            _ if spec.workload.defrag.is_some() => {
                WorkloadInput::Study(Box::new(StudyInput::read(spec, folder, &mut hasher)?))
            }
            _ if spec.workload.program.is_some() => {
                WorkloadInput::Program(Box::new(ProgramInput::read(spec, folder, &device.hash, &mut hasher)?))
            }
            _ if spec.stack.host == HostKind::Linux => {
                WorkloadInput::Linux(Box::new(LinuxWorkload::read(spec, folder, source, &mut hasher)?))
            }
            (Some(path), _, _) => trace(&folder.join(path), &spec.workload.replay, &device.hash, &mut hasher, shared)?,
            (None, Some(path), _) => {
                let path = folder.join(path);
                let text = std::fs::read(&path).map_err(|source| unreadable(&path, source))?;
                jobs(spec, &path.display().to_string(), &text, None, source, &mut hasher)?
            }
            (None, None, inline) => {
                let text = inline.as_deref().unwrap_or_default();
                let place = source.inline(text);
                // Without a place it is from the command line.
                let name = place.as_ref().map_or("--set workload.fio", Inline::name);
                jobs(spec, name, text.as_bytes(), place.as_ref(), source, &mut hasher)?
            }
        };
        Ok(Self { profile: Some(device.described.profile.clone()), workload, charge, digest: digest(&hasher) })
    }

    /// The modelled device.
    pub fn profile(&self) -> Result<&Profile, LabError> {
        let message = || "host = \"live\" has no modelled device; write host = \"model\" or \"linux\"".to_owned();
        self.profile.as_ref().ok_or_else(|| LabError::Unfit { message: message() })
    }

    /// The device that `spec` names, with its changes.
    pub fn device(spec: &Spec, folder: &Path) -> Result<Described, LabError> {
        shared::device(spec, folder)
    }

    /// Identifies device and workload by content.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// The table that `stack.linux.charge` names; results depend on it.
fn charge(spec: &Spec, folder: &Path, hasher: &mut blake3::Hasher) -> Result<Option<Charges>, LabError> {
    let file = &spec.stack.linux.charge;
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    if spec.stack.host != HostKind::Linux {
        let option = "stack.linux.charge".to_owned();
        let what = "such table: its costs are stack.cpu and stack.io_path";
        return Err(LinuxHostError::ModelOption { option, what }.into());
    }
    let charges = Charges::read(&folder.join(file)).map_err(LinuxHostError::from)?;
    hasher.update(charges.to_toml(&[]).as_bytes());
    Ok(Some(charges))
}

fn digest(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex()[..32].to_owned()
}

pub(super) fn unreadable(path: &Path, source: std::io::Error) -> LabError {
    LabError::Input { path: path.display().to_string(), source }
}

/// Reads a job file; `place` says where it stands, if in another file.
fn jobs(
    spec: &Spec,
    name: &str,
    text: &[u8],
    place: Option<&Inline>,
    source: &SpecSource,
    hasher: &mut blake3::Hasher,
) -> Result<WorkloadInput, LabError> {
    let variables: BTreeMap<String, String> =
        spec.workload.variables.iter().map(|(key, value)| (key.clone(), value_text(value))).collect();
    let overrides: Vec<String> =
        spec.workload.set.iter().map(|(key, value)| format!("{key}={}", value_text(value))).collect();
    let parsed = JobFile::parse(&Source { name, text, variables: &variables, overrides: &overrides });
    let mut jobs = parsed.map_err(|error| {
        if error.file == JobFile::OVERRIDE {
            return override_fault(spec, source, &error);
        }
        let (error, text) = match place {
            Some(place) => place.fault(error),
            None => (error, String::from_utf8_lossy(text).into_owned()),
        };
        LabError::Job(Box::new(error), text)
    })?;
    if let (Some(place), Ok(text)) = (place, std::str::from_utf8(text)) {
        place.place(text, &mut jobs);
    }
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

/// What is wrong with an option that the spec or the command line sets in every job.
fn override_fault(spec: &Spec, source: &SpecSource, error: &ParseError) -> LabError {
    let Some((key, value)) = spec.workload.set.iter().nth(error.span.line.saturating_sub(1)) else {
        return LabError::Unfit { message: error.kind.to_string() };
    };
    let dotted = format!("workload.set.{key}");
    let change = Some(format!("--set {dotted}={}", value_text(value)));
    let message = error.kind.to_string();
    let fault = SpecError::Override { change, swept: None, message: message.clone() };
    // In the file it needs no other name.
    match source.at_key(&dotted, SpecError::Override { change: None, swept: None, message }) {
        SpecError::Override { .. } => fault.into(),
        placed => placed.into(),
    }
}

/// `device` is all that `hasher` has taken in besides the version.
fn trace(
    path: &Path,
    settings: &Replay,
    device: &str,
    hasher: &mut blake3::Hasher,
    shared: &mut Shared,
) -> Result<WorkloadInput, LabError> {
    let options = ReadOptions {
        format: settings.format.as_deref().map(str::parse).transpose().map_err(LabError::unfit)?,
        disk: settings.disk.clone(),
        action: settings.action.as_deref().map(str::parse).transpose().map_err(LabError::unfit)?.unwrap_or_default(),
    };
    hasher.update(b"trace");
    let records = shared.trace(path, &options, device, hasher)?;
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
    Ok(WorkloadInput::Trace {
        path: path.to_owned(),
        read: options,
        replay: ReplayOptions { pace, placement },
        records,
    })
}
