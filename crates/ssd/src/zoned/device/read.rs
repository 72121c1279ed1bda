//! Reads: from flash page by page, from the buffer, or of nothing.

use nvme::{Command, LbaRange, Status};
use trace::{RequestId, Step, Track};
use units::Nanos;

use super::{Part, Zoned};
use crate::link::Direction;
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
        self.counters.unwritten_read_bytes += (end - start.max(written).min(end)) * self.layout.lba_bytes;
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
            let part = Part { command: id, array, page: at / page_bytes, bytes: bytes as u32 };
            self.counters.flash_read_bytes += page_bytes;
            match self.config.channel.booking {
                Booking::AtCommand => {
                    let array_end = self.read_array(now, &part, request);
                    self.read_transfer(array_end, &part);
                }
                Booking::WhenReady => {
                    self.commands[id].left += 1;
                    let part_id = self.parts.insert(part);
                    if self.config.channel.hold_array && self.reading[array as usize] {
                        self.queued_reads[array as usize].push_back(&mut self.parts, part_id);
                    } else {
                        self.start_read(now, part_id);
                    }
                }
            }
            at = part_end;
        }
        last - first
    }

    /// Books the array of a part: its end.
    fn read_array(&mut self, at: Nanos, part: &Part, request: RequestId) -> Nanos {
        let times = &self.config.cell.read;
        let time = match times[..] {
            [one] => one,
            _ => times[(part.page % times.len() as u64) as usize],
        };
        let (start, end) = self.flash.book(part.array, at, time, true);
        self.flash.record_array(part.array, start, end, Step::FlashRead, request, part.bytes);
        end
    }

    fn start_read(&mut self, at: Nanos, id: u32) {
        let part = self.parts[id];
        let end = self.read_array(at, &part, self.commands[part.command].request);
        if self.config.channel.hold_array {
            self.reading[part.array as usize] = true;
        }
        self.events.push(end, Event::ReadOut, id);
    }

    /// A part is in its array's register.
    pub(super) fn read_out(&mut self, now: Nanos, id: u32) {
        let part = self.parts[id];
        self.parts.remove(id);
        let transferred = self.read_transfer(now, &part);
        if self.config.channel.hold_array {
            let array = part.array as usize;
            self.flash.hold(part.array, transferred);
            self.reading[array] = false;
            if let Some(next) = self.queued_reads[array].pop_front(&mut self.parts) {
                self.start_read(transferred, next);
            }
        }
        let cmd = &mut self.commands[part.command];
        cmd.left -= 1;
        if cmd.left == 0 {
            self.read_done(part.command);
        }
    }

    /// Takes a part over the channel, and to the host as it comes: the channel's end.
    fn read_transfer(&mut self, at: Nanos, part: &Part) -> Nanos {
        let id = part.command;
        let request = self.commands[id].request;
        let (start, end) = self.flash.transfer(part.array, at, part.bytes.into());
        self.flash.record_transfer(part.array, start, end, request, part.bytes);
        let (_, there) = self.transfer(start, Direction::ToHost, part.bytes.into(), request);
        let cmd = &mut self.commands[id];
        cmd.ready = cmd.ready.max(end).max(there);
        end
    }

    fn read_done(&mut self, id: u32) {
        let cmd = &self.commands[id];
        let blocks = if let Command::Read { range, .. } = cmd.command { range.count } else { 0 };
        let delay = self.config.controller.read.delay_of(u64::from(blocks) * self.layout.lba_bytes);
        let ready = cmd.ready;
        self.record_some(ready, delay, Track::Controller, Step::Firmware, id);
        self.complete(ready + delay, id);
    }
}
