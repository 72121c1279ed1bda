//! The zones of a namespace: state machine, resources, write pointers.
//!
//! Pure state without time. The device calls in when it processes a command,
//! and decides itself when the command completes. Section and figure numbers
//! are those of the Zoned Namespace Command Set Specification 1.1 ("ZNS").
//!
//! Every call either changes nothing and returns the status that the command
//! ends with, or does the whole transition.

mod changed;
mod manage;
mod report;
mod resources;
mod restart;
mod table;
#[cfg(test)]
mod tests;
mod zone;
mod zrwa;

use std::ops::Range;

use nvme::{Lba, LbaRange, Status, ZoneState};

use crate::ZonedIdentity;

pub use changed::ControllerEvent;
pub(crate) use manage::{Change, Changed};
pub(crate) use zone::Zone;

use changed::ChangedZones;
use resources::Resources;
use table::{Operation, Outcome, rule};

/// What a write or append did, beside the data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Written {
    /// The zone's index.
    pub(crate) zone: u32,
    /// Whether it was opened implicitly by this.
    pub(crate) opened: bool,
    /// The zone that the controller closed to make room.
    pub(crate) closed: Option<u32>,
    /// Whether it is full now.
    pub(crate) filled: bool,
    /// Blocks of the zone that the write pointer passed.
    pub(crate) committed: Range<u64>,
}

impl Written {
    fn of(zone: u32) -> Self {
        Self { zone, opened: false, closed: None, filled: false, committed: 0..0 }
    }
}

/// The zones of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    zones: Vec<Zone>,
    zone_blocks: u64,
    capacity_blocks: u64,
    append_limit_blocks: u64,
    reads_across_zones: bool,
    /// ZRWAS; 0 without ZRWAs.
    zrwa_blocks: u64,
    zrwa_granularity_blocks: u64,
    /// ZDES in bytes.
    extension_bytes: usize,
    /// The Zone Descriptor Extensions, one after the other.
    extensions: Vec<u8>,
    resources: Resources,
    changed: ChangedZones,
    /// Whether Finish Zone is to leave the write pointer where it is.
    #[cfg(test)]
    finish_forgets: bool,
}

impl Zones {
    /// `zones` empty zones of the given shape, with blocks of `lba_bytes`.
    pub(crate) fn new(shape: &ZonedIdentity, lba_bytes: u32, zones: u32) -> Self {
        debug_assert!(zones > 0 && lba_bytes > 0);
        debug_assert!(0 < shape.zone_capacity_blocks && shape.zone_capacity_blocks <= shape.zone_blocks);
        let zrwa = shape.zrwa.as_ref();
        debug_assert!(zrwa.is_none_or(|zrwa| zrwa.size_blocks.is_multiple_of(zrwa.commit_granularity_blocks.max(1))));
        let extension_bytes = shape.descriptor_extension_bytes as usize;
        Self {
            zones: vec![Zone::EMPTY; zones as usize],
            zone_blocks: shape.zone_blocks,
            capacity_blocks: shape.zone_capacity_blocks,
            append_limit_blocks: u64::from(shape.append_limit_bytes / lba_bytes),
            reads_across_zones: shape.reads_across_zones,
            zrwa_blocks: zrwa.map_or(0, |zrwa| zrwa.size_blocks.into()),
            zrwa_granularity_blocks: zrwa.map_or(1, |zrwa| zrwa.commit_granularity_blocks.max(1).into()),
            extension_bytes,
            extensions: vec![0; extension_bytes * zones as usize],
            resources: Resources::new(shape.max_open, shape.max_active, zrwa.map_or(0, |zrwa| zrwa.zones_max)),
            changed: ChangedZones::default(),
            #[cfg(test)]
            finish_forgets: false,
        }
    }

    /// Breaks the state machine on purpose.
    #[cfg(test)]
    pub(crate) fn set_mutant(&mut self, mutant: Option<super::mutant::Mutant>) {
        use super::mutant::Mutant;
        self.finish_forgets = mutant == Some(Mutant::FinishLeavesWritePointer);
        if mutant == Some(Mutant::OneOpenZoneTooMany) {
            self.resources.max_open = self.resources.max_open.saturating_add(1);
        }
    }

    /// A zone by index.
    pub(crate) fn zone(&self, index: u32) -> &Zone {
        &self.zones[index as usize]
    }

    /// Zones that are open now.
    #[cfg(test)]
    pub(crate) fn open_zones(&self) -> u32 {
        self.resources.open
    }

    /// Zones that are active now.
    #[cfg(test)]
    pub(crate) fn active_zones(&self) -> u32 {
        self.resources.active
    }

    fn blocks(&self) -> u64 {
        self.zone_blocks * self.zones.len() as u64
    }

    /// The zone that `range` starts in, and the range as blocks of that zone,
    /// which it may leave at the end.
    fn locate(&self, range: LbaRange) -> Result<(u32, Range<u64>), Status> {
        let LbaRange { start: Lba(start), count } = range;
        let end = start.checked_add(count.into()).ok_or(Status::LBA_OUT_OF_RANGE)?;
        if end > self.blocks() || start >= self.blocks() {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if count == 0 {
            return Err(Status::INVALID_FIELD);
        }
        let zone = start / self.zone_blocks;
        let first = zone * self.zone_blocks;
        Ok((zone as u32, start - first..end - first))
    }

    /// The zone that starts at `start`.
    fn starting_at(&self, start: Lba) -> Result<u32, Status> {
        if start.0 >= self.blocks() {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        if !start.0.is_multiple_of(self.zone_blocks) {
            return Err(Status::INVALID_FIELD);
        }
        Ok((start.0 / self.zone_blocks) as u32)
    }

    /// Whether `range` may be read (2.1.1.2.1.2). Blocks never written, those
    /// from the write pointer on and those beyond the capacity included, may be:
    /// they read as deallocated ones.
    pub(crate) fn read(&self, range: LbaRange) -> Result<(), Status> {
        let (first, blocks) = self.locate(range)?;
        let last = first as usize + ((blocks.end - 1) / self.zone_blocks) as usize;
        if last > first as usize && !self.reads_across_zones {
            return Err(Status::ZONE_BOUNDARY_ERROR);
        }
        if self.zones[first as usize..=last].iter().any(|zone| zone.state == ZoneState::Offline) {
            return Err(Status::ZONE_IS_OFFLINE);
        }
        Ok(())
    }

    /// A write of `range`: at the write pointer, or into the zone's ZRWA
    /// (2.1.1.2.1.1). The state is checked first, then the place, then the
    /// zone's end, then resources.
    pub(crate) fn write(&mut self, range: LbaRange) -> Result<Written, Status> {
        let (index, blocks) = self.locate(range)?;
        self.write_blocks(index, blocks)
    }

    /// An append of `blocks` to the zone that starts at `zone` (3.4.1). Returns
    /// the first block written.
    pub(crate) fn append(&mut self, zone: Lba, blocks: u32) -> Result<(Lba, Written), Status> {
        let index = self.starting_at(zone)?;
        if blocks == 0 || u64::from(blocks) > self.append_limit_blocks {
            return Err(Status::INVALID_FIELD);
        }
        let zone = &self.zones[index as usize];
        if zone.has_zrwa() {
            return Err(Status::INVALID_ZONE_OPERATION_REQUEST);
        }
        let start = zone.write_pointer_blocks;
        let written = self.write_blocks(index, start..start + u64::from(blocks))?;
        Ok((Lba(u64::from(index) * self.zone_blocks + start), written))
    }

    fn write_blocks(&mut self, index: u32, blocks: Range<u64>) -> Result<Written, Status> {
        let zone = &self.zones[index as usize];
        let outcome = rule(zone.state, Operation::Write);
        if let Outcome::Refuse(status) = outcome {
            return Err(status);
        }
        let zrwa = zone.has_zrwa();
        if zrwa {
            self.check_zrwa_write(index, &blocks)?;
        } else if blocks.start != zone.write_pointer_blocks {
            return Err(Status::ZONE_INVALID_WRITE);
        }
        if blocks.end > self.capacity_blocks {
            return Err(Status::ZONE_BOUNDARY_ERROR);
        }
        let mut written = Written::of(index);
        if let Outcome::To(next) = outcome {
            written.closed = self.room_for(zone.state, next)?;
            if let Some(victim) = written.closed {
                self.set_state(victim, ZoneState::Closed);
            }
            self.set_state(index, next);
            written.opened = true;
        }
        if zrwa {
            let commit = self.implicit_commit(index, blocks.end);
            let zone = &mut self.zones[index as usize];
            zone.written_blocks = zone.written_blocks.max(blocks.end);
            self.commit(index, commit, &mut written);
        } else {
            self.commit(index, blocks, &mut written);
        }
        self.debug_check();
        Ok(written)
    }
}
