//! Starting a command so that it is traced before it runs.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::sock_filter;

use super::ptrace::{self, Tid};

/// The tracer's end of a command that is being started by another thread.
pub(super) struct Starting {
    number: PipeReader,
    go: PipeWriter,
}

/// Makes `command`, when it is spawned, wait until it is traced, and then put itself under `filter`.
///
/// It is spawned by another thread than the tracer's, because the one that spawns waits for exec.
pub(super) fn prepare(command: &mut Command, filter: Vec<sock_filter>) -> io::Result<Starting> {
    let (number, mut tell_number) = io::pipe()?;
    let (mut wait, go) = io::pipe()?;
    let other_end = go.as_raw_fd();
    let prepare = move || {
        // SAFETY: the descriptor is the new process's copy, which nothing else uses. Left open, it would keep the wait from ending
        // with the tracer.
        drop(unsafe { OwnedFd::from_raw_fd(other_end) });
        tell_number.write_all(&std::process::id().to_ne_bytes())?;
        wait.read_exact(&mut [0])?;
        ptrace::install(&filter)
    };
    // SAFETY: between fork and exec the closure makes only system calls: it neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };
    Ok(Starting { number, go })
}

impl Starting {
    /// Traces the process once it is there; `None` if it never came to be.
    pub(super) fn seize(mut self) -> io::Result<Option<Tid>> {
        let mut number = [0; 4];
        if self.number.read_exact(&mut number).is_err() {
            return Ok(None);
        }
        let tid = Tid::from_ne_bytes(number);
        ptrace::seize(tid)?;
        self.go.write_all(&[0])?;
        Ok(Some(tid))
    }
}
