//! What the kernel says, from a moment on.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

use crate::guest::error::{GuestError, attempt};

/// Most lines that are quoted.
const LINES_MAX: usize = 12;

/// Reads the kernel's messages, one record a call (`Documentation/ABI/testing/dev-kmsg`).
pub(super) struct KernelLog(File);

impl KernelLog {
    pub(super) fn open() -> Result<Self, GuestError> {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let mut log = Self(attempt(opened, || "cannot read the kernel's log".to_owned())?);
        log.lines();
        Ok(log)
    }

    /// What was said since the last call; the last lines of it.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(0) => break,
                Ok(len) => {
                    let text = String::from_utf8_lossy(&record[..len]).into_owned();
                    // Behind the first semicolon stands the message, on the lines after it its variables.
                    let message = text.split_once(';').map_or("", |(_, message)| message);
                    lines.extend(message.lines().next().map(str::to_owned));
                }
                // Overwritten before it was read: the next is there.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => break,
            }
            if lines.len() > LINES_MAX {
                lines.remove(0);
            }
        }
        lines
    }
}
