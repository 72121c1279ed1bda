//! Writes and appends: into the buffer, or straight to flash.

use std::ops::Range;

use nvme::{Command, Lba, LbaRange, Status, WriteCommand};
use trace::{Step, Track};
use units::Nanos;

use super::command::Incoming;
use super::{Pending, Zoned};
use crate::link::Direction;
use crate::zoned::Event;
use crate::zoned::config::{AppendTiming, StripeOrder};
use crate::zoned::flash::JobKind;
use crate::zoned::mapping::UNMAPPED;
use crate::zoned::zones::Written;

impl Zoned {
    pub(super) fn write(&mut self, now: Nanos, id: u32, namespace: usize, range: LbaRange) {
        if let Err(status) = self.check_write(id, range.count) {
            return self.fail(now, id, status);
        }
        match self.namespaces[namespace].write(range) {
            Ok(written) => self.accept(now, id, namespace, range, written),
            Err(status) => self.fail(now, id, status),
        }
    }

    pub(super) fn append(&mut self, now: Nanos, id: u32, namespace: usize, zone: Lba, blocks: u32) {
        if let Err(status) = self.check_write(id, blocks) {
            return self.fail(now, id, status);
        }
        match self.namespaces[namespace].append(zone, blocks) {
            Ok((start, written)) => {
                self.counters.zone_appends += 1;
                self.commands[id].result = start.0;
                #[cfg(test)]
                if self.mutant == Some(crate::zoned::mutant::Mutant::AppendReturnsWrongLba) {
                    self.commands[id].result += 1;
                }
                self.accept(now, id, namespace, LbaRange { start, count: blocks }, written);
            }
            Err(status) => self.fail(now, id, status),
        }
    }

    /// Whether a write's size and data are in order.
    fn check_write(&self, id: u32, blocks: u32) -> Result<(), Status> {
        let cmd = &self.commands[id];
        let bytes = u64::from(blocks) * self.layout.lba_bytes;
        if matches!(cmd.command, Command::WriteZeroes { .. }) {
            return Ok(());
        }
        if bytes > u64::from(self.identity.max_transfer_bytes) {
            return Err(Status::INVALID_FIELD);
        }
        if cmd.data.as_ref().is_some_and(|data| data.len() as u64 != bytes) {
            return Err(Status::INVALID_FIELD);
        }
        Ok(())
    }

    /// A write that the zone has taken.
    fn accept(&mut self, now: Nanos, id: u32, namespace: usize, range: LbaRange, written: Written) {
        let zone = self.zone_of(namespace, written.zone);
        let bytes = u64::from(range.count) * self.layout.lba_bytes;
        self.counters.host_written_bytes += bytes;
        self.counters.zone_opens += u64::from(written.opened);
        let controller = &self.config.controller;
        let cmd = &self.commands[id];
        let (mut delay, opening, over_link) = match cmd.command {
            Command::ZoneAppend { .. } => (controller.append.delay_of(bytes), controller.implicit_open_append, bytes),
            Command::WriteZeroes { .. } => (controller.write.delay_of(0), controller.implicit_open_write, 0),
            _ => (controller.write.delay_of(bytes), controller.implicit_open_write, bytes),
        };
        if written.opened {
            delay += opening;
            if self.namespaces[namespace].zone(written.zone).written_blocks > u64::from(range.count) {
                delay += controller.reopen;
            }
        }
        self.commands[id].range = range;
        if self.store.tracks_volatile() {
            self.keep(id, namespace, zone, written.zone, range);
        }
        let committed = (written.committed.end - written.committed.start) * self.layout.lba_bytes;
        if self.is_buffered() && committed == bytes {
            return self.admit(now, id, zone, Incoming { bytes, over_link: over_link > 0, delay });
        }
        let request = self.commands[id].request;
        let there = match over_link {
            0 => now,
            bytes => self.transfer(now, Direction::ToDevice, bytes, request).1,
        };
        self.record_some(there, delay, Track::Controller, Step::Firmware, id);
        let ready = there + delay;
        if committed == 0 {
            // Into a ZRWA: it stays in the buffer.
            return self.complete(ready, id);
        }
        if self.is_buffered() {
            // Out of a ZRWA, by a write that moves it on.
            let delay = ready.since(now);
            self.admit(now, id, zone, Incoming { bytes: committed, over_link: false, delay });
        } else {
            self.map(ready, zone);
            let end = self.program_now(id, zone, written.committed, ready);
            self.complete(end, id);
        }
    }

    /// Gives a write's data to the store.
    fn keep(&mut self, id: u32, namespace: usize, zone: u32, index: u32, range: LbaRange) {
        let nsid = self.commands[id].command.nsid();
        let data = self.commands[id].data.take();
        if self.survives_power_cut() {
            if self.store.write_durable(nsid, range, data).is_err() {
                self.counters.media_errors += 1;
                self.commands[id].status = Status::WRITE_FAULT;
            }
            return;
        }
        let sequence = self.store.write_volatile(nsid, range, data);
        let start = range.start.0 - u64::from(index) * self.layout.zone_blocks;
        let end = start + u64::from(range.count);
        debug_assert!(namespace < self.namespaces.len());
        self.pending[zone as usize].push_back(Pending { sequence, start, end });
    }

    /// Sees to it that a zone has erased flash. What it must wait for is booked.
    pub(super) fn map(&mut self, now: Nanos, zone: u32) {
        let mut physical = self.zones[zone as usize].physical;
        if physical == UNMAPPED {
            physical = self.mapping.take();
            self.zones[zone as usize].physical = physical;
        }
        if self.physical[physical as usize].dirty_rows > 0 {
            self.pay_erase(now, physical);
        }
    }

    /// The array that holds byte `at` of a zone.
    pub(super) fn array_of(&self, zone: u32, at: u64) -> u32 {
        let flash = &self.zones[zone as usize];
        // A zone has fewer than 2^32 blocks, so fewer stripe units.
        let unit = (at / self.layout.stripe_bytes) as u32;
        let unit = match self.config.stripe.order {
            // A zone that was full at the start went round in order.
            StripeOrder::LeastBusy => flash.placement.get(unit as usize).map_or(unit, |place| (*place).into()),
            StripeOrder::ChannelFirst | StripeOrder::WayFirst => unit,
        };
        self.striping.array(flash.physical, unit)
    }

    /// Programs blocks of a zone without a buffer: every program unit touched is
    /// transferred, then programmed, whole; when the last is done.
    fn program_now(&mut self, id: u32, zone: u32, blocks: Range<u64>, ready: Nanos) -> Nanos {
        let request = self.commands[id].request;
        let append = matches!(self.commands[id].command, Command::ZoneAppend { .. });
        let at_start = append && self.config.management.append == AppendTiming::AtZoneStart;
        let (lba_bytes, unit) = (self.layout.lba_bytes, self.layout.program_bytes);
        let first = blocks.start * lba_bytes / unit;
        let last = (blocks.end * lba_bytes).div_ceil(unit);
        let mut end = ready;
        for index in first..last {
            let place = if at_start { (index - first) * unit } else { index * unit };
            end = end.max(self.program_unit(zone, place, ready, false, request));
        }
        let flash = &mut self.zones[zone as usize];
        flash.placed_bytes = flash.placed_bytes.max(last * unit);
        flash.durable_blocks = blocks.end;
        end
    }

    /// Transfers and programs the unit at byte `at` of a zone in the foreground:
    /// its end.
    pub(super) fn program_unit(
        &mut self,
        zone: u32,
        at: u64,
        ready: Nanos,
        padding: bool,
        request: trace::RequestId,
    ) -> Nanos {
        let unit = self.layout.program_bytes;
        let array = self.array_of(zone, at);
        let program = self.flash.program_time(padding);
        let (start, there) = self.flash.transfer(array, ready, unit);
        self.flash.record_transfer(array, start, there, request, unit as u32);
        let (start, end) = self.flash.book(array, there, program, true);
        self.flash.record_array(array, start, end, Step::FlashProgram, request, unit as u32);
        self.counters.flash_programmed_bytes += unit;
        end
    }

    /// Brings data that follows in a zone into the buffer; the command completes when
    /// all of it is there.
    pub(super) fn admit(&mut self, now: Nanos, id: u32, zone: u32, incoming: Incoming) {
        let waits = self.buffer.first_in_line().is_some();
        let (left, ready) = if waits { (incoming, now + incoming.delay) } else { self.fill(now, id, zone, incoming) };
        self.map(ready, zone);
        if left.bytes > 0 {
            self.counters.stalls += 1;
            let cmd = &mut self.commands[id];
            (cmd.incoming, cmd.since) = (left, now);
            self.zones[zone as usize].waiting.push_back(&mut self.commands, id);
            self.buffer.wait(zone);
        }
        self.dispatch(now);
        if left.bytes == 0 {
            self.admitted(ready, id, zone);
        }
    }

    /// Puts as much of a command's data into the buffer as there is room for: what is
    /// left of it, and when what came is there.
    ///
    /// Only data that has room crosses the link. Were it to queue there before, commands
    /// that cannot be taken in yet would hold up those that can.
    fn fill(&mut self, now: Nanos, id: u32, zone: u32, incoming: Incoming) -> (Incoming, Nanos) {
        let comes = incoming.bytes.min(self.buffer.room());
        let there = if incoming.over_link && comes > 0 {
            let request = self.commands[id].request;
            self.transfer(now, Direction::ToDevice, comes, request).1
        } else {
            now
        };
        self.record_some(there, incoming.delay, Track::Controller, Step::Firmware, id);
        let ready = there + incoming.delay;
        let mut left = comes;
        while left > 0 {
            left -= self.fill_unit(zone, left, ready);
        }
        (Incoming { bytes: incoming.bytes - comes, ..incoming }, ready)
    }

    /// A command's data is in the buffer.
    pub(super) fn admitted(&mut self, at: Nanos, id: u32, zone: u32) {
        if self.commands[id].left > 0 {
            // A commit of a ZRWA by command.
            return self.release(at, id);
        }
        let fua = matches!(
            self.commands[id].command,
            Command::Write(WriteCommand { fua: true, .. })
                | Command::WriteZeroes { fua: true, .. }
                | Command::ZoneAppend { fua: true, .. }
        );
        if fua && !self.survives_power_cut() {
            return self.make_durable(at, id, zone);
        }
        self.complete(at, id);
    }

    /// There is room: the commands in line get it.
    pub(super) fn serve_line(&mut self, now: Nanos) {
        while let Some(zone) = self.buffer.first_in_line() {
            let Some(id) = self.zones[zone as usize].waiting.front() else {
                // Its zone was reset.
                self.buffer.leave_line();
                continue;
            };
            let (incoming, since) = (self.commands[id].incoming, self.commands[id].since);
            // Its data crosses the link, and the rest of its time begins, when there is
            // room.
            let (left, ready) = self.fill(now, id, zone, incoming);
            self.commands[id].incoming = left;
            if left.bytes > 0 {
                return;
            }
            self.buffer.leave_line();
            self.zones[zone as usize].waiting.pop_front(&mut self.commands);
            self.counters.buffer_wait += now.since(since);
            let request = self.commands[id].request;
            self.record(since, now, Track::Buffer, Step::BufferWait, request, 0);
            self.admitted(ready, id, zone);
            if self.zones[zone as usize].waiting.is_empty() {
                self.resume_finish(now, zone);
                self.close_off(now, zone);
            }
        }
    }

    /// A page of a unit is in its array's registers: its room is free.
    pub(super) fn loaded(&mut self, now: Nanos, array: u32) {
        let Some(unit) = self.flash.programmed(array) else { return };
        if self.buffer.release(unit, self.layout.page_bytes) {
            let next = now + self.flash.page_load_time(self.layout.program_bytes as u32);
            self.events.push(next, Event::Loaded, array);
        }
        self.serve_line(now);
        self.dispatch(now);
    }

    /// An array's job may be over.
    pub(super) fn array_end(&mut self, now: Nanos, array: u32) {
        let Some(job) = self.flash.ended(array, now, &mut self.events) else { return };
        match job.kind {
            JobKind::Erase => self.erase_done(now, job.owner),
            JobKind::Save => self.saved(now, &job),
            JobKind::Program => self.unit_done(now, job.owner),
        }
        self.dispatch(now);
        if self.flash.is_drained() {
            self.programs_drained(now);
        }
    }

    fn unit_done(&mut self, now: Nanos, id: u32) {
        let unit = self.buffer[id];
        self.padding_units -= u32::from(unit.is_padding());
        self.buffer.give_back(id);
        let flash = &mut self.zones[unit.zone as usize];
        if flash.generation == unit.generation {
            flash.in_flight -= 1;
            self.unit_durable(now, unit.zone, unit.index);
            self.finish_if_padded(now, unit.zone);
        }
        self.serve_line(now);
    }
}
