//! Zone Random Write Areas (TP 4076, "Zoned Random Write Area").
//!
//! A zone opened with ZRWAA has a window of ZRWAS blocks from the write pointer
//! on in which the host may write in any order and again. The ZRWAS blocks
//! behind the window can be written too: such a write moves the window far
//! enough to hold it (implicit commit), by a multiple of ZRWAFG. Flush Explicit
//! ZRWA Range moves it by command. What the window leaves behind is committed
//! and cannot be written again; blocks of it never written read as deallocated.
//!
//! The zone keeps its area while it is active, closed included, and gives it
//! back when it becomes empty, full, read only or offline. Only commits reach
//! the zone's end, so the last window is committed by command or by a finish.
//! Refusals follow the wording of the status Invalid Zone Operation Request: a
//! ZRWA asked for a zone that is not empty, or an invalid explicit flush.

use std::ops::Range;

use nvme::{LbaRange, Status, ZoneAttributes, ZoneState};

use super::manage::{Change, Changed};
use super::table::{Operation, Outcome, rule};
use super::{Written, Zones};

impl Zones {
    /// Checks that a write of the zone's blocks `blocks` fits its window.
    pub(super) fn check_zrwa_write(&self, index: u32, blocks: &Range<u64>) -> Result<(), Status> {
        let write_pointer = self.zones[index as usize].write_pointer_blocks;
        let reach = write_pointer + 2 * self.zrwa_blocks;
        if blocks.start < write_pointer || blocks.end > reach {
            return Err(Status::ZONE_INVALID_WRITE);
        }
        Ok(())
    }

    /// What a write up to `end` commits implicitly.
    pub(super) fn implicit_commit(&self, index: u32, end: u64) -> Range<u64> {
        let write_pointer = self.zones[index as usize].write_pointer_blocks;
        let beyond = end.saturating_sub(write_pointer + self.zrwa_blocks);
        let commit = beyond.next_multiple_of(self.zrwa_granularity_blocks);
        debug_assert!(commit <= self.zrwa_blocks);
        write_pointer..write_pointer + commit
    }

    /// Whether the device can give a zone in `state` a ZRWA now.
    pub(super) fn check_zrwa_allocation(&self, state: ZoneState) -> Result<(), Status> {
        if self.zrwa_blocks == 0 || state != ZoneState::Empty {
            return Err(Status::INVALID_ZONE_OPERATION_REQUEST);
        }
        if self.resources.free_zrwas == 0 {
            return Err(Status::ZRWA_RESOURCES_UNAVAILABLE);
        }
        Ok(())
    }

    pub(super) fn allocate_zrwa(&mut self, index: u32) {
        debug_assert!(!self.zones[index as usize].has_zrwa());
        self.resources.free_zrwas -= 1;
        self.zones[index as usize].attributes.insert(ZoneAttributes::ZRWA_VALID);
    }

    /// Takes a zone's ZRWA back, if it has one.
    pub(super) fn release_zrwa(&mut self, index: u32) {
        let zone = &mut self.zones[index as usize];
        if zone.has_zrwa() {
            zone.attributes.remove(ZoneAttributes::ZRWA_VALID);
            self.resources.free_zrwas += 1;
        }
    }

    /// Flush Explicit ZRWA Range: commits up to block `last` of the namespace,
    /// inclusive.
    pub(super) fn flush_zrwa(&mut self, last: nvme::Lba, changes: &mut Vec<Change>) -> Result<(), Status> {
        let (index, blocks) = self.locate(LbaRange { start: last, count: 1 })?;
        let end = blocks.end;
        let zone = &self.zones[index as usize];
        let was = zone.state;
        if !zone.has_zrwa() {
            return Err(Status::INVALID_ZONE_OPERATION_REQUEST);
        }
        let write_pointer = zone.write_pointer_blocks;
        let inside = end > write_pointer && end <= (write_pointer + self.zrwa_blocks).min(self.capacity_blocks);
        let whole =
            end == self.capacity_blocks || (end - write_pointer.min(end)).is_multiple_of(self.zrwa_granularity_blocks);
        if !inside || !whole {
            return Err(Status::INVALID_ZONE_OPERATION_REQUEST);
        }
        match rule(was, Operation::FlushZrwa) {
            Outcome::Refuse(status) => return Err(status),
            Outcome::Stay => {}
            Outcome::To(next) => {
                if let Some(victim) = self.room_for(was, next)? {
                    self.close_for_room(victim, changes);
                }
                self.set_state(index, next);
            }
        }
        let mut written = Written::of(index);
        self.commit(index, write_pointer..end, &mut written);
        let written_blocks = self.zones[index as usize].written_blocks;
        changes.push(Change { zone: index, what: Changed::Committed(write_pointer..end), written_blocks, was });
        Ok(())
    }

    /// Moves the write pointer over `blocks`; at the capacity the zone is full.
    pub(super) fn commit(&mut self, index: u32, blocks: Range<u64>, written: &mut Written) {
        let zone = &mut self.zones[index as usize];
        debug_assert!(blocks.start == zone.write_pointer_blocks && blocks.end <= self.capacity_blocks);
        zone.write_pointer_blocks = blocks.end;
        zone.written_blocks = zone.written_blocks.max(blocks.end);
        written.committed = blocks;
        if written.committed.end == self.capacity_blocks {
            written.filled = true;
            self.set_state(index, ZoneState::Full);
            self.release_zrwa(index);
        }
    }
}
