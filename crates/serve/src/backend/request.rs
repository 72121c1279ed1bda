//! What front-ends ask, what they are answered, and what is remembered in between.

use nvme::{Command, NamespaceId, Status, WriteCommand};
use units::Nanos;

/// What a front-end asks of a namespace. Offsets and lengths are in bytes.
#[derive(Debug)]
pub enum Request {
    /// Read `length` bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes to read.
        length: u32,
    },
    /// Write `data`.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: Box<[u8]>,
        /// Reply only when the data is on non-volatile media.
        fua: bool,
    },
    /// Commit the volatile write cache.
    Flush,
    /// Deallocate.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes to deallocate.
        length: u64,
        /// Reply only when the deallocation is on non-volatile media.
        fua: bool,
    },
    /// Make bytes read as zero.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes to zero.
        length: u64,
        /// Reply only when the zeroes are on non-volatile media.
        fua: bool,
        /// The device may deallocate the blocks.
        deallocate: bool,
    },
    /// Exactly this command, for front-ends that speak the device's own language.
    /// It is neither checked nor split.
    Command {
        /// The command; it names the namespace itself.
        command: Command,
        /// A write's data.
        data: ssd::Payload,
    },
}

impl Request {
    /// The bytes it covers: (first, count); `None` for a flush.
    pub fn extent(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Read { offset, length } => Some((offset, u64::from(length))),
            Self::Write { offset, ref data, .. } => Some((offset, data.len() as u64)),
            Self::Flush | Self::Command { .. } => None,
            Self::Trim { offset, length, .. } | Self::WriteZeroes { offset, length, .. } => Some((offset, length)),
        }
    }
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply<T> {
    /// What the front-end gave with the request.
    pub context: T,
    /// A read's bytes or a report (empty for other requests), or the first failure.
    pub result: Result<Box<[u8]>, Status>,
    /// The command specific result of its last command (dwords 0 and 1 of the
    /// completion entry).
    pub value: u64,
    /// When the request came, on the device's clock; waiting for a place in the
    /// device's queue counts.
    pub submitted_at: Nanos,
    /// When its last command completed, on the device's clock.
    pub completed_at: Nanos,
}

impl<T> Reply<T> {
    /// What the model says the request takes.
    pub fn modelled_latency(&self) -> Nanos {
        self.completed_at.since(self.submitted_at)
    }
}

/// A request on its way through the device.
pub(super) struct Active<T> {
    pub(super) context: T,
    pub(super) nsid: NamespaceId,
    pub(super) request: Request,
    /// The request's extent in bytes; (0, 0) for a flush.
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Bytes of the extent given to the device so far.
    pub(super) issued_bytes: u64,
    /// Commands outstanding.
    pub(super) outstanding: u32,
    /// Whether it still waits for command identifiers.
    pub(super) unissued: bool,
    /// Whether a flush is to follow the data, which emulates FUA.
    pub(super) flush_after: bool,
    /// Whether that flush is what is being issued.
    pub(super) flushing: bool,
    pub(super) status: Status,
    /// A read's result so far.
    pub(super) data: Vec<u8>,
    /// The last completion's command specific result.
    pub(super) value: u64,
    pub(super) submitted_at: Nanos,
    /// Memory that its data may take for contents.
    pub(super) absent_bytes: u64,
}

impl<T> Active<T> {
    /// Whether its success says that data is on non-volatile media.
    pub(super) fn promises_durability(&self) -> bool {
        match &self.request {
            _ if self.flushing => true,
            Request::Write { fua, .. } | Request::WriteZeroes { fua, .. } => *fua,
            Request::Command { command, .. } => match command {
                Command::Flush { .. } => true,
                Command::Write(WriteCommand { fua, .. })
                | Command::WriteZeroes { fua, .. }
                | Command::ZoneAppend { fua, .. } => *fua,
                _ => false,
            },
            _ => false,
        }
    }

    pub(super) fn into_reply(self, completed_at: Nanos) -> Reply<T> {
        let result = match self.request {
            _ if !self.status.is_success() => Err(self.status),
            // A device that keeps no contents reads as zeroes.
            Request::Read { length, .. } if self.data.is_empty() => Ok(vec![0; length as usize].into()),
            Request::Read { .. } | Request::Command { .. } => Ok(self.data.into()),
            _ => Ok(Box::default()),
        };
        Reply { context: self.context, result, value: self.value, submitted_at: self.submitted_at, completed_at }
    }
}
