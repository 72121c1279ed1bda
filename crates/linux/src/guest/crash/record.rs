//! The command, while its writes are logged.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::acknowledge::{Listener, position_bytes};
use super::shell;
use crate::crash::{Record, Recorded};
use crate::guest::error::{GuestError, attempt};
use crate::outcome::Ended;

/// Sets up, makes everything so far durable, and runs the command; its exit status.
pub(super) fn record(task: &Record) -> Result<u8, GuestError> {
    let folder = std::env::var_os("PLUMB_MOUNT").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    if let Some(setup) = &task.setup {
        shell::script(setup, &folder, &[])?.map_err(|why| GuestError::new(format!("--setup failed: {why}")))?;
    }
    settle(&folder)?;
    let began_bytes = position_bytes(&task.log)?;
    let listener = Listener::start(&task.log)?;
    let words: Vec<OsString> = task.command.iter().map(OsString::from).collect();
    let (program, arguments) = words.split_first().ok_or_else(|| GuestError::new("there is no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&folder).env("PLUMB_ACKNOWLEDGE", &listener.path);
    let ended = match command.status() {
        Ok(status) => match (status.code(), std::os::unix::process::ExitStatusExt::signal(&status)) {
            (Some(code), _) => Ended::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, signal) => Ended::Signaled(signal.unwrap_or_default()),
        },
        Err(error) => {
            return Err(GuestError::new(format!("cannot run {} inside: {error}", Path::new(program).display())));
        }
    };
    let recorded = Recorded { began_bytes, ended, acknowledgements: listener.finish()? };
    let text = serde_json::to_vec(&recorded).map_err(|error| GuestError::new(error.to_string()))?;
    attempt(fs::write(&task.recorded, text), || format!("cannot write {}", task.recorded.display()))?;
    Ok(ended.shell_status())
}

/// What was done so far is on the device, and the device has flushed it: no cut takes it.
fn settle(folder: &Path) -> Result<(), GuestError> {
    let failed = || "cannot flush what was set up".to_owned();
    if std::env::var_os("PLUMB_MOUNT").is_some() {
        let opened = attempt(File::open(folder), failed)?;
        attempt(rustix::fs::syncfs(opened), failed)?;
    }
    let device = std::env::var_os("PLUMB_DEVICE").unwrap_or_default();
    // A device that is mounted cannot be opened for writing, and need not be for a flush.
    attempt(File::open(device).and_then(|device| device.sync_all()), failed)
}
