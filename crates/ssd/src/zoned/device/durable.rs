//! What is on flash, and commands that wait until something is: Flush and FUA.
//!
//! Matters to devices whose buffer does not survive a power cut. Data counts as
//! on flash up to the first gap in its zone. A unit that is not full cannot be
//! programmed in its place, so Flush and FUA copy it to a save area, by a program of
//! its own.

use trace::{Step, Track};
use units::Nanos;

use super::Zoned;
use crate::slab::NONE;
use crate::zoned::flash::{Job, JobKind};

/// A command waits for a zone's blocks up to `target_blocks`.
pub(super) struct Wait {
    pub zone: u32,
    pub target_blocks: u64,
    pub command: u32,
}

impl Zoned {
    /// Adds to what a command waits for.
    pub(super) fn hold(&mut self, id: u32) {
        self.commands[id].left += 1;
    }

    /// Something that a command waited for ends at `at`. After the last it completes.
    pub(super) fn release(&mut self, at: Nanos, id: u32) {
        let cmd = &mut self.commands[id];
        cmd.ready = cmd.ready.max(at);
        cmd.left -= 1;
        if cmd.left == 0 {
            let at = cmd.ready;
            self.complete(at, id);
        }
    }

    /// Flush (NVM 3.2.3) of namespace `index`, or of all if there is no such.
    pub(super) fn flush(&mut self, now: Nanos, id: u32, index: usize) {
        let delay = self.config.controller.flush.delay;
        self.record_some(now, delay, Track::Controller, Step::Firmware, id);
        let now = now + delay;
        self.hold(id);
        let waits = !self.survives_power_cut();
        #[cfg(test)]
        let waits = waits && self.mutant != Some(crate::zoned::mutant::Mutant::FlushDoesNotWait);
        if waits {
            let zones = match self.layout.namespace_zones.get(index..index.saturating_add(2)) {
                Some(&[first, end]) => first..end,
                _ => 0..self.layout.zones(),
            };
            for zone in zones {
                self.wait_for_accepted(now, id, zone);
            }
        }
        self.release(now, id);
    }

    /// Completes a FUA command when its zone's data is on flash.
    pub(super) fn make_durable(&mut self, at: Nanos, id: u32, zone: u32) {
        let cmd = &mut self.commands[id];
        (cmd.left, cmd.ready) = (0, at);
        self.hold(id);
        self.wait_for_accepted(at, id, zone);
        self.release(at, id);
    }

    /// Makes a command wait for everything that the buffer has of a zone.
    fn wait_for_accepted(&mut self, now: Nanos, id: u32, zone: u32) {
        let flash = &self.zones[zone as usize];
        let filled = if flash.unit == NONE { 0 } else { self.buffer[flash.unit].filled.into() };
        // Not the padding of a finish.
        let (namespace, index) = self.in_namespace(zone);
        let written = self.namespaces[namespace].zone(index).written_blocks;
        let full = flash.full.len() as u64 * self.layout.program_bytes;
        let accepted = ((flash.placed_bytes + full + filled) / self.layout.lba_bytes).min(written);
        if accepted <= flash.durable_blocks {
            return;
        }
        self.hold(id);
        self.waits.push(Wait { zone, target_blocks: accepted, command: id });
        if filled > 0 {
            self.save(now, zone);
        }
    }

    /// Copies what a zone's unit holds to a save area.
    fn save(&mut self, now: Nanos, zone: u32) {
        let flash = &self.zones[zone as usize];
        let unit = &self.buffer[flash.unit];
        let array = self.striping.array(flash.physical, unit.index % self.layout.zone_arrays());
        let mut job = Job::new(JobKind::Save, flash.unit, self.flash.program_time(false), unit.ready, unit.filled);
        job.serial = unit.serial;
        self.counters.saved_bytes += u64::from(unit.filled);
        self.counters.flash_programmed_bytes += self.layout.program_bytes;
        self.flash.enqueue(array, now, job, &mut self.events);
    }

    /// The copy of a unit is there; the unit may have gone on to other use.
    pub(super) fn saved(&mut self, now: Nanos, job: &Job) {
        let unit = self.buffer[job.owner];
        let flash = &mut self.zones[unit.zone as usize];
        if unit.serial != job.serial || unit.generation != flash.generation {
            return;
        }
        let saved = (unit.index, u64::from(job.bytes) / self.layout.lba_bytes);
        // Copies of several units may be under way; a later one can end first.
        if flash.saved.0 == NONE || saved > flash.saved {
            flash.saved = saved;
        }
        self.extend_durable(now, unit.zone);
    }

    /// A unit's program has ended.
    pub(super) fn unit_durable(&mut self, now: Nanos, zone: u32, index: u32) {
        self.zones[zone as usize].ahead.push(index);
        self.extend_durable(now, zone);
    }

    fn extend_durable(&mut self, now: Nanos, zone: u32) {
        let unit_blocks = self.layout.program_bytes / self.layout.lba_bytes;
        let flash = &mut self.zones[zone as usize];
        let before = flash.durable_blocks;
        let mut next = (before / unit_blocks) as u32;
        while let Some(at) = flash.ahead.iter().position(|index| *index == next) {
            flash.ahead.swap_remove(at);
            next += 1;
        }
        let whole = u64::from(next) * unit_blocks;
        let saved = if flash.saved.0 == next { flash.saved.1 } else { 0 };
        flash.durable_blocks = before.max(whole + saved);
        if flash.durable_blocks == before {
            return;
        }
        let durable = flash.durable_blocks;
        if !self.pending.is_empty() {
            self.commit_pending(zone, durable);
        }
        let mut index = 0;
        while index < self.waits.len() {
            let Wait { zone: waits_for, target_blocks, command } = self.waits[index];
            if waits_for == zone && target_blocks <= durable {
                self.waits.remove(index);
                self.release(now, command);
            } else {
                index += 1;
            }
        }
    }

    /// Moves volatile writes up to block `durable` of a zone to the media.
    fn commit_pending(&mut self, zone: u32, durable: u64) {
        let (namespace, index) = self.in_namespace(zone);
        let nsid = nvme::NamespaceId(namespace as u32 + 1);
        while let Some(first) = self.pending[zone as usize].front_mut()
            && first.start < durable
        {
            let (sequence, start, end) = (first.sequence, first.start, first.end.min(durable));
            let over = end == first.end;
            first.start = end;
            if over {
                self.pending[zone as usize].pop_front();
            }
            let part = self.zone_range(index, start..end);
            if self.store.commit_blocks(sequence, nsid, part).is_err() {
                self.counters.media_errors += 1;
            }
        }
    }
}
