//! One I/O of a trace, whatever the format it came from.

use block::BioFlags;
use units::Nanos;

/// What a traced I/O does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TraceOp {
    /// Read bytes.
    Read,
    /// Write bytes.
    Write,
    /// Discard bytes.
    Trim,
    /// fsync: flush the device's cache.
    Sync,
    /// fdatasync: on a block device the same flush.
    DataSync,
}

impl TraceOp {
    /// Whether it moves or discards bytes, and so has an offset and a length.
    pub const fn has_range(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Trim)
    }
}

/// One I/O of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it was issued, on the trace's own clock; only differences mean anything.
    pub at: Nanos,
    /// What it does.
    pub op: TraceOp,
    /// First byte on the disk; 0 for a flush.
    pub offset: u64,
    /// Length in bytes: at least 1 with a range, 0 for a flush.
    pub bytes: u64,
    /// PREFLUSH, FUA, SYNC and META, where the format knows them.
    pub flags: BioFlags,
    /// The CPU that issued it, where the format knows.
    pub cpu: Option<u16>,
    /// Line in the trace, counted from 1.
    pub line: u64,
}
