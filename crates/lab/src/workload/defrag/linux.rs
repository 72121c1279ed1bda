//! A cell under a real kernel in virtual time.

use defrag::study::Cell;
use linux::{Ended, Kernel, LinuxError};

use super::{CELL, MEASURED};
use crate::error::StudyHostError;
use crate::host::{Stand, linux as linux_host};
use crate::results::RunResult;

/// Runs to the end; `None` when `halted` said so on the way.
pub(super) fn run(
    stand: Stand<'_>,
    cell: &Cell,
    kernel: &Kernel,
    device: &str,
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, StudyHostError> {
    let scratch = super::scratch(cell)?;
    let mut guest = linux_host::bare_guest(stand, device, scratch.path())?;
    guest.environment = linux_host::environment();
    guest.environment.push(("PLUMB".into(), guest.plumb.clone().into()));
    guest.environment.push(("SCRATCH".into(), scratch.path().into()));
    let script = format!(
        "{}mkdir \"$PLUMB_MOUNT/study\"\nexec \"$PLUMB\" defrag-study cell \"$SCRATCH/{CELL}\" \"$PLUMB_MOUNT/study\" \
         \"$SCRATCH\" {} \"$SCRATCH/{MEASURED}\"\n",
        linux_host::queue_commands(&stand.spec.stack),
        stand.seed
    );
    let outcome = match guest.script(&script).run_until(kernel, halted) {
        Err(LinuxError::Stopped) => return Ok(None),
        outcome => outcome?,
    };
    if outcome.ended != Ended::Exited(0) {
        return Err(StudyHostError::Failed { said: linux_host::words(&outcome) });
    }
    let measured = super::measured(scratch.path())?;
    let mut result = super::result(measured, linux_host::model_name(stand), outcome.virtual_time().0);
    result.counters.extend(linux_host::device_counters(outcome.device.as_ref()));
    let free = "What the kernel and the tools compute is free, so that times are \
         those of the device and of waiting alone";
    let processor = linux_host::processor_note(stand, free);
    result.notes.push(format!("host = \"linux\": Linux {} in virtual time. {processor}", outcome.kernel));
    Ok(Some(result))
}
