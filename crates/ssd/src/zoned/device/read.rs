//! Reads: from flash page by page, from the buffer, or of nothing.

use nvme::{LbaRange, Status};
use trace::Step;
use units::Nanos;

use super::{Part, Zoned};
use crate::controller::link::Direction;
use crate::zoned::Event;
use crate::zoned::config::Booking;
use crate::zoned::mapping::UNMAPPED;

impl Zoned {
    pub(super) fn read(&mut self, now: Nanos, id: u32, namespace: usize, range: LbaRange) {
        let bytes = u64::from(range.count) * self.layout.lba_bytes;
        if bytes > u64::from(self.identity.max_transfer_bytes) {
            return self.fail(now, id, Status::INVALID_FIELD);
        }
        if let Err(status) = self.namespaces[namespace].read(range) {
            return self.fail(now, id, status);
        }
        self.counters.host_read_bytes += bytes;
        self.commands[id].ready = now;
        let zone_blocks = self.layout.zone_blocks;
        let mut at = range.start.0;
        let end = range.end().0;
        let mut elsewhere = bytes;
        while at < end {
            let index = at / zone_blocks;
            let first = index * zone_blocks;
            let zone_end = end.min(first + zone_blocks);
            // The check found the zone's index in 32 bits.
            elsewhere -= self.read_zone(now, id, namespace, index as u32, at - first, zone_end - first);
            at = zone_end;
        }
        if elsewhere > 0 {
            let request = self.commands[id].request;
            let (_, end) = self.transfer(now, Direction::ToHost, elsewhere, request);
            let cmd = &mut self.commands[id];
            cmd.ready = cmd.ready.max(end);
        }
        if self.commands[id].left == 0 {
            self.read_done(id);
        }
    }

    /// Reads what flash has of blocks `start` to `end` of a zone; the bytes of it.
    fn read_zone(&mut self, now: Nanos, id: u32, namespace: usize, index: u32, start: u64, end: u64) -> u64 {
        let zone = &self.zones[self.zone_of(namespace, index) as usize];
        let written = self.namespaces[namespace].zone(index).written_blocks;
        let on_flash = zone.durable_blocks.min(zone.placed_bytes / self.layout.lba_bytes);
        let end = end.min(written).min(on_flash);
        if start >= end || zone.physical == UNMAPPED {
            return 0;
        }
        let zone = self.zone_of(namespace, index);
        let (page_bytes, lba_bytes) = (self.layout.page_bytes, self.layout.lba_bytes);
        let (first, last) = (start * lba_bytes, end * lba_bytes);
        let request = self.commands[id].request;
        let mut at = first;
        while at < last {
            let page_end = (at / page_bytes + 1) * page_bytes;
            let part_end = page_end.min(last);
            let array = self.array_of(zone, at);
            let bytes = if self.config.channel.whole_pages { page_bytes } else { part_end - at };
            let (array_start, array_end) = self.flash.book(array, now, self.config.cell.read, true);
            self.flash.record_array(array, array_start, array_end, Step::FlashRead, request, bytes as u32);
            self.counters.flash_read_bytes += page_bytes;
            match self.config.channel.booking {
                Booking::WhenReady => {
                    let part = self.parts.insert(Part { command: id, array, bytes: bytes as u32 });
                    self.commands[id].left += 1;
                    self.events.push(array_end, Event::ReadOut, part);
                }
                Booking::AtCommand => self.read_transfer(array_end, id, array, bytes),
            }
            at = part_end;
        }
        last - first
    }

    /// A part is in its array's register.
    pub(super) fn read_out(&mut self, now: Nanos, part: u32) {
        let Part { command, array, bytes } = self.parts[part];
        self.parts.remove(part);
        self.read_transfer(now, command, array, bytes.into());
        let cmd = &mut self.commands[command];
        cmd.left -= 1;
        if cmd.left == 0 {
            self.read_done(command);
        }
    }

    /// Takes a part over the channel, and to the host as it comes.
    fn read_transfer(&mut self, at: Nanos, id: u32, array: u32, bytes: u64) {
        let request = self.commands[id].request;
        let (start, end) = self.flash.transfer(array, at, bytes);
        self.flash.record_transfer(array, start, end, request, bytes as u32);
        let (_, there) = self.transfer(start, Direction::ToHost, bytes, request);
        let cmd = &mut self.commands[id];
        cmd.ready = cmd.ready.max(end).max(there);
    }

    fn read_done(&mut self, id: u32) {
        let at = self.commands[id].ready + self.config.controller.read.delay;
        self.complete(at, id);
    }
}
