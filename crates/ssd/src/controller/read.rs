//! Reads: map look-up, flash reads merged by superpage, and the way to the host.

use units::Nanos;

use crate::flash::{Op, OpKind, Owner};
use crate::link::Direction;
use crate::slab::NONE;

use super::{Opcode, Ssd};

/// Someone who waits for units of a flash read.
#[derive(Clone, Copy)]
pub(super) struct ReadWait {
    pub reader: Reader,
    pub units: u32,
    /// Next that waits for the same flash read.
    pub next: u32,
}

/// Who waits.
#[derive(Clone, Copy)]
pub(super) enum Reader {
    /// A read command.
    Command(u32),
    /// A buffer slot that holds part of a unit and needs the rest.
    Slot(u32),
}

impl Ssd {
    /// A processed read.
    pub(super) fn read(&mut self, now: Nanos, id: u32) {
        let cmd = &self.host[id];
        // FUA: what is volatile must become durable first (NVM 3.2.4).
        if cmd.fua && !cmd.prepared && !self.power_loss_protected() && self.has_volatile() {
            self.flush(now, id);
        } else {
            self.start_read(now, id);
        }
    }

    pub(super) fn start_read(&mut self, now: Nanos, id: u32) {
        let cmd = &mut self.host[id];
        let (first, count) = (cmd.unit, cmd.units);
        cmd.bytes_left = u64::from(cmd.range.count) * u64::from(self.layout.lba_bytes);
        cmd.left = count;
        // Units of one superpage are read together.
        let (mut address, mut run) = (NONE, 0);
        let mut at_hand = 0;
        for unit in first..first + count {
            let entry = self.ftl.entry(unit);
            let ppn = match entry.as_slot() {
                Some(_) => {
                    self.counters.buffer_read_hits += 1;
                    NONE
                }
                None => {
                    let found = self.ftl.locate(unit, entry);
                    self.counters.unwritten_read_units += u64::from(found == NONE);
                    found
                }
            };
            if ppn == NONE {
                at_hand += 1;
                continue;
            }
            let superpage = ppn / self.layout.units_per_superpage;
            if superpage != address {
                if run > 0 {
                    self.flash_read(now, address, run, Reader::Command(id));
                }
                (address, run) = (superpage, 0);
            }
            run += 1;
        }
        if run > 0 {
            self.flash_read(now, address, run, Reader::Command(id));
        }
        if at_hand > 0 {
            self.send(now, id, at_hand);
        }
    }

    /// Reads `units` of a superpage for `reader`.
    pub(super) fn flash_read(&mut self, now: Nanos, address: u32, units: u32, reader: Reader) {
        let bytes = units * self.layout.unit_bytes;
        self.counters.flash_read_bytes += u64::from(bytes);
        let block = address / self.layout.superpages_per_block;
        let die = self.ftl.blocks.die(block);
        if let Some(op) = self.flash.queued_read(die, address) {
            let next = self.flash.op(op).tag;
            let tag = self.reads.insert(ReadWait { reader, units, next });
            self.flash.extend_read(op, bytes, tag);
            return;
        }
        let tag = self.reads.insert(ReadWait { reader, units, next: NONE });
        let request = match reader {
            Reader::Command(id) => self.host[id].request,
            Reader::Slot(id) => self.buffer.slots[id].request,
        };
        let page = address % self.layout.superpages_per_block;
        let op = Op {
            kind: OpKind::Read,
            owner: Owner::HostRead,
            tag,
            die,
            address,
            array: self.flash.timing.read(page, self.layout.is_slc(block)),
            bytes,
            request,
            suspended: 0,
        };
        self.flash.submit(now, op, &mut self.events);
    }

    /// A flash read's data is in the controller.
    pub(super) fn read_out(&mut self, now: Nanos, mut wait: u32) {
        while wait != NONE {
            let ReadWait { reader, units, next } = self.reads[wait];
            self.reads.remove(wait);
            match reader {
                Reader::Command(id) => self.send(now, id, units),
                Reader::Slot(id) => self.slot_completed(now, id),
            }
            wait = next;
        }
    }

    /// Sends units of a read over the link; completes the command with the last.
    fn send(&mut self, now: Nanos, id: u32, units: u32) {
        let cmd = &mut self.host[id];
        debug_assert_eq!(cmd.opcode, Opcode::Read);
        // The ends of a range may be less than a unit; count bytes, not units.
        let bytes = (u64::from(units) * u64::from(self.layout.unit_bytes)).min(cmd.bytes_left);
        cmd.bytes_left -= bytes;
        cmd.left -= units;
        let bytes = if cmd.left == 0 { bytes + std::mem::take(&mut cmd.bytes_left) } else { bytes };
        let (left, request) = (cmd.left, cmd.request);
        let end = self.host.transfer(now, Direction::ToHost, bytes, request);
        if left == 0 {
            self.counters.host_read_bytes += u64::from(self.host[id].range.count) * u64::from(self.layout.lba_bytes);
            self.complete(end, id);
        }
    }
}
