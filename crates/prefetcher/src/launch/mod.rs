//! Starts a command under the preload library, stays until it ends, and ends as it did.

mod elf;
mod library;
mod signals;

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

pub use elf::Obstacle;

use crate::PrefetcherError;
use crate::executor::{Executor, Recording, Report};
use crate::settings::Settings;
use crate::shared::ENVIRONMENT;
use crate::table::Shared;
use crate::watch::{Watch, Watched};

/// What is recorded of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recorded {
    /// Nothing.
    Nothing,
    /// Every access, which costs programs some microseconds each.
    Accesses,
    /// The same, and what the command prints goes to standard error: standard output is the caller's.
    Apart,
}

/// What a run came to.
pub struct Outcome {
    /// As a shell has it: the command's, or 128 and the signal that ended it.
    pub status: u8,
    /// Why the library could not act in the command itself; in programs that it starts, it may have.
    pub obstacle: Option<Obstacle>,
    /// Reads that the kernel told of it instead, where it may be asked.
    pub watched: Option<u64>,
    /// What was seen and done.
    pub report: Report,
    /// Every access, where that was asked for.
    pub recording: Option<Recording>,
}

/// Runs a command.
///
/// # Errors
/// If it cannot be started, or there is no place for the library. `told` learns of an obstacle before the command starts.
pub fn run(
    settings: &Settings,
    recorded: Recorded,
    command: &[OsString],
    told: impl FnOnce(&Obstacle),
) -> Result<Outcome, PrefetcherError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(PrefetcherError::NotFound(OsString::new().into()));
    };
    let path = elf::find(Path::new(program))?;
    let obstacle = elf::obstacle(&path);
    if let Some(obstacle) = &obstacle {
        told(obstacle);
    }
    let shared = Shared::make(settings, recorded != Recorded::Nothing)?;
    let executor = Executor::start(&shared, settings, Vec::new())?;
    // Where the library cannot act, the kernel is asked; who may not ask goes without.
    let watch = obstacle.as_ref().and_then(|_| Watch::begin(shared.table(), &Watched::Children).ok());
    let mut child = Command::new(program);
    child.args(arguments).env(ENVIRONMENT, shared.environment());
    if recorded == Recorded::Apart {
        child.stdout(
            std::io::stderr().as_fd().try_clone_to_owned().map_err(PrefetcherError::kernel("copy a descriptor"))?,
        );
    }
    // A linker that cannot load it would say so, or worse; in what such a program starts it can act all the same, where that is
    // for this machine.
    if obstacle != Some(Obstacle::Foreign) {
        child.env("LD_PRELOAD", preload(std::env::var_os("LD_PRELOAD").as_deref(), library::place()?.as_os_str()));
    }
    let held = signals::hold(&mut child).map_err(PrefetcherError::kernel("hold signals"))?;
    let started = child.spawn().map_err(PrefetcherError::file("cannot start", &path));
    let ended =
        started.and_then(|child| signals::wait(child, held).map_err(PrefetcherError::file("cannot wait for", &path)));
    let watched = watch.as_ref().map(Watch::seen);
    drop(watch);
    drop(shared);
    let (mut report, recording) = executor.finish();
    report.device_bytes_command = read_by_children();
    Ok(Outcome { status: shell_status(ended?), obstacle, watched, report, recording })
}

/// What storage has read for the command and such children of it as it waited for: `ru_inblock` of getrusage(2), blocks of 512 bytes.
fn read_by_children() -> u64 {
    // SAFETY: all zero is a `rusage`, and the kernel writes one.
    let blocks = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage.ru_inblock
    };
    u64::try_from(blocks).unwrap_or(0) * 512
}

/// The value of `LD_PRELOAD` with the library behind what is there: a sanitizer insists on being the first.
fn preload(before: Option<&OsStr>, library: &OsStr) -> OsString {
    let mut value = before.unwrap_or_default().to_owned();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    value
}

fn shell_status(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| Some(128 + status.signal()?));
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_last() {
        assert_eq!(preload(None, OsStr::new("/a.so")), "/a.so");
        assert_eq!(preload(Some(OsStr::new("")), OsStr::new("/a.so")), "/a.so");
        assert_eq!(preload(Some(OsStr::new("/b.so:/c.so")), OsStr::new("/a.so")), "/b.so:/c.so:/a.so");
    }

    #[test]
    fn a_status_is_a_shells() {
        assert_eq!(shell_status(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(shell_status(ExitStatus::from_raw(libc::SIGTERM)), 143);
    }
}
