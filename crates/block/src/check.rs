//! Which bios a device could take (block/blk-core.c, block/blk-zoned.c,
//! block/blk-map.c).

use nvme::Status;

use crate::bio::{Bio, BioFlags, BioOp, Sector, ZoneOp};
use crate::limits::Limits;
use crate::pool::place;
use crate::queue::Queue;

impl Queue {
    /// Whether a bio is one the device could take (submit_bio_noacct,
    /// bio_check_eod).
    pub(crate) fn check(&self, bio: &Bio, special: bool) -> Result<(), Status> {
        if self.dead {
            return Err(Status::ABORTED_POWER_LOSS);
        }
        let limits = self.pool.limits.get(place(bio.nsid)).ok_or(Status::INVALID_NAMESPACE)?;
        let empty = bio.op == BioOp::Write && bio.flags.contains(BioFlags::PREFLUSH) && bio.bytes == 0;
        if bio.order.is_some() && (special || bio.op != BioOp::Write || bio.bytes == 0 || limits.zoned.is_some()) {
            // Writes alone are ordered; in zones the write pointer does it.
            return Err(Status::INVALID_FIELD);
        }
        if special && !empty {
            return check_special(limits, bio);
        }
        let flush = bio.flags.intersects(BioFlags::PREFLUSH | BioFlags::FUA);
        let start_byte = bio.sector.0.checked_mul(Sector::BYTES).ok_or(Status::LBA_OUT_OF_RANGE)?;
        let wrong = (flush && bio.op != BioOp::Write)
            || (bio.bytes == 0 && !empty)
            || !limits.aligned(start_byte | bio.bytes)
            || bio.data.as_ref().is_some_and(|data| bio.op != BioOp::Write || data.len() as u64 != bio.bytes);
        if wrong {
            return Err(Status::INVALID_FIELD);
        }
        let end = start_byte.checked_add(bio.bytes).ok_or(Status::LBA_OUT_OF_RANGE)?;
        if !empty && end > limits.capacity_sectors * Sector::BYTES {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if bio.op == BioOp::Discard && limits.max_discard_sectors == 0 {
            return Err(Status::INVALID_OPCODE);
        }
        Ok(())
    }
}

/// Whether a zone operation or passthrough is one the device could take
/// (blk_check_zone_append, blkdev_zone_mgmt, blk_rq_map_user).
fn check_special(limits: &Limits, bio: &Bio) -> Result<(), Status> {
    let op = bio.op;
    let management = matches!(op, BioOp::Zone(_));
    let passthrough = bio.flags.contains(BioFlags::PASSTHROUGH) || op == BioOp::ZoneReport;
    if (op.is_zoned() && limits.zoned.is_none()) || (op == BioOp::Discard && limits.max_discard_sectors == 0) {
        return Err(Status::INVALID_OPCODE);
    }
    let start_byte = bio.sector.0.checked_mul(Sector::BYTES).ok_or(Status::LBA_OUT_OF_RANGE)?;
    let flush = bio.flags.intersects(BioFlags::PREFLUSH | BioFlags::FUA);
    let wrong = (flush && !op.carries_data())
        || (passthrough && bio.flags.contains(BioFlags::PREFLUSH))
        || (bio.bytes == 0) != management
        || !limits.aligned(start_byte)
        || (!limits.aligned(bio.bytes) && op != BioOp::ZoneReport)
        || bio.data.as_ref().is_some_and(|data| !op.carries_data() || data.len() as u64 != bio.bytes);
    if wrong {
        return Err(Status::INVALID_FIELD);
    }
    if passthrough {
        // The rest is for the device to judge.
        let fits = op == BioOp::Discard || bio.bytes <= limits.max_hw_sectors * Sector::BYTES;
        return if fits { Ok(()) } else { Err(Status::INVALID_FIELD) };
    }
    let Some(zones) = &limits.zoned else { return Err(Status::INVALID_OPCODE) };
    if bio.sector.0 >= limits.capacity_sectors {
        return Err(Status::LBA_OUT_OF_RANGE);
    }
    let fits = bio.bytes <= limits.max_bytes(op) && limits.segments(op, bio.bytes) <= limits.max_segments(op);
    let misplaced = op == BioOp::Zone(ZoneOp::ResetAll) && bio.sector != Sector(0);
    if !zones.starts_at(bio.sector.0) || !fits || misplaced {
        return Err(Status::INVALID_FIELD);
    }
    Ok(())
}
