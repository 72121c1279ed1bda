//! A cell on a loop device of this machine, on the wall clock.

use std::fs;
use std::process::Command;
use std::time::Instant;

use defrag::study::Cell;

use super::{CELL, MEASURED};
use crate::error::StudyHostError;
use crate::host::Stand;
use crate::host::live::{self as live_host, Backing, LiveDisk};
use crate::results::RunResult;

/// Runs to the end; `None` when `halted` said so on the way.
pub(super) fn run(
    stand: Stand<'_>,
    cell: &Cell,
    release: &str,
    halted: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, StudyHostError> {
    let _turn = live_host::turn();
    if halted() {
        return Ok(None);
    }
    let scratch = super::scratch(cell)?;
    let disk = LiveDisk::new(&stand.spec.stack, &Backing::File)?;
    let Some(place) = disk.place() else {
        return Err(StudyHostError::Unfit { message: "host = \"live\" needs stack.filesystem".to_owned() });
    };
    let study = place.join("study");
    fs::create_dir(&study).map_err(StudyHostError::file("make a folder on the loop device"))?;
    let program = std::env::current_exe().map_err(StudyHostError::file("find the plumb program"))?;
    let mut command = Command::new(program);
    command.args(["defrag-study", "cell"]).arg(scratch.path().join(CELL)).arg(&study).arg(scratch.path());
    command.arg(stand.seed.to_string()).arg(scratch.path().join(MEASURED));
    let began = Instant::now();
    let Some(said) = live_host::finished(&mut command, scratch.path(), halted)? else { return Ok(None) };
    if let Err(said) = said {
        return Err(StudyHostError::Failed { said });
    }
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let measured = super::measured(scratch.path())?;
    let mut result = super::result(measured, format!("loop device, Linux {release}"), elapsed_ns);
    result.notes.push(format!(
        "host = \"live\": Linux {release} of this machine on a loop device. Requests and bytes are of the loop device; \
         times are of whatever lies under it, and of what else the machine did"
    ));
    disk.end()?;
    Ok(Some(result))
}
