//! Standard output and standard error, either of which may be gone, full or slow.
//!
//! The standard library's `println!` and `eprintln!` panic where a write fails: when `head` has seen enough, when
//! the disk behind a redirection is full. The macros of this file have the same names and take their places in the
//! whole program, so that nothing in it can die of what it says:
//!
//! - What standard output does not take is remembered. The command goes on with its work, which is not lost for
//!   the sake of a table, and [`finish`] turns the memory into the exit status.
//! - What standard error does not take is dropped: there is nowhere left to say so.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use crate::commands::EXIT_FAILED;

/// The first failure of standard output. Nothing is written after it: a table with a hole would pass for a whole one.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes to standard output.
pub fn out(text: fmt::Arguments<'_>) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_none() {
        *failed = io::stdout().write_fmt(text).err();
    }
}

/// Standard output has failed somebody who wrote to it in another way.
pub fn failed(error: io::Error) {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
}

/// Lets what was written to standard output go out, for who waits for it.
pub fn flush() {
    if let Err(error) = io::stdout().flush() {
        failed(error);
    }
}

/// Writes to standard error, a line in one piece.
pub fn err(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// The exit status of a command that has ended with `code`, once all that it said has gone out.
///
/// Where nobody reads standard output any more the process ends as other tools do, by SIGPIPE and without a word;
/// where it cannot be written (a full disk), with a message and status 1.
pub fn finish(code: ExitCode) -> ExitCode {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if failed.is_none() {
        failed = io::stdout().flush().err();
    }
    let Some(error) = failed else { return code };
    if error.kind() == ErrorKind::BrokenPipe {
        // Does not return, unless the signal is blocked.
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    } else {
        err(format_args!("Error: cannot write to standard output: {error}; what was printed is not complete\n"));
    }
    if code == ExitCode::SUCCESS { ExitCode::from(EXIT_FAILED) } else { code }
}

/// `print!` that cannot panic.
macro_rules! print {
    ($($arguments:tt)*) => { $crate::output::out(format_args!($($arguments)*)) };
}

/// `println!` that cannot panic.
macro_rules! println {
    () => { $crate::output::out(format_args!("\n")) };
    ($($arguments:tt)*) => { $crate::output::out(format_args!("{}\n", format_args!($($arguments)*))) };
}

/// `eprintln!` that cannot panic.
macro_rules! eprintln {
    ($($arguments:tt)*) => { $crate::output::err(format_args!("{}\n", format_args!($($arguments)*))) };
}
