//! A program under a real kernel in virtual time.
//!
//! What is measured cold starts from an image of what was prepared ([`image`](super::image)): a guest of its own made it, for
//! this run or for another of the same preparation. What is measured warm is prepared by its own guest.

use file_systems::FileSystem;
use linux::{Charges, Ended, Kernel, LinuxError};

use super::script::{self, Groups};
use super::{ProgramInput, image};
use crate::error::{LabError, LinuxHostError};
use crate::host::{Stand, linux as linux_host};
use crate::results::RunResult;

/// Runs to the end; `None` when `halted` said so on the way.
pub(super) fn run(
    stand: Stand<'_>,
    input: &ProgramInput,
    kernel: &Kernel,
    device: &str,
    profile: &str,
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, LabError> {
    let scratch = input.scratch()?;
    let stack = &stand.spec.stack;
    let mut guest = linux_host::bare_guest(stand, device, scratch.path())?;
    guest.environment = input.environment(scratch.path());
    let prepared = match image::prepared(stand, input, kernel, &guest, profile, halted) {
        Err(LabError::Linux(LinuxHostError::Guest(LinuxError::Stopped))) => return Ok(None),
        prepared => prepared?,
    };
    let mut text = script::start(stack);
    match &prepared {
        Some(image) => {
            guest.image = Some(image.path().to_owned());
            guest.file_system_is_made = guest.file_system != FileSystem::None;
        }
        None => text += &(script::prepare(&input.program, &input.variables) + script::settle(&input.program)),
    }
    // In a clock that only waiting moves, what never waits would hold up everything without end.
    let besides_pay = stand.charge.is_none() && !input.program.beside.is_empty();
    if besides_pay {
        guest.kernel_parameters.extend(Charges::floor().parameters());
    }
    text += &script::measure(&input.program, Groups::Guest, besides_pay);
    let outcome = match guest.script(&text).run_until(kernel, halted) {
        Err(LinuxError::Stopped) => return Ok(None),
        outcome => outcome.map_err(LinuxHostError::from)?,
    };
    if outcome.ended != Ended::Exited(0) {
        return Err(super::failed(&linux_host::words(&outcome)).into());
    }
    let (_, mut result) = super::result(input, scratch.path())?;
    let mut counters = linux_host::device_counters(outcome.device.as_ref());
    counters.append(&mut result.counters);
    let free = "What the kernel and the program compute is free, so that times are those of the \
         device and of waiting alone";
    let counted = match prepared {
        Some(_) => "device.* counts from the mount on, on a device that has what was prepared",
        None => "device.* counts the whole run",
    };
    result.notes.push(format!(
        "host = \"linux\": Linux {} in virtual time. {}; {counted}, block.* what was measured",
        outcome.kernel,
        linux_host::processor_note(stand, free)
    ));
    if besides_pay {
        let Charges { system_call_ns, copy_ns_per_kib, .. } = Charges::floor();
        result.notes.push(format!(
            "What runs beside pays {system_call_ns} ns for a system call and {copy_ns_per_kib} ns for each KiB that it copies, since a loop \
             that costs nothing would never let the clock go on"
        ));
    }
    Ok(Some(RunResult {
        device_model: linux_host::model_name(stand),
        elapsed_ns: outcome.virtual_time().0,
        counters,
        ..result
    }))
}
