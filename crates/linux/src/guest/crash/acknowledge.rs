//! `$PLUMB_ACKNOWLEDGE`: promises of the command, each with the moment at which it was made.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rustix::fs::Mode;

use crate::crash::Acknowledgement;
use crate::guest::error::{GuestError, attempt};

/// Where the command writes.
const PIPE: &str = "/tmp/plumb-acknowledge";
/// More are refused: they would not fit into a check's hands.
const LINES_MAX: usize = 10_000_000;

/// A named pipe and who reads it.
///
/// The reader has a real-time priority: on the guest's one processor it runs as soon as a line is written, before the command goes
/// on, so that the log is exactly as long as it was at the promise.
pub(super) struct Listener {
    pub(super) path: PathBuf,
    /// Keeps the pipe open while the command comes and goes.
    held: File,
    reader: JoinHandle<Result<Vec<Acknowledgement>, GuestError>>,
}

/// How long the log is: how far the device has come.
pub(super) fn position_bytes(log: &Path) -> Result<u64, GuestError> {
    attempt(std::fs::metadata(log), || format!("cannot see {}", log.display())).map(|about| about.len())
}

impl Listener {
    pub(super) fn start(log: &Path) -> Result<Self, GuestError> {
        let failed = || format!("cannot make the pipe {PIPE}");
        let path = PathBuf::from(PIPE);
        let made = rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::from_raw_mode(0o622));
        attempt(made, failed)?;
        // Both ends at once: an open of one would wait for the other.
        let held = attempt(OpenOptions::new().read(true).write(true).open(&path), failed)?;
        let reading = attempt(OpenOptions::new().read(true).open(&path), failed)?;
        let log = log.to_owned();
        let reader = std::thread::spawn(move || {
            first_on_the_processor()?;
            let mut lines = Vec::new();
            for line in BufReader::new(reading).split(b'\n') {
                let line = attempt(line, || "cannot read acknowledgements".to_owned())?;
                let line = String::from_utf8_lossy(&line).into_owned();
                if lines.len() == LINES_MAX {
                    return Err(GuestError::new(format!("more than {LINES_MAX} acknowledgements")));
                }
                lines.push(Acknowledgement { position_bytes: position_bytes(&log)?, line });
            }
            Ok(lines)
        });
        Ok(Self { path, held, reader })
    }

    /// Everything that was acknowledged.
    pub(super) fn finish(self) -> Result<Vec<Acknowledgement>, GuestError> {
        drop(self.held);
        let lines = self.reader.join();
        lines.map_err(|_| GuestError::new("the reader of acknowledgements failed"))?
    }
}

fn first_on_the_processor() -> Result<(), GuestError> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads one number of `parameters`, for the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    let done = if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) };
    attempt(done, || "cannot take a real-time priority".to_owned())
}
