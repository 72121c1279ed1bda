//! Drives without zones: one kind of I/O from several jobs at a depth.

mod csv;
mod fio;
mod simulate;

use std::fmt;

pub use csv::{is_drive_table, row as csv_row};
pub use fio::{FioError, read as read_fio};
pub use simulate::{Bed, simulate};

/// What the jobs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriveOp {
    /// Sequential reads.
    Read,
    /// Random reads.
    RandomRead,
    /// Sequential writes.
    Write,
    /// Random writes.
    RandomWrite,
}

impl DriveOp {
    const NAMES: [(&'static str, Self); 4] = [
        ("read", Self::Read),
        ("randread", Self::RandomRead),
        ("write", Self::Write),
        ("randwrite", Self::RandomWrite),
    ];

    /// fio's name for it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// The one that fio calls `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, op)| *op)
    }

    /// Whether it reads.
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::RandomRead)
    }

    /// Whether it goes to random places.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandomRead | Self::RandomWrite)
    }
}

/// How the I/Os are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriveEngine {
    /// One at a time, each waited for.
    Synchronous,
    /// libaio, or another that keeps several in flight.
    Asynchronous,
    /// `io_uring`.
    Uring,
}

impl DriveEngine {
    fn name(self) -> &'static str {
        match self {
            Self::Synchronous => "psync",
            Self::Asynchronous => "libaio",
            Self::Uring => "io_uring",
        }
    }
}

/// A load on a drive without zones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drive {
    /// What the jobs do.
    pub op: DriveOp,
    /// Bytes of each I/O.
    pub block_bytes: u64,
    /// I/Os in flight of each job.
    pub queue_depth: u32,
    /// Jobs.
    pub jobs: u32,
    /// How they hand their I/Os over.
    pub engine: DriveEngine,
    /// First byte used.
    pub offset_bytes: u64,
    /// Bytes used from there on; the rest of the drive where it is not said.
    pub span_bytes: Option<u64>,
    /// Whether percentiles are of completion latency, fio's `clat`, and not of total latency.
    pub completion: bool,
    /// The measured rate, I/Os a second, where there is one: it says how long to simulate.
    pub rate: Option<f64>,
    /// How long the measured load ran, where that is known.
    pub ran: Option<Ran>,
}

/// How long a load ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ran {
    /// Seconds before those that count.
    pub ramp_s: f64,
    /// Seconds that count.
    pub run_s: f64,
}

impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {} x QD {}", self.op.name(), units::ByteSize(self.block_bytes), self.jobs, self.queue_depth)
    }
}
