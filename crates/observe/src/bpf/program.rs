//! Programs in the kernel.

use std::fs::File;
use std::io;

use super::sys;
use crate::tracefs::Format;

/// Room for what the verifier says.
const LOG_BYTES: usize = 64 << 10;
/// How many lines of it are told: the last ones say what is wrong.
const LOG_LINES: usize = 3;

/// A program that is attached to a tracepoint as long as it lives.
pub struct Attached {
    _program: File,
    _event: File,
}

/// Loads a program, as [`Program::finish`](super::Program::finish) gives it, and attaches it to a tracepoint.
///
/// # Errors
/// If the kernel refuses (`EPERM` without `CAP_BPF` and `CAP_PERFMON`), with the verifier's last words, if it had any.
pub fn attach(instructions: &[u64], tracepoint: &Format) -> io::Result<Attached> {
    let program = sys::load(instructions, &mut []).map_err(|error| explained(error, instructions))?;
    let event = sys::event(tracepoint.id, &program)?;
    Ok(Attached { _program: program, _event: event })
}

/// The error with the reason, for which the program is loaded once more.
fn explained(error: io::Error, instructions: &[u64]) -> io::Error {
    let mut log = vec![0_u8; LOG_BYTES];
    // One that now is taken is closed at once.
    drop(sys::load(instructions, &mut log));
    let text = String::from_utf8_lossy(&log);
    let mut words: Vec<&str> = text.trim_end_matches('\0').trim_end().lines().rev().take(LOG_LINES).collect();
    words.reverse();
    io::Error::new(error.kind(), format!("{error} {}", words.join("; ")))
}
