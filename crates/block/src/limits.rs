//! Queue limits: what one request may hold, and where a bio is cut.

use ssd::Identity;

use crate::bio::{BioOp, Sector};
use crate::config::QueueConfig;

/// Sectors of the largest request unless set (block/blk-settings.c,
/// `BLK_DEF_MAX_SECTORS_CAP`): 1280 KiB.
const DEFAULT_MAX_SECTORS: u64 = 2560;
/// Largest command of the Linux NVMe driver (drivers/nvme/host/pci.c, `NVME_MAX_KB_SZ`).
const NVME_MAX_BYTES: u64 = 8192 << 10;
/// Ranges of one Dataset Management command (NVM 3.2.1).
const DSM_MAX_RANGES: u32 = 256;

/// The limits of a block device (`struct queue_limits`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Logical block size in bytes.
    pub logical_block_bytes: u32,
    /// Size of the device in sectors.
    pub capacity_sectors: u64,
    /// Largest read or write in sectors.
    pub max_sectors: u64,
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
    /// Whether the device honours FUA itself.
    pub fua: bool,
}

impl Limits {
    pub(crate) fn new(identity: &Identity, config: &QueueConfig) -> Self {
        let block_sectors = u64::from(identity.lba_bytes) / Sector::BYTES;
        debug_assert!(block_sectors > 0, "logical blocks of {} bytes", identity.lba_bytes);
        let blocks = identity.namespace_blocks.first().copied().unwrap_or(0);
        // Whole logical blocks, one at least, as blk_validate_limits does.
        let whole = |sectors: u64| (sectors - sectors % block_sectors).max(block_sectors);
        let max_hw_sectors = whole(u64::from(identity.max_transfer_bytes).min(NVME_MAX_BYTES) / Sector::BYTES);
        let wanted = config.max_sectors_kb.map_or(DEFAULT_MAX_SECTORS, |kib| u64::from(kib.get()) * 2);
        // UINT_MAX bytes in whole blocks: what a bio can hold (bio_allowed_max_sectors).
        let max_discard_sectors = whole(u64::from(u32::MAX) / Sector::BYTES);
        Self {
            logical_block_bytes: identity.lba_bytes,
            capacity_sectors: blocks * block_sectors,
            max_sectors: whole(wanted.min(max_hw_sectors)),
            max_segments: u32::from(config.max_segments.get()),
            // A segment smaller than a logical block could not be cut on one.
            segment_bytes: config.segment_bytes.get().max(identity.lba_bytes),
            max_discard_sectors: if identity.supports_deallocate { max_discard_sectors } else { 0 },
            max_discard_segments: DSM_MAX_RANGES,
            max_write_zeroes_sectors: max_hw_sectors,
            rotational: identity.rotational,
            write_cache: identity.volatile_write_cache,
            fua: identity.supports_fua,
        }
    }

    /// Largest request of `op` in bytes (blk_queue_get_max_sectors).
    pub(crate) fn max_bytes(&self, op: BioOp) -> u64 {
        Sector::BYTES
            * match op {
                BioOp::Read | BioOp::Write => self.max_sectors,
                BioOp::Discard => self.max_discard_sectors,
                BioOp::WriteZeroes => self.max_write_zeroes_sectors,
                BioOp::ZoneAppend => self.max_sectors,
                BioOp::Zone(_) => 0,
            }
    }

    /// Segments that `bytes` of a bio take: memory pieces, or one range.
    pub(crate) fn segments(&self, op: BioOp, bytes: u64) -> u32 {
        match op {
            BioOp::Read | BioOp::Write => {
                u32::try_from(bytes.div_ceil(u64::from(self.segment_bytes))).unwrap_or(u32::MAX)
            }
            BioOp::Discard | BioOp::WriteZeroes | BioOp::ZoneAppend | BioOp::Zone(_) => 1,
        }
    }

    /// Most segments of a request of `op`.
    pub(crate) fn max_segments(&self, op: BioOp) -> u32 {
        match op {
            BioOp::Discard => self.max_discard_segments,
            _ => self.max_segments,
        }
    }

    /// How many bytes of a bio go into its first request (block/blk-merge.c,
    /// `__bio_split_to_limits`): all of them unless a limit cuts it.
    pub(crate) fn split_bytes(&self, op: BioOp, bytes: u64) -> u64 {
        let block = u64::from(self.logical_block_bytes);
        let cut = match op {
            BioOp::Read | BioOp::Write => {
                let by_segments = u64::from(self.max_segments) * u64::from(self.segment_bytes);
                self.max_bytes(op).min(by_segments - by_segments % block)
            }
            BioOp::Discard | BioOp::WriteZeroes | BioOp::ZoneAppend | BioOp::Zone(_) => self.max_bytes(op),
        };
        debug_assert!(cut >= block && cut.is_multiple_of(block));
        bytes.min(cut)
    }
}
