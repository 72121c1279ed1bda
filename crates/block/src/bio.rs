//! The unit of block I/O, after `struct bio` (include/linux/blk_types.h).

use nvme::{NamespaceId, Status};
use ssd::Payload;
use trace::RequestId;
use units::Nanos;

/// A 512-byte sector on the disk, Linux's unit whatever the logical block size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sector(pub u64);

impl Sector {
    /// Bytes in a sector (SECTOR_SIZE).
    pub const BYTES: u64 = 512;
}

/// What a bio asks for (REQ_OP_*).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BioOp {
    /// Read sectors.
    Read,
    /// Write sectors; with no sectors and PREFLUSH, an empty flush.
    Write,
    /// Discard sectors.
    Discard,
    /// Write zeroes.
    WriteZeroes,
    /// Append to the zone that starts at the bio's sector; the result says where
    /// (REQ_OP_ZONE_APPEND).
    ZoneAppend,
    /// Manage the zone that starts at the bio's sector; no data, 0 bytes.
    Zone(ZoneOp),
    /// Report the zones from the one the bio's sector lies in on, as many as fit
    /// in the bio's bytes; the result's data is the report as the device gives it
    /// (drivers/nvme/host/zns.c, nvme_ns_report_zones). Goes as passthrough.
    ZoneReport,
}

/// Zone management (REQ_OP_ZONE_*).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ZoneOp {
    /// Open explicitly (REQ_OP_ZONE_OPEN).
    Open,
    /// Close (REQ_OP_ZONE_CLOSE).
    Close,
    /// Finish (REQ_OP_ZONE_FINISH).
    Finish,
    /// Reset (REQ_OP_ZONE_RESET).
    Reset,
    /// Reset every zone; the sector is 0 (REQ_OP_ZONE_RESET_ALL).
    ResetAll,
}

bitflags::bitflags! {
    /// Modifiers of a bio (REQ_*).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct BioFlags: u16 {
        /// Flush the device's cache before the data.
        const PREFLUSH = 1 << 0;
        /// The data is on stable media when the bio completes.
        const FUA = 1 << 1;
        /// Someone waits for this bio.
        const SYNC = 1 << 2;
        /// File-system metadata.
        const META = 1 << 3;
        /// Never merge this bio with another.
        const NOMERGE = 1 << 4;
        /// I/O priority class realtime (IOPRIO_CLASS_RT). Without this and
        /// `IDLE_PRIORITY` the class is best effort.
        const REALTIME = 1 << 5;
        /// I/O priority class idle (IOPRIO_CLASS_IDLE).
        const IDLE_PRIORITY = 1 << 6;
        /// NVMe passthrough (`/dev/ngXnY`): no splitting, merging, zone write
        /// plugging or scheduler (REQ_OP_DRV_IN, REQ_OP_DRV_OUT). What exceeds
        /// [`Limits::max_hw_sectors`](crate::Limits::max_hw_sectors) fails;
        /// everything else is for the device to judge. A task's [`Plug`](crate::Plug)
        /// holds it back like any other. An empty flush ignores this flag, and
        /// PREFLUSH with data contradicts it.
        const PASSTHROUGH = 1 << 7;
    }
}

impl BioOp {
    /// Whether data goes to the device.
    pub(crate) fn carries_data(self) -> bool {
        matches!(self, Self::Write | Self::ZoneAppend)
    }

    /// Whether it only makes sense on zones.
    pub(crate) fn is_zoned(self) -> bool {
        matches!(self, Self::ZoneAppend | Self::Zone(_) | Self::ZoneReport)
    }
}

impl BioFlags {
    /// The flags that say the I/O priority class.
    pub(crate) const PRIORITY: Self = Self::REALTIME.union(Self::IDLE_PRIORITY);
}

/// A block I/O.
#[derive(Debug)]
pub struct Bio {
    /// Which of the device's namespaces.
    pub nsid: NamespaceId,
    /// What to do.
    pub op: BioOp,
    /// First sector.
    pub sector: Sector,
    /// Length in bytes; a multiple of the logical block size, 0 for an empty
    /// flush and for zone management.
    pub bytes: u64,
    /// Modifiers.
    pub flags: BioFlags,
    /// A write's or append's bytes, or `None` in timing-only runs.
    pub data: Payload,
    /// What a write asks of order, if it does: it comes after everything of the earlier
    /// epochs of its streams, whatever the power does ([`Ordering`](crate::Ordering)).
    pub order: Option<OrderRequest>,
    /// The request it serves, for the trace.
    pub request: RequestId,
}

/// On whose behalf a write is: what a stream policy goes by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Owner {
    /// The task (`current->pid`).
    pub task: u32,
    /// Its control group (`bio->bi_blkg`).
    pub cgroup: u32,
}

bitflags::bitflags! {
    /// Which epochs a write closes: it is the last of them that is submitted.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Closes: u8 {
        /// The present one of its owner's stream.
        const OWN = 1 << 0;
        /// The present one of the stream that it joins.
        const JOINED = 1 << 1;
    }
}

/// What a write asks of order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderRequest {
    /// Whose stream it belongs to.
    pub owner: Owner,
    /// In whose stream it is besides: a file's data in the journal's.
    pub joins: Option<Owner>,
    /// Which epochs it closes.
    pub closes: Closes,
}

/// How a bio ended.
#[derive(Debug)]
pub struct BioResult {
    /// The first failure among its commands, or success.
    pub status: Status,
    /// The bio's sector; for a zone append that succeeded, the first it wrote.
    pub sector: Sector,
    /// A read's bytes, where the device keeps contents, or a zone report.
    pub data: Payload,
    /// When the last of its commands finished.
    pub completed_at: Nanos,
}
