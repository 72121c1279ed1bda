//! The caller's scripts where no power was lost: what fails there is no verdict on any state.

use crash::{Moments, Rule, Survivors};

use super::examine::{Examiner, Finding, Found};
use super::judge::{Recording, with_rule};
use super::state_device::StateDevices;
use crate::crash::{Judge, Judged, Rehearsal, Survival};
use crate::guest::error::{GuestError, attempt};

/// Runs `--recover` and `--check` after the setup, and on everything that the device had been given when the command had ended and
/// its file system was unmounted; writes a file where both are content.
pub(super) fn rehearse(task: &Judge, rehearsal: &Rehearsal) -> Result<(), GuestError> {
    let recording = Recording::read(task)?;
    with_rule!(task.judging.survival, recording, |rule| with(task, &recording, rule))?;
    attempt(std::fs::write(&rehearsal.done, ""), || format!("cannot write {}", rehearsal.done.display()))
}

fn with<R: Rule>(task: &Judge, recording: &Recording, rule: R) -> Result<(), GuestError> {
    let log = &recording.log.log;
    let mut devices = StateDevices::new(log.capacity_bytes(), log.unit_bytes())?;
    let mut examiner = Examiner::new(task)?;
    let mut moments = Moments::new(log, rule);
    let mut has_begun = false;
    while moments.advance() {
        devices.settle(moments.settled())?;
        if !has_begun && moments.entries() >= recording.first() {
            has_begun = true;
            let device = devices.make(&[])?;
            let found = examiner.rehearse(device.node(), &[], &[]);
            devices.remove(device)?;
            content(found?, "before the command ran, where no power was lost")?;
        }
    }
    let undecided = moments.undecided();
    let parts = crash::parts_by_write(&undecided, task.judging.atomic_bytes).last().map_or(0, |last| last.end);
    let everything = Survivors::choose(parts, |_| true);
    let device = devices.make(&everything.pieces(&undecided, task.judging.atomic_bytes))?;
    let promised = recording.promised_until(usize::MAX);
    let found = examiner.rehearse(device.node(), promised, &task.judging.checked_paths);
    devices.remove(device)?;
    content(found?, "after the command had ended, where no power was lost")
}

fn content(found: Found, when: &str) -> Result<(), GuestError> {
    let Some(Finding { by, what, .. }) = found else { return Ok(()) };
    let who = match by {
        Judged::Recover => "--recover fails",
        Judged::Check => "the check fails",
        _ => "the file system cannot be mounted",
    };
    Err(GuestError::of_the_caller(format!("{who} {when}, so it says nothing of a power cut: {what}")))
}
