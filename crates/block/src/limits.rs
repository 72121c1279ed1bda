//! Queue limits: what one request may hold, and where a bio is cut.

use ssd::{Identity, ZonedIdentity};

use crate::bio::{BioOp, Sector};
use crate::config::QueueConfig;
use crate::ordering::Ordering;

/// Sectors of the largest request unless set (block/blk-settings.c,
/// `BLK_DEF_MAX_SECTORS_CAP`): 1280 KiB.
const DEFAULT_MAX_SECTORS: u64 = 2560;
/// Largest command of the Linux NVMe driver (drivers/nvme/host/pci.c, `NVME_MAX_KB_SZ`).
const NVME_MAX_BYTES: u64 = 8192 << 10;
/// Ranges of one Dataset Management command (NVM 3.2.1).
const DSM_MAX_RANGES: u32 = 256;

/// The limits of a namespace (`struct queue_limits`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Logical block size in bytes.
    pub logical_block_bytes: u32,
    /// Size of the namespace in sectors.
    pub capacity_sectors: u64,
    /// Largest read or write in sectors.
    pub max_sectors: u64,
    /// Largest passthrough command in sectors: what the device and the driver take.
    pub max_hw_sectors: u64,
    /// Segments of one read or write.
    pub max_segments: u32,
    /// Bytes of one segment.
    pub segment_bytes: u32,
    /// Largest discard in sectors, over all its ranges; 0 where the device takes none.
    pub max_discard_sectors: u64,
    /// Ranges of one discard.
    pub max_discard_segments: u32,
    /// Largest write zeroes in sectors.
    pub max_write_zeroes_sectors: u64,
    /// Whether positioning dominates.
    pub rotational: bool,
    /// Whether writes complete into a cache that a power cut empties.
    pub write_cache: bool,
    /// Whether the device honours FUA itself, and is asked to.
    pub fua: bool,
    /// The zones, in a zoned namespace.
    pub zoned: Option<ZoneLimits>,
}

/// The zones of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Distance between the starts of zones in sectors (`chunk_sectors`). No read,
    /// write or write zeroes spans two zones: bios are cut there.
    pub zone_sectors: u64,
    /// Writable sectors of each zone.
    pub zone_capacity_sectors: u64,
    /// Number of zones (`nr_zones`).
    pub zones: u32,
    /// Zones that may be open at once (`max_open_zones`); `None`: no limit.
    pub max_open: Option<u32>,
    /// Zones that may be open or closed at once (`max_active_zones`); `None`: no limit.
    pub max_active: Option<u32>,
    /// Largest zone append in sectors (`zone_append_max_bytes`): the device's
    /// limit, its transfer limit or a zone, whichever is least. A larger one fails.
    pub max_append_sectors: u64,
}

impl ZoneLimits {
    fn new(identity: &ZonedIdentity, block_sectors: u64, capacity_sectors: u64, max_hw_sectors: u64) -> Self {
        let zone_sectors = identity.zone_blocks.max(1) * block_sectors;
        let append_sectors = u64::from(identity.append_limit_bytes) / Sector::BYTES;
        Self {
            zone_sectors,
            zone_capacity_sectors: identity.zone_capacity_blocks * block_sectors,
            zones: u32::try_from(capacity_sectors / zone_sectors).unwrap_or(u32::MAX),
            max_open: identity.max_open,
            max_active: identity.max_active,
            // queue_limits_max_zone_append_sectors, in whole blocks.
            max_append_sectors: (append_sectors - append_sectors % block_sectors).min(max_hw_sectors).min(zone_sectors),
        }
    }

    /// The zone a sector lies in.
    pub fn zone_of(&self, sector: Sector) -> u32 {
        u32::try_from(sector.0 / self.zone_sectors).unwrap_or(u32::MAX)
    }

    /// The first sector of a zone.
    pub fn start_of(&self, zone: u32) -> Sector {
        Sector(u64::from(zone) * self.zone_sectors)
    }

    /// Whether a zone starts at `sector`.
    pub(crate) fn starts_at(&self, sector: u64) -> bool {
        sector.is_multiple_of(self.zone_sectors)
    }
}

impl Limits {
    /// The limits of the namespace of `blocks` logical blocks.
    pub(crate) fn new(identity: &Identity, blocks: u64, config: &QueueConfig) -> Self {
        let block_sectors = u64::from(identity.lba_bytes) / Sector::BYTES;
        // NVMe gives the size as a power of two (LBADS).
        debug_assert!(
            block_sectors > 0 && identity.lba_bytes.is_power_of_two(),
            "logical blocks of {} bytes",
            identity.lba_bytes
        );
        // Whole logical blocks, one at least, as blk_validate_limits does.
        let whole = |sectors: u64| (sectors - sectors % block_sectors).max(block_sectors);
        let max_hw_sectors = whole(u64::from(identity.max_transfer_bytes).min(NVME_MAX_BYTES) / Sector::BYTES);
        let wanted = config.max_sectors_kb.map_or(DEFAULT_MAX_SECTORS, |kib| u64::from(kib.get()) * 2);
        // UINT_MAX bytes in whole blocks: what a bio can hold (bio_allowed_max_sectors).
        let max_discard_sectors = whole(u64::from(u32::MAX) / Sector::BYTES);
        let capacity_sectors = blocks * block_sectors;
        let zoned = identity.zoned.as_ref();
        Self {
            logical_block_bytes: identity.lba_bytes,
            capacity_sectors,
            max_sectors: whole(wanted.min(max_hw_sectors)),
            max_hw_sectors,
            max_segments: u32::from(config.max_segments.get()),
            // A segment smaller than a logical block could not be cut on one.
            segment_bytes: config.segment_bytes.get().max(identity.lba_bytes),
            max_discard_sectors: if identity.supports_deallocate { max_discard_sectors } else { 0 },
            max_discard_segments: DSM_MAX_RANGES,
            max_write_zeroes_sectors: max_hw_sectors,
            rotational: identity.rotational,
            write_cache: identity.volatile_write_cache,
            fua: identity.supports_fua && config.ordering != Ordering::FlushNoFua,
            zoned: zoned.map(|zoned| ZoneLimits::new(zoned, block_sectors, capacity_sectors, max_hw_sectors)),
        }
    }

    /// Whether a place or length in bytes is a whole number of logical blocks.
    pub(crate) fn aligned(&self, bytes: u64) -> bool {
        bytes & (u64::from(self.logical_block_bytes) - 1) == 0
    }

    /// A place or length in bytes as logical blocks.
    pub(crate) fn blocks(&self, bytes: u64) -> u64 {
        debug_assert!(self.aligned(bytes));
        bytes >> self.logical_block_bytes.trailing_zeros()
    }

    /// Largest request of `op` in bytes (blk_queue_get_max_sectors).
    pub(crate) fn max_bytes(&self, op: BioOp) -> u64 {
        Sector::BYTES
            * match op {
                BioOp::Read | BioOp::Write => self.max_sectors,
                BioOp::Discard => self.max_discard_sectors,
                BioOp::WriteZeroes => self.max_write_zeroes_sectors,
                BioOp::ZoneAppend => self.zoned.as_ref().map_or(0, |zones| zones.max_append_sectors),
                BioOp::ZoneReport => self.max_hw_sectors,
                BioOp::Zone(_) => 0,
            }
    }

    /// Segments that `bytes` of a bio take: memory pieces, or one range.
    pub(crate) fn segments(&self, op: BioOp, bytes: u64) -> u32 {
        match op {
            BioOp::Read | BioOp::Write | BioOp::ZoneAppend => {
                u32::try_from(bytes.div_ceil(u64::from(self.segment_bytes))).unwrap_or(u32::MAX)
            }
            BioOp::Discard | BioOp::WriteZeroes | BioOp::Zone(_) | BioOp::ZoneReport => 1,
        }
    }

    /// Most segments of a request of `op`.
    pub(crate) fn max_segments(&self, op: BioOp) -> u32 {
        match op {
            BioOp::Discard => self.max_discard_segments,
            _ => self.max_segments,
        }
    }

    /// Whether `bytes` from `sector` on would lie in two zones, for an op that may
    /// not (block/blk.h, blk_rq_get_max_sectors: discards may).
    pub(crate) fn straddles(&self, op: BioOp, sector: u64, bytes: u64) -> bool {
        match &self.zoned {
            Some(zones) if op != BioOp::Discard => {
                sector % zones.zone_sectors + bytes / Sector::BYTES > zones.zone_sectors
            }
            _ => false,
        }
    }

    /// How many bytes of a bio at `sector` go into its first request
    /// (block/blk-merge.c, `__bio_split_to_limits`): all of them unless a limit or
    /// the end of the zone cuts it. What may not be cut was checked before.
    pub(crate) fn split_bytes(&self, op: BioOp, sector: u64, bytes: u64) -> u64 {
        let block = u64::from(self.logical_block_bytes);
        let mut cut = match op {
            BioOp::Read | BioOp::Write => {
                let by_segments = u64::from(self.max_segments) * u64::from(self.segment_bytes);
                self.max_bytes(op).min(by_segments & !(block - 1))
            }
            BioOp::Discard | BioOp::WriteZeroes => self.max_bytes(op),
            BioOp::ZoneAppend | BioOp::Zone(_) | BioOp::ZoneReport => return bytes,
        };
        if self.straddles(op, sector, bytes)
            && let Some(zones) = &self.zoned
        {
            cut = cut.min((zones.zone_sectors - sector % zones.zone_sectors) * Sector::BYTES);
        }
        debug_assert!(cut >= block && self.aligned(cut));
        bytes.min(cut)
    }
}
