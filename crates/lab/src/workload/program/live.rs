//! A program under the kernel of this machine, on the wall clock.

use std::process::Command;

use super::ProgramInput;
use super::script::{self, Groups};
use crate::error::LabError;
use crate::host::live::{self as live_host, Backing, Group, LiveDisk};
use crate::host::{Stand, linux as linux_host};
use crate::results::RunResult;

/// Runs to the end; `None` when `halted` said so on the way.
pub(super) fn run(
    stand: Stand<'_>,
    input: &ProgramInput,
    release: &str,
    device: Option<&str>,
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, LabError> {
    let _turn = live_host::turn();
    if halted() {
        return Ok(None);
    }
    let group = script::is_limited(&input.program).then(|| Group::new(&controllers(input))).transpose()?;
    let scratch = input.scratch()?;
    let stack = &stand.spec.stack;
    let backing = device.map_or(Backing::File, |device| live_host::served(stand, device));
    let mut disk = LiveDisk::new(stack, &backing)?;
    let shell = |disk: &LiveDisk, script: &str| -> Result<Option<()>, LabError> {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).env_clear().envs(input.environment(scratch.path()));
        command.env("PLUMB_DEVICE", disk.node()).current_dir(disk.place().unwrap_or("/".as_ref()));
        if let Some(place) = disk.place() {
            command.env("PLUMB_MOUNT", place);
        }
        match live_host::finished(&mut command, scratch.path(), halted)? {
            None => Ok(None),
            Some(Ok(())) => Ok(Some(())),
            Some(Err(said)) => Err(super::failed(&said).into()),
        }
    };
    let mut text = script::start(stack) + &script::prepare(&input.program, &input.variables);
    // Of this device alone: the machine has others.
    text += match disk.place() {
        Some(_) => "sync -f \"$PLUMB_MOUNT\"\n",
        None => "sync \"$PLUMB_DEVICE\"\n",
    };
    if shell(&disk, &text)?.is_none() {
        return Ok(None);
    }
    if input.program.cold {
        disk.cool()?;
    }
    let groups = group.as_ref().map_or(Groups::Guest, |group| Groups::Live(group.root(), group.name()));
    let text = script::start(stack) + &script::measure(&input.program, groups, false);
    if shell(&disk, &text)?.is_none() {
        return Ok(None);
    }
    drop(group);
    let (elapsed_ns, mut result) = super::result(input, scratch.path())?;
    let report = disk.end()?;
    let mut counters = linux_host::device_counters(report.as_ref());
    counters.append(&mut result.counters);
    let (model, what) = match device {
        Some(name) => (linux_host::model_name(stand), format!("on {name}, modelled and served on the wall clock")),
        None => (format!("loop device, Linux {release}"), "on a loop device".to_owned()),
    };
    let whole = if device.is_some() { "device.* counts the whole run, block.* what was measured; " } else { "" };
    result.notes.push(format!(
        "host = \"live\": Linux {release} of this machine {what}. {whole}times are also those of whatever lies under it, and of \
         what else the machine did"
    ));
    Ok(Some(RunResult { device_model: model, elapsed_ns, counters, ..result }))
}

/// The controllers that the spec's limits need.
fn controllers(input: &ProgramInput) -> Vec<&'static str> {
    let memory = input.program.memory.is_some().then_some("memory");
    let io = (!input.program.io_max.is_empty()).then_some("io");
    memory.into_iter().chain(io).collect()
}
