//! Finishes: padding in the foreground, in turn with writers, or none.

use units::Nanos;

use super::Zoned;
use super::command::Finishing;
use crate::slab::NONE;
use crate::zoned::Event;
use crate::zoned::finish::FinishPlan;

impl Zoned {
    /// Executes the finish of a zone that held `written_blocks`, of which flash and
    /// buffer have those up to `placed_blocks`; `id` waits for it.
    pub(super) fn finish_zone(&mut self, now: Nanos, id: u32, zone: u32, written_blocks: u64, placed_blocks: u64) {
        self.counters.zone_finishes += 1;
        if written_blocks == 0 {
            // Nothing to pad after; without a buffer the emulator counts one transfer.
            if !self.is_buffered() {
                let array = self.striping.array(zone, 0);
                let (_, end) = self.flash.transfer(array, now, self.layout.page_bytes);
                let cmd = &mut self.commands[id];
                cmd.ready = cmd.ready.max(end);
            }
            return;
        }
        let plan = self.finish_policy.plan();
        let base = match plan {
            FinishPlan::Share { base } => base,
            FinishPlan::Pad { .. } | FinishPlan::Note => Nanos::ZERO,
        };
        let left_bytes = (self.layout.capacity_blocks - placed_blocks) * self.layout.lba_bytes;
        self.hold(id);
        let due = now + base;
        self.zones[zone as usize].finishing = Some(Finishing { command: id, plan, left_bytes, due, begun: false });
        // `now` is ahead by the command's delay. Without one, padding comes before what
        // other commands of this moment do.
        if due > now || self.config.controller.finish.delay > Nanos::ZERO {
            self.events.push(due, Event::Pad, zone);
        } else {
            self.pad(now, zone);
        }
    }

    /// A zone's finish takes its next step.
    pub(super) fn pad(&mut self, now: Nanos, zone: u32) {
        let flash = &mut self.zones[zone as usize];
        let Some(finishing) = &mut flash.finishing else { return };
        if finishing.due != now {
            return;
        }
        finishing.begun = true;
        match finishing.plan {
            FinishPlan::Share { .. } => {
                self.take_turns(zone);
                self.dispatch(now);
            }
            FinishPlan::Pad { .. } | FinishPlan::Note if !flash.waiting.is_empty() => finishing.begun = false,
            FinishPlan::Pad { step_bytes } => self.pad_step(now, zone, step_bytes),
            FinishPlan::Note => {
                self.pad_open_unit(now, zone);
                if let Some(finishing) = &mut self.zones[zone as usize].finishing {
                    finishing.left_bytes = 0;
                }
            }
        }
        self.finish_if_padded(now, zone);
    }

    /// Whether it is a zone's turn to pad, in turn with writers.
    pub(super) fn pads(&self, zone: u32) -> bool {
        let flash = &self.zones[zone as usize];
        flash.waiting.is_empty()
            && flash.finishing.is_some_and(|finishing| {
                matches!(finishing.plan, FinishPlan::Share { .. }) && finishing.begun && finishing.left_bytes > 0
            })
    }

    /// Pads a zone up to the end of a unit.
    pub(super) fn pad_next(&mut self, zone: u32) {
        let Some(finishing) = self.zones[zone as usize].finishing else { return };
        let taken = self.pad_unit(zone, finishing.left_bytes);
        if let Some(finishing) = &mut self.zones[zone as usize].finishing {
            finishing.left_bytes -= taken;
        }
    }

    /// A finish that waited for the zone's writes to be in the buffer goes on.
    pub(super) fn resume_finish(&mut self, now: Nanos, zone: u32) {
        let Some(finishing) = &mut self.zones[zone as usize].finishing else { return };
        match finishing.plan {
            FinishPlan::Share { .. } if finishing.begun => self.take_turns(zone),
            FinishPlan::Pad { .. } | FinishPlan::Note if !finishing.begun && finishing.due <= now => {
                finishing.due = now;
                self.events.push(now, Event::Pad, zone);
            }
            _ => {}
        }
    }

    /// Pads in the foreground: `step_bytes` at most, and comes again when they
    /// are programmed.
    fn pad_step(&mut self, now: Nanos, zone: u32, step_bytes: u64) {
        self.pad_open_unit(now, zone);
        let capacity = self.layout.capacity_blocks * self.layout.lba_bytes;
        let unit = self.layout.program_bytes;
        let first = self.zones[zone as usize].placed_bytes;
        let Some(finishing) = self.zones[zone as usize].finishing else { return };
        let request = self.commands[finishing.command].request;
        let mut end = now;
        let mut at = first;
        while at < capacity && at - first < step_bytes {
            self.place(zone, at);
            end = end.max(self.program_unit(zone, at, now, true, request));
            at += unit;
        }
        self.counters.padded_bytes += at - first;
        let flash = &mut self.zones[zone as usize];
        flash.placed_bytes = at;
        if let Some(finishing) = &mut flash.finishing {
            finishing.left_bytes = capacity - first;
            if first < capacity {
                finishing.due = end;
                self.events.push(end, Event::Pad, zone);
            }
        }
    }

    /// Fills a zone's open unit up with padding and sends all of its units to their
    /// arrays.
    pub(super) fn pad_open_unit(&mut self, now: Nanos, zone: u32) {
        if self.zones[zone as usize].unit != NONE {
            self.pad_unit(zone, self.layout.program_bytes);
        }
        self.send_all(now, zone);
    }

    /// Ends a finish whose padding is done and on flash.
    pub(super) fn finish_if_padded(&mut self, now: Nanos, zone: u32) {
        let flash = &mut self.zones[zone as usize];
        if let Some(finishing) = flash.finishing
            && finishing.begun
            && finishing.left_bytes == 0
            && flash.in_flight == 0
            && flash.full.is_empty()
        {
            flash.finishing = None;
            let journal = match finishing.plan {
                FinishPlan::Share { .. } => self.journal(),
                FinishPlan::Pad { .. } | FinishPlan::Note => Nanos::ZERO,
            };
            self.release(now + journal, finishing.command);
        }
    }

    /// How long the processors take for a command that takes `service` alone: what
    /// padding takes of them is not there for it.
    pub(super) fn beside_padding(&self, service: Nanos) -> Nanos {
        let Some(law) = &self.config.management.finish_law else { return service };
        // Padding that is programmed takes this part of the processors' time.
        let unit_time = self.flash.padding_unit_time(self.layout.program_bytes);
        let taken = law.service.0.saturating_mul(self.padding_units.into());
        let left = (unit_time.0 * u64::from(self.config.controller.processors)).saturating_sub(taken).max(1);
        Nanos(service.0 + service.0 * taken / left)
    }

    /// How long a finish whose padding is done waits for the journal.
    fn journal(&mut self) -> Nanos {
        let law = self.config.management.finish_law.as_ref();
        let Some(journal) = law.and_then(|law| law.journal.as_ref()) else { return Nanos::ZERO };
        self.journalled += journal.share;
        if self.journalled < 1.0 {
            return Nanos::ZERO;
        }
        self.journalled -= 1.0;
        journal.time
    }
}
