//! The system calls of a command, followed by ptrace.
//!
//! A seccomp filter stops a thread at the calls that matter and nowhere else, so that the rest runs at full speed. At each stop the
//! arguments are resolved by way of `/proc`: what a descriptor is open on, where a path leads to, the bytes of a buffer.
//!
//! A call is listed with the position that the caller's closure gave before it began and after it was over. Calls are listed in the
//! order in which they ended; of two that overlap in time the moments say so. Where the order decides what a call does (names, and
//! writes at a place that an earlier write moved), a thread waits at the entry until the other's call is over, as it would in the
//! kernel.
//!
//! Followed: writes of all forms, copies inside the kernel, truncation, allocation, names, synchronisation, and that a file is
//! mapped shared and writable. A request of Linux AIO begins with `io_submit` and is over when `io_getevents` gives its end back, which
//! may be later than it was; one whose end a program takes from the ring of completions itself is never known to be over. Not
//! followed, but said ([`Followed::unfollowed`]): io_uring, and calls of 32-bit programs.
//! Only on x86-64.

mod acknowledge;
mod lines;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod aio;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod decode;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod filter;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod follow;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod process;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod ptrace;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod spawn;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod syscalls;

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use crash::files::Call;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use acknowledge::{ACKNOWLEDGE, Acknowledgement};
pub use lines::LinesError;

/// What is listed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls about files below it.
    pub folder: PathBuf,
    /// Lines appended to this file are [`Acknowledgement`]s; the command finds its name in the variable [`ACKNOWLEDGE`]. It is
    /// not below the folder.
    pub acknowledge: Option<PathBuf>,
    /// Most bytes of written data, but for zeroes, that are known afterwards; of what is written later only the length is.
    pub data_bytes_max: u64,
    /// So many of them as they are; of the others digests of whole sectors of the file.
    pub whole_bytes_max: u64,
    /// Whether processes that the command left behind are followed until they end too; else they are killed when it has ended.
    pub wait_for_all: bool,
}

/// What a command did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Followed {
    /// Its calls, in the order in which they ended.
    pub calls: Vec<Call>,
    /// What it said to have done, in its order.
    pub acknowledgements: Vec<Acknowledgement>,
    /// Ways of changing files that it used and that were not followed, each once.
    pub unfollowed: Vec<String>,
    /// Which program each thread ran, from when on.
    pub programs: Vec<Program>,
    /// How it ended.
    pub status: ExitStatus,
}

/// What a thread ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Program {
    /// As [`Call`] counts them.
    pub thread: u32,
    /// The number that the system gave it.
    pub process: i32,
    /// From this [`Moment`](crash::files::Moment) on.
    pub from_order: u64,
    /// Its name, as the kernel keeps it: the first 15 bytes.
    pub program: String,
}

/// Why a command could not be followed.
#[derive(Debug, Error)]
pub enum FollowError {
    /// System calls have numbers and registers.
    #[error("system calls are followed on x86-64 Linux only")]
    Machine,
    /// The folder, or the file of acknowledgements.
    #[error("cannot follow calls about files of {path}: {source}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file of acknowledgements lies where files are lost.
    #[error("the file of acknowledgements {0} must not be below the folder that is looked at")]
    AcknowledgeBelow(PathBuf),
    /// It never ran.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// ptrace or seccomp refuse.
    #[error("cannot {what}: {source}")]
    Trace {
        /// Which step.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Too much to be kept.
    #[error("the command made more than {0} calls that change files")]
    TooMany(usize),
}

/// Most calls of one command.
pub const CALLS_MAX: usize = 20_000_000;

/// Runs `command` until it has ended and lists what it did. `position` is asked at both ends of each call, while the one who makes
/// it stands still.
///
/// The command behaves as if it were not followed: signals, stops, exec and threads are passed on. It does not outlive the
/// calling process.
///
/// # Errors
///
/// If the machine is another one, if the kernel refuses, or if the command does not start.
pub fn follow(
    command: Command,
    options: &Options,
    position: impl FnMut() -> u64 + Send,
) -> Result<Followed, FollowError> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return follow::follow(command, options, position);
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    {
        let _ = (command, options, position);
        Err(FollowError::Machine)
    }
}
