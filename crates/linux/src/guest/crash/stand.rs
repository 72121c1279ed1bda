//! Mounts one state for somebody to look at.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crash::{Moments, Rule, State, Survivors};

use super::examine::{Examiner, variables};
use super::judge::{Recording, with_rule};
use super::state_device::StateDevices;

use crate::crash::{Judge, Stand, Survival};
use crate::guest::error::{GuestError, attempt};
use crate::guest::file_system::MOUNT;

/// Makes the state, mounts it where the kernel does, and runs the command in it; its exit status.
pub(super) fn stand(task: &Judge, stand: &Stand) -> Result<u8, GuestError> {
    let recording = Recording::read(task)?;
    with_rule!(task.judging.survival, recording, |rule| with(task, stand, &recording, rule))
}

/// A state to stand in.
struct Chosen {
    moment: usize,
    until: usize,
    survivors: Survivors,
}

fn with<R: Rule>(task: &Judge, stand: &Stand, recording: &Recording, rule: R) -> Result<u8, GuestError> {
    let log = &recording.log.log;
    let state = match &stand.smallest {
        Some(smallest) => {
            let survivors = Survivors::choose(smallest.parts, |part| !smallest.lost_parts.contains(&part));
            Chosen { moment: smallest.moment, until: smallest.until, survivors }
        }
        None => {
            let plan = recording.plan(&rule, task);
            let state = plan.states.into_iter().find(|state| state.name() == stand.hash);
            let absent = || GuestError::of_the_caller(format!("there is no state {} in this run", stand.hash));
            let State { moment, until, survivors, .. } = state.ok_or_else(absent)?;
            Chosen { moment, until, survivors }
        }
    };
    let mut devices = StateDevices::new(log.capacity_bytes(), log.unit_bytes())?;
    let mut moments = Moments::new(log, rule);
    for _ in 0..=state.moment {
        moments.advance();
        devices.settle(moments.settled())?;
    }
    let device = devices.make(&state.survivors.pieces(&moments.undecided(), task.judging.atomic_bytes))?;
    let mut examiner = Examiner::new(task)?;
    examiner.tell(recording.promised_until(state.until))?;
    let mut folder = Path::new("/");
    let mut is_mounted = false;
    if task.file_system.mount_type().is_some() {
        match examiner.mount(device.node())? {
            Ok(()) => (folder, is_mounted) = (Path::new(MOUNT), true),
            Err(why) => eprintln!("plumb: {why}; the device is {}", device.node().display()),
        }
    }
    let words: Vec<OsString> = stand.command.iter().map(OsString::from).collect();
    let (program, arguments) = words.split_first().ok_or_else(|| GuestError::new("there is no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).envs(variables(device.node(), folder));
    let status = attempt(command.status(), || format!("cannot run {}", Path::new(program).display()))?;
    if is_mounted {
        examiner.unmount(device.node())?;
    }
    devices.remove(device)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
