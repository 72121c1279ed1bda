//! Events of the kernel and spans of the device on one time line.

mod commands;
mod driver;
mod events;
mod join;

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use ::trace::{Span, read_table, write_perfetto, write_table};
use units::Nanos;

use crate::error::LinuxError;
pub use commands::{Commands, Row, Submitted};

/// `CLOCK_MONOTONIC`, which the device reads, counts in steps: it may be this much behind the kernel's trace.
const CLOCK_STEP: Nanos = Nanos(256);

/// Begins the one event whose text holds virtual time.
pub(crate) const MARK: &str = "plumb-clock ";

/// What a traced run left: spans of the kernel's block layer and NVMe driver and of the device, in
/// virtual nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recorded {
    /// By the kernel's layers and the device's.
    pub spans: Vec<Span>,
    /// Events of the kernel that had no room.
    pub lost_events: u64,
    /// Commands that the device was asked for.
    pub commands: u64,
}

impl Recorded {
    /// Reads what the guest left. A device without a model has no spans.
    pub(crate) fn read(kernel: &Path, device: &Path) -> Result<Self, LinuxError> {
        let unreadable = |path: &Path| LinuxError::system(format!("cannot read the trace {}", path.display()));
        let file = File::open(kernel).map_err(unreadable(kernel))?;
        let events = events::read(BufReader::new(file)).map_err(unreadable(kernel))?;
        let device_spans = match File::open(device) {
            Ok(file) => read_table(BufReader::new(file)).map_err(io::Error::from).map_err(unreadable(device))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unreadable(device)(error)),
        };
        let (spans, commands) = join::spans(&events.events, device_spans);
        Ok(Self { spans, lost_events: events.lost, commands })
    }

    /// Writes it for <https://ui.perfetto.dev>, or as a table where `path` ends in `.tsv` or `.txt`.
    ///
    /// # Errors
    /// What the file system reports.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = io::BufWriter::new(File::create(path)?);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("tsv" | "txt") => write_table(&self.spans, &mut out)?,
            _ => write_perfetto(&self.spans, &mut out)?,
        }
        out.flush()
    }
}
