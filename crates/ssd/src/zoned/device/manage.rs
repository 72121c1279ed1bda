//! Zone Management Send: what the zones' changes ask of the flash.

use nvme::{Lba, NamespaceId, ZoneSendAction, ZoneState};
use trace::{Step, Track};
use units::Nanos;

use super::Zoned;
use super::command::Incoming;
use crate::slab::NONE;
use crate::zoned::mapping::UNMAPPED;
use crate::zoned::reset::{ResetPlan, ResetZone};
use crate::zoned::zones::{Change, Changed};

impl Zoned {
    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn manage(
        &mut self,
        now: Nanos,
        id: u32,
        namespace: usize,
        start: Lba,
        action: ZoneSendAction,
        all: bool,
        zrwa: bool,
    ) {
        let mut changes = std::mem::take(&mut self.changes);
        let data = self.commands[id].data.take();
        let result = self.namespaces[namespace].manage(start, action, all, zrwa, data.as_deref(), &mut changes);
        let controller = &self.config.controller;
        let delay = match action {
            ZoneSendAction::Open => controller.open.delay,
            ZoneSendAction::Close => controller.close.delay,
            ZoneSendAction::Finish => controller.finish.delay,
            ZoneSendAction::Reset => controller.reset.delay,
            ZoneSendAction::Offline | ZoneSendAction::SetDescriptorExtension | ZoneSendAction::FlushZrwa => {
                controller.manage.delay
            }
        };
        self.record_some(now, delay, Track::Controller, Step::Firmware, id);
        let at = now + delay;
        match result {
            Err(status) => self.fail(at, id, status),
            Ok(()) => {
                self.hold(id);
                if action == ZoneSendAction::Reset && !all && changes.is_empty() {
                    self.reset_empty_zone(at, id);
                }
                // A finish first commits the zone's ZRWA: that is programmed with the
                // padding, from the write pointer on.
                let mut uncommitted = None;
                for change in changes.drain(..) {
                    match change.what {
                        Changed::Committed(blocks) if action == ZoneSendAction::Finish => {
                            uncommitted = Some(blocks.start)
                        }
                        _ => self.follow(at, id, namespace, change, uncommitted.take()),
                    }
                }
                self.release(at, id);
            }
        }
        changes.clear();
        self.changes = changes;
    }

    /// Does to the flash what a change of a zone asks for.
    fn follow(&mut self, now: Nanos, id: u32, namespace: usize, change: Change, uncommitted: Option<u64>) {
        let zone = self.zone_of(namespace, change.zone);
        match change.what {
            Changed::Reset => self.reset_zone(now, id, namespace, zone, &change),
            Changed::Finished => {
                if change.written_blocks > 0 {
                    self.map(now, zone);
                }
                self.finish_zone(now, id, zone, change.written_blocks, uncommitted.unwrap_or(change.written_blocks));
            }
            Changed::Committed(blocks) => {
                self.hold(id);
                let bytes = (blocks.end - blocks.start) * self.layout.lba_bytes;
                self.admit(now, id, zone, Incoming { bytes, over_link: false, delay: Nanos::ZERO });
            }
            Changed::Opened => self.counters.zone_opens += 1,
            Changed::Closed | Changed::Offlined | Changed::ExtensionSet => {}
        }
    }

    /// A reset of a zone that is empty changes nothing, but takes a law's base time.
    fn reset_empty_zone(&mut self, now: Nanos, id: u32) {
        let held = ResetZone {
            written_blocks: 0,
            programmed_blocks: 0,
            capacity_blocks: self.layout.capacity_blocks,
            rows: self.layout.rows,
            finished: true,
        };
        let plan = self.reset_policy.plan(&held);
        if matches!(plan, ResetPlan::Timed { .. }) {
            self.timed_reset(now, id, plan, UNMAPPED);
        }
    }

    fn reset_zone(&mut self, now: Nanos, id: u32, namespace: usize, zone: u32, change: &Change) {
        self.counters.zone_resets += 1;
        let capacity_blocks = self.layout.capacity_blocks;
        let flash = &self.zones[zone as usize];
        let held = ResetZone {
            written_blocks: change.written_blocks.min(capacity_blocks),
            programmed_blocks: flash.placed_bytes / self.layout.lba_bytes,
            capacity_blocks,
            rows: self.layout.rows,
            finished: change.was == ZoneState::Full && change.written_blocks < capacity_blocks,
        };
        let physical = flash.physical;
        self.empty(now, zone);
        if self.store.tracks_volatile() && change.written_blocks > 0 {
            let range = self.zone_range(change.zone, 0..capacity_blocks);
            #[cfg(test)]
            let range = match self.mutant {
                Some(crate::zoned::mutant::Mutant::ResetForgetsBlock) => {
                    self.zone_range(change.zone, 0..change.written_blocks - 1)
                }
                _ => range,
            };
            if self.store.write_durable(NamespaceId(namespace as u32 + 1), range, None).is_err() {
                self.counters.media_errors += 1;
            }
        }
        let plan = self.reset_policy.plan(&held);
        if physical == UNMAPPED {
            // Never written: there is no flash to erase.
            if let ResetPlan::Timed { .. } = plan {
                self.timed_reset(now, id, plan, physical);
            }
            return;
        }
        match plan {
            ResetPlan::Erase { rows } => self.erase_for(now, id, physical, rows),
            ResetPlan::Leave | ResetPlan::WhenIdle => self.leave_dirty(physical, &held, plan == ResetPlan::WhenIdle),
            ResetPlan::Timed { .. } => {
                self.erased(physical, held.rows);
                self.timed_reset(now, id, plan, physical);
            }
        }
        let state = self.physical[physical as usize];
        self.zones[zone as usize].physical = self.mapping.release(physical, &state);
        self.serve_line(now);
    }

    /// Forgets what a zone holds. Commands that wait for it are over.
    fn empty(&mut self, now: Nanos, zone: u32) {
        let flash = &mut self.zones[zone as usize];
        flash.generation = flash.generation.wrapping_add(1);
        (flash.placed_bytes, flash.durable_blocks, flash.in_flight) = (0, 0, 0);
        flash.saved = (NONE, 0);
        flash.ahead.clear();
        flash.units_on.fill(0);
        let unit = std::mem::replace(&mut flash.unit, NONE);
        let full = std::mem::take(&mut flash.full);
        let finishing = flash.finishing.take();
        if unit != NONE {
            self.buffer.give_back(unit);
        }
        for unit in full {
            self.buffer.give_back(unit);
        }
        if let Some(finishing) = finishing {
            self.release(now, finishing.command);
        }
        while let Some(id) = self.zones[zone as usize].waiting.pop_front(&mut self.commands) {
            self.admitted(now, id, zone);
        }
        if let Some(pending) = self.pending.get_mut(zone as usize) {
            pending.clear();
        }
        let mut index = 0;
        while index < self.waits.len() {
            if self.waits[index].zone == zone {
                let wait = self.waits.remove(index);
                self.release(now, wait.command);
            } else {
                index += 1;
            }
        }
    }
}
