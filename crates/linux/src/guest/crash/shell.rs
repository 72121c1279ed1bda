//! Commands of the user, run by a shell.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::fs::MemfdFlags;

use crate::guest::error::{GuestError, attempt};

/// Most of what a program says that is kept.
const SAID_BYTES_MAX: u64 = 16 << 10;

/// Runs `program` in `folder` to its end, with these variables besides the caller's; its status and the end of what it said.
pub(super) fn run(
    program: impl AsRef<OsStr>,
    words: &[&OsStr],
    folder: &Path,
    variables: &[(&str, &OsStr)],
) -> Result<(ExitStatus, String), GuestError> {
    let program = program.as_ref();
    let failed = || format!("cannot run {}", program.display());
    let said = File::from(attempt(rustix::fs::memfd_create("said", MemfdFlags::CLOEXEC), failed)?);
    let copy = || attempt(said.try_clone(), failed).map(Stdio::from);
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(copy()?).stderr(copy()?);
    for (name, value) in variables {
        command.env(name, value);
    }
    let status = attempt(command.status(), failed)?;
    let length = said.metadata().map_or(0, |about| about.len());
    let kept = length.min(SAID_BYTES_MAX);
    let mut bytes = vec![0; kept as usize];
    let read = said.read_at(&mut bytes, length - kept).unwrap_or(0);
    bytes.truncate(read);
    Ok((status, String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// Statuses by which a shell says that a program cannot be run, or is not there.
const NOT_RUN: [i32; 2] = [126, 127];

/// Runs a script, which was asked for as `name`, as `sh -e` does; why it failed, if it did.
///
/// # Errors
/// Where a program that it runs is not there: that says nothing about what it looks at.
pub(super) fn script(
    name: &str,
    text: &str,
    folder: &Path,
    variables: &[(&str, &OsStr)],
) -> Result<Result<(), String>, GuestError> {
    let (status, said) = run("sh", &["-ec".as_ref(), text.as_ref()], folder, variables)?;
    if let Some(code) = status.code().filter(|code| NOT_RUN.contains(code)) {
        return Err(GuestError::of_the_caller(format!(
            "{name} ended with status {code}: something that it runs is not found or cannot be run: {said}"
        )));
    }
    Ok(if status.success() {
        Ok(())
    } else if said.is_empty() {
        Err(format!("it ended with {status} and said nothing"))
    } else {
        Err(said)
    })
}
