//! Processes of a run on this machine: waited for, and killed with all that they started when the run is given up.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::LiveHostError;

/// Between two looks whether a process has ended.
const POLL: Duration = Duration::from_millis(50);

/// Waits for a process; its words if it failed, nothing when it was halted. Its standard error is kept in `scratch`.
pub(crate) fn finished(
    command: &mut Command,
    scratch: &Path,
    halted: &dyn Fn() -> bool,
) -> Result<Option<Result<(), String>>, LiveHostError> {
    let words = scratch.join("stderr");
    let stderr = File::create(&words).map_err(LiveHostError::file("make a file for the run's words"))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
    let mut child = command.spawn().map_err(LiveHostError::file("start the run's process"))?;
    loop {
        let ended = child.try_wait().map_err(LiveHostError::file("wait for the run's process"))?;
        if let Some(status) = ended {
            let said = fs::read_to_string(&words).unwrap_or_default();
            return Ok(Some(if status.success() { Ok(()) } else { Err(format!("{}; {status}", said.trim())) }));
        }
        if halted() {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// Runs a program to its end; what it printed.
pub(super) fn ran(command: &mut Command) -> Result<String, LiveHostError> {
    let program = format!("{command:?}").replace('"', "");
    let output = command.stdin(Stdio::null()).output();
    let failed = |said: String| LiveHostError::Program { program: program.clone(), said };
    let output = output.map_err(|error| failed(error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(failed(text(&output.stderr))) }
}
