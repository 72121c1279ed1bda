//! Commands of the NVM and Zoned Namespace command sets, decoded.

use crate::{Stream, StreamAction, WriteOrder, ZoneReceiveAction, ZoneReportFilter, ZoneSendAction};

/// A logical block address, counted in the namespace's LBA format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lba(pub u64);

/// A namespace identifier; 0 is "none" and `0xffff_ffff` "all" (Base 3.2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NamespaceId(pub u32);

impl NamespaceId {
    /// The broadcast value.
    pub const ALL: Self = Self(u32::MAX);
    /// The first namespace, the only one on most devices.
    pub const FIRST: Self = Self(1);
}

/// A submission queue identifier; 0 is the admin queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QueueId(pub u16);

/// A command identifier, unique among a queue's outstanding commands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommandId(pub u16);

/// A run of logical blocks. `count` is the number of blocks, not zero-based.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LbaRange {
    /// First block.
    pub start: Lba,
    /// Number of blocks.
    pub count: u32,
}

impl LbaRange {
    /// One past the last block.
    pub const fn end(self) -> Lba {
        Lba(self.start.0.saturating_add(self.count as u64))
    }
}

/// Write (NVM 3.2.6). Made by [`Command::write`], so that another field breaks nobody who does not ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WriteCommand {
    /// Namespace.
    pub nsid: NamespaceId,
    /// Blocks to write.
    pub range: LbaRange,
    /// Force Unit Access: complete only when on non-volatile media.
    pub fua: bool,
    /// Which streams and epochs it belongs to.
    pub order: WriteOrder,
}

/// An I/O command of the NVM or the Zoned Namespace command set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Flush (NVM 3.2.3): commit the volatile write cache.
    Flush {
        /// Namespace; `ALL` flushes every one.
        nsid: NamespaceId,
    },
    /// Read (NVM 3.2.4).
    Read {
        /// Namespace.
        nsid: NamespaceId,
        /// Blocks to read.
        range: LbaRange,
        /// Force Unit Access: read from non-volatile media.
        fua: bool,
    },
    /// Write (NVM 3.2.6).
    Write(WriteCommand),
    /// Write Zeroes (NVM 3.2.8).
    WriteZeroes {
        /// Namespace.
        nsid: NamespaceId,
        /// Blocks to zero.
        range: LbaRange,
        /// Force Unit Access.
        fua: bool,
        /// DEAC: the device may deallocate the blocks.
        deallocate: bool,
    },
    /// Dataset Management with the Deallocate attribute (NVM 3.2.1).
    Deallocate {
        /// Namespace.
        nsid: NamespaceId,
        /// Up to 256 ranges.
        ranges: Box<[LbaRange]>,
    },
    /// Zone Append (ZNS 3.4.1): write at the zone's write pointer. The completion's
    /// result is the first block written.
    ZoneAppend {
        /// Namespace.
        nsid: NamespaceId,
        /// First block of the zone (ZSLBA).
        zone: Lba,
        /// Blocks to write.
        blocks: u32,
        /// Force Unit Access.
        fua: bool,
    },
    /// Zone Management Send (ZNS 3.4.3).
    ZoneManagementSend {
        /// Namespace.
        nsid: NamespaceId,
        /// First block of the zone; for `FlushZrwa`, the last block to commit.
        start: Lba,
        /// What to do.
        action: ZoneSendAction,
        /// Select All: every zone the action applies to; `start` is ignored.
        all: bool,
        /// Open with a Zone Random Write Area (ZRWAA).
        zrwa: bool,
    },
    /// Zone Management Receive (ZNS 3.4.2). The completion's data is the report.
    ZoneManagementReceive {
        /// Namespace.
        nsid: NamespaceId,
        /// A block of the first zone reported.
        start: Lba,
        /// Plain or extended.
        action: ZoneReceiveAction,
        /// Which zones.
        filter: ZoneReportFilter,
        /// Partial Report: the count in the header is of the zones that fit.
        partial: bool,
        /// Size of the host's buffer.
        bytes: u32,
    },
    /// Stream Management: opens or closes a stream of ordered writes (vendor specific).
    StreamManagement {
        /// Namespace. A stream is of the whole controller.
        nsid: NamespaceId,
        /// The stream.
        stream: Stream,
        /// What to do.
        action: StreamAction,
    },
}

impl Command {
    /// A write of blocks of a namespace, with Force Unit Access or without.
    pub const fn write(nsid: NamespaceId, range: LbaRange, fua: bool) -> Self {
        Self::Write(WriteCommand { nsid, range, fua, order: WriteOrder::NONE })
    }

    /// A write that belongs to streams.
    pub const fn ordered_write(nsid: NamespaceId, range: LbaRange, fua: bool, order: WriteOrder) -> Self {
        Self::Write(WriteCommand { nsid, range, fua, order })
    }

    /// The namespace the command names.
    pub fn nsid(&self) -> NamespaceId {
        match *self {
            Self::Flush { nsid }
            | Self::Read { nsid, .. }
            | Self::Write(WriteCommand { nsid, .. })
            | Self::WriteZeroes { nsid, .. }
            | Self::Deallocate { nsid, .. }
            | Self::ZoneAppend { nsid, .. }
            | Self::ZoneManagementSend { nsid, .. }
            | Self::ZoneManagementReceive { nsid, .. }
            | Self::StreamManagement { nsid, .. } => nsid,
        }
    }
}
