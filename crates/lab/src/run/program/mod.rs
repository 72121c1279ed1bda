//! Any program as a workload, under a real kernel in virtual time.
//!
//! One guest does a run: it prepares, empties caches, limits, starts what runs beside, and measures one command. Metrics
//! come from what that printed ([`values`]), from how long it ran, from the kernel's counters of the device while it ran, and
//! from the device's own of the whole run.

mod script;
mod values;

use std::ffi::OsString;
use std::path::Path;

use ::linux::{Ended, Kernel, LinuxError};

use super::linux_host::LinuxHostError;
use super::{LabError, PlannedRun, linux_host};
use crate::results::RunResult;
use crate::spec::{HostKind, Program, Spec, value_text};
use values::Extractor;

/// Bytes of the measured command's output that are kept with the run.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// What a run needs, read and checked before anything runs.
#[derive(Clone, Debug)]
pub struct ProgramInput {
    program: Program,
    extractors: Vec<(String, Extractor)>,
    variables: Vec<(String, String)>,
    kernel: Kernel,
    device: String,
}

/// Why a program cannot be run, or what went wrong before it was measured.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The spec asks for what cannot be.
    #[error("workload.program: {0}")]
    Unfit(String),
    /// A command that is not measured failed.
    #[error("workload.program.{which} failed: {said}")]
    Failed {
        /// Its key.
        which: String,
        /// Its words.
        said: String,
    },
}

impl ProgramInput {
    /// Reads what `spec`, a file in `folder`, asks for; the kernel goes into `hasher`, since results depend on it.
    pub(super) fn read(spec: &Spec, folder: &Path, hasher: &mut blake3::Hasher) -> Result<Self, LabError> {
        let unfit = |message: &str| Err(ProgramError::Unfit(message.to_owned()).into());
        let Some(program) = spec.workload.program.clone() else { return unfit("it is not there") };
        if spec.stack.host != HostKind::Linux {
            return unfit("it needs a real kernel: stack.host = \"linux\"");
        }
        if program.measure.trim().is_empty() {
            return unfit("`measure` is empty: name the command that is measured");
        }
        if spec.run.commands {
            return unfit("run.commands logs what fio jobs and traces do; take it out");
        }
        linux_host::check_stack(spec)?;
        let extractors = program
            .metrics
            .iter()
            .map(|(name, extract)| Ok((name.clone(), Extractor::new(name, extract)?)))
            .collect::<Result<_, ProgramError>>()?;
        let kernel = Kernel::cached().map_err(LinuxHostError::from)?;
        for part in ["program", kernel.release(), kernel.recipe()] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let variables = spec.workload.variables.iter().map(|(key, value)| (key.clone(), value_text(value))).collect();
        let device = linux_host::device_argument(spec, folder);
        Ok(Self { program, extractors, variables, kernel, device })
    }
}

/// Runs to the end; `None` when `halted` said so on the way.
pub(super) fn run(
    run: &PlannedRun,
    input: &ProgramInput,
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, LabError> {
    let scratch = tempfile::Builder::new()
        .prefix("plumb-program")
        .tempdir()
        .map_err(LinuxHostError::file("make a folder for the guest's files"))?;
    let mut guest = linux_host::bare_guest(run, &input.device, scratch.path())?;
    guest.environment = linux_host::environment();
    guest.environment.push(("SCRATCH".into(), scratch.path().into()));
    guest.environment.extend(input.variables.iter().map(|(key, value)| (OsString::from(key), OsString::from(value))));
    let stack = &run.point.spec.stack;
    for (name, text) in script::files(&input.program) {
        std::fs::write(scratch.path().join(name), text)
            .map_err(LinuxHostError::file("write a command for the guest"))?;
    }
    let outcome = match guest.script(&script::of(stack, &input.program)).run_until(&input.kernel, halted) {
        Err(LinuxError::Stopped) => return Ok(None),
        outcome => outcome.map_err(LinuxHostError::from)?,
    };
    if outcome.ended != Ended::Exited(0) {
        let said = linux_host::words(&outcome);
        let which = said.split(':').next().filter(|word| script::KEYS.contains(word)).unwrap_or("measure").to_owned();
        let said = said.strip_prefix(&format!("{which}:")).unwrap_or(&said).trim().to_owned();
        return Err(ProgramError::Failed { which, said }.into());
    }
    let file = |name: &str| std::fs::read(scratch.path().join(name)).unwrap_or_default();
    let (printed, complained) = (file(script::PRINTED), file(script::COMPLAINED));
    let told = script::Told::read(&String::from_utf8_lossy(&file(script::TOLD)))
        .ok_or_else(|| LinuxHostError::Result { message: "the guest did not say how the command ended".to_owned() })?;
    let printed_text = String::from_utf8_lossy(&printed);
    let mut failures = Vec::new();
    if told.status != 0 {
        let words = String::from_utf8_lossy(&complained);
        let last = words.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
        failures.push(format!("workload.program.measure ended with status {}: {last}", told.status));
    }
    let mut values =
        vec![("elapsed_s".to_owned(), told.elapsed_ns as f64 / 1e9), ("status".to_owned(), f64::from(told.status))];
    for (name, extractor) in &input.extractors {
        match extractor.value(&printed_text) {
            Some(value) => values.push((name.clone(), value)),
            None => failures.push(format!("program.{name}: the output has no such number")),
        }
    }
    let mut counters = linux_host::device_counters(&outcome);
    counters.extend(told.counters);
    let free = "What the kernel and the program compute is free, so that times are those of the \
         device and of waiting alone";
    let note = format!(
        "host = \"linux\": Linux {} in virtual time. {}; device.* counts the whole run, block.* what was measured",
        outcome.kernel,
        linux_host::processor_note(run, free)
    );
    Ok(Some(RunResult {
        device_model: linux_host::model_name(run),
        elapsed_ns: outcome.virtual_time().0,
        counters,
        failures,
        notes: vec![note],
        text: printed_text.chars().take(TEXT_BYTES_MAX).collect(),
        values,
        ..run.result()
    }))
}
