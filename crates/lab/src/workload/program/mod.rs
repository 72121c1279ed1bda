//! Any program as a workload, on real files.
//!
//! A run prepares, empties caches, limits, starts what runs beside, and measures one command: under a real kernel in virtual
//! time ([`linux`]) or under that of this machine ([`live`]). Metrics come from what that printed ([`values`]), from how long
//! it ran, from the kernel's counters of the device while it ran, and from those of a modelled device.

mod cache;
mod image;
mod linux;
mod live;
mod packed;
mod script;
mod values;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use ::linux::Kernel;
use file_systems::FileSystem;
use tempfile::TempDir;

use super::{Reading, Workload};
use crate::error::{LabError, LinuxHostError, LiveHostError, ProgramError};
use crate::host::Stand;
use crate::host::linux as linux_host;
use crate::host::live as live_host;
use crate::results::RunResult;
use crate::spec::{HostKind, Program, value_text};
use values::Extractor;

/// Bytes of the measured command's output that are kept with the run.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// What a run needs, read and checked before anything runs.
#[derive(Clone, Debug)]
pub(super) struct ProgramInput {
    program: Program,
    extractors: Vec<(String, Extractor)>,
    variables: Vec<(String, String)>,
    host: Host,
}

#[derive(Clone, Debug)]
enum Host {
    Linux {
        kernel: Kernel,
        device: String,
        /// Identifies the device's profile.
        profile: String,
    },
    Live {
        release: String,
        /// The modelled device that is served; a loop device over a file where there is none.
        device: Option<String>,
    },
}

impl ProgramInput {
    fn read(reading: &mut Reading<'_>) -> Result<Self, LabError> {
        let (spec, folder) = (reading.spec, reading.folder);
        let unfit = |message: &str| Err(ProgramError::Unfit(message.to_owned()).into());
        let Some(program) = spec.workload.program.clone() else { return unfit("it is not there") };
        if spec.stack.host == HostKind::Model {
            return unfit("it needs a real kernel: stack.host = \"linux\", or \"live\" as root");
        }
        if program.measure.trim().is_empty() {
            return unfit("`measure` is empty: name the command that is measured");
        }
        if spec.run.commands {
            return unfit("run.commands logs what fio jobs and traces do; take it out");
        }
        let extractors = program
            .metrics
            .iter()
            .map(|(name, extract)| Ok((name.clone(), Extractor::new(name, extract)?)))
            .collect::<Result<_, ProgramError>>()?;
        let host = if spec.stack.host == HostKind::Live {
            if spec.stack.filesystem == FileSystem::Zonefs {
                return Err(LiveHostError::FileSystem { file_system: spec.stack.filesystem }.into());
            }
            let device = (spec.stack.device != live_host::LOOP).then(|| linux_host::device_argument(spec, folder));
            Host::Live { release: live_host::release()?, device }
        } else {
            let kernel = spec.stack.linux.kernel().map_err(LinuxHostError::from)?;
            let device = linux_host::device_argument(spec, folder);
            Host::Linux { kernel, device, profile: reading.profile.to_owned() }
        };
        let parts = match &host {
            Host::Linux { kernel, .. } => ["program, prepared apart when cold", kernel.release(), kernel.recipe()],
            Host::Live { release, .. } => ["program", "live", release.as_str()],
        };
        for part in parts {
            reading.hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        if matches!(host, Host::Linux { .. }) && !program.beside.is_empty() {
            reading.hasher.update(b"what runs beside pays");
        }
        let variables: Vec<_> =
            spec.workload.variables.iter().map(|(key, value)| (key.clone(), value_text(value))).collect();
        if variables.iter().any(|(name, _)| !script::names(&program.prepare, name)) {
            reading.hasher.update(b"prepared with the variables that it names");
        }
        Ok(Self { program, extractors, variables, host })
    }

    /// The environment of every command: the search path, the run's folder and the spec's variables.
    fn environment(&self, scratch: &Path) -> Vec<(OsString, OsString)> {
        let mut environment = linux_host::environment();
        environment.push(("SCRATCH".into(), scratch.into()));
        // For what is run under it.
        let plumb = self.program.prefetch.as_ref().and_then(|_| std::env::current_exe().ok());
        environment.extend(plumb.map(|plumb| ("PLUMB".into(), plumb.into_os_string())));
        environment.extend(self.variables.iter().map(|(key, value)| (OsString::from(key), OsString::from(value))));
        environment
    }

    /// A folder with the commands as files.
    fn scratch(&self) -> Result<TempDir, LinuxHostError> {
        let scratch = tempfile::Builder::new()
            .prefix("plumb-program")
            .tempdir()
            .map_err(LinuxHostError::file("make a folder for the run's files"))?;
        for (name, text) in script::files(&self.program) {
            std::fs::write(scratch.path().join(name), text)
                .map_err(LinuxHostError::file("write a command of the run"))?;
        }
        Ok(scratch)
    }
}

/// Reads the spec's program, for its host.
pub(super) fn read(reading: &mut Reading<'_>) -> Result<Arc<dyn Workload>, LabError> {
    Ok(Arc::new(ProgramInput::read(reading)?))
}

impl Workload for ProgramInput {
    fn run(&self, stand: Stand<'_>, _: &dyn Fn(f64), halted: &dyn Fn() -> bool) -> Result<Option<RunResult>, LabError> {
        match &self.host {
            Host::Linux { kernel, device, profile } => linux::run(stand, self, kernel, device, profile, halted),
            Host::Live { release, device } => live::run(stand, self, release, device.as_deref(), halted),
        }
    }
}

/// The error of a script whose words are `said`: they begin with the key whose command failed.
fn failed(said: &str) -> ProgramError {
    let which = said.split(':').next().filter(|word| script::KEYS.contains(word)).unwrap_or("measure").to_owned();
    let said = said.strip_prefix(&format!("{which}:")).unwrap_or(said).trim().to_owned();
    ProgramError::Failed { which, said }
}

/// What was prefetched, as metrics: each number of the report under its name.
fn prefetched(report: &[u8]) -> Vec<(String, f64)> {
    let report: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(report).unwrap_or_default();
    report.iter().filter_map(|(name, value)| Some((format!("prefetch_{name}"), value.as_f64()?))).collect()
}

/// What the script in `scratch` left: how long the measured command took, and the run's record but for the device.
fn result(input: &ProgramInput, scratch: &Path) -> Result<(u64, RunResult), LabError> {
    let file = |name: &str| std::fs::read(scratch.join(name)).unwrap_or_default();
    let (printed, complained) = (file(script::PRINTED), file(script::COMPLAINED));
    let told = script::Told::read(&String::from_utf8_lossy(&file(script::TOLD)))
        .ok_or_else(|| LinuxHostError::Result { message: "the script did not say how the command ended".to_owned() })?;
    let printed = String::from_utf8_lossy(&printed);
    let mut failures = Vec::new();
    if told.status != 0 {
        let words = String::from_utf8_lossy(&complained);
        let last = words.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
        failures.push(format!("workload.program.measure ended with status {}: {last}", told.status));
    }
    let mut values = vec![("status".to_owned(), f64::from(told.status))];
    // How soon a program failed is no figure.
    if told.status == 0 {
        values.insert(0, ("elapsed_s".to_owned(), told.elapsed_ns as f64 / 1e9));
        if input.program.prefetch.is_some() {
            values.extend(prefetched(&file(script::PREFETCHED)));
        }
        for (name, extractor) in &input.extractors {
            match extractor.value(&printed) {
                Some(value) => values.push((name.clone(), value)),
                None => failures.push(format!("program.{name}: the output has no such number")),
            }
        }
    }
    let text = printed.chars().take(TEXT_BYTES_MAX).collect();
    Ok((told.elapsed_ns, RunResult { counters: told.counters, failures, text, values, ..RunResult::default() }))
}
