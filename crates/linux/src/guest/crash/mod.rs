//! Power cuts, from the inside: running a command while its writes are logged, and looking at what a cut may leave.
//!
//! This runs as the command of an ordinary guest, as root and with the kernel's file systems: `plumb linux-task FILE`.

mod examine;
mod judge;
mod kernel_log;
mod places;
mod promises;
mod record;
mod rehearse;
mod shell;
mod stand;
mod state_device;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::error::{GuestError, attempt};
use crate::LinuxError;
use crate::crash::Task;

/// The exit status of a task that cannot be done because of what was asked for.
pub const STATUS_INVALID: u8 = 2;

/// The name of the subcommand that calls [`main`].
pub const SUBCOMMAND: &str = "linux-task";

/// Does what the file says; the exit status of the process.
///
/// # Errors
/// Where what was asked for is at fault, and, as [`LinuxError::Guest`], outside of a guest and where the guest cannot do it.
pub fn main(file: &Path) -> Result<u8, LinuxError> {
    task(file).map_err(|error| match error.is_the_callers {
        true => LinuxError::Invalid { message: error.to_string() },
        false => LinuxError::Guest { message: error.to_string(), log: String::new() },
    })
}

fn task(file: &Path) -> Result<u8, GuestError> {
    if std::env::var_os("PLUMB_DEVICE").is_none() {
        return Err(GuestError::new(format!("`{SUBCOMMAND}` is for the inside of a guest: use `plumb crash`")));
    }
    let opened = attempt(File::open(file), || format!("cannot read {}", file.display()))?;
    let task: Task = serde_json::from_reader(BufReader::new(opened))
        .map_err(|error| GuestError::new(format!("{}: {error}", file.display())))?;
    match task {
        Task::Record(record) => record::record(&record),
        Task::Judge(task) => judge::judge(&task).map(|()| 0),
        Task::Rehearse(task, rehearsal) => rehearse::rehearse(&task, &rehearsal).map(|()| 0),
        Task::Stand(task, stand) => stand::stand(&task, &stand),
    }
}
