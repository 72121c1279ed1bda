//! Power cuts: what is lost, and the state after the next power-on.
//!
//! A reset or finish in flight counts as done: its change of state was noted when the
//! command was processed, and what it had to do to the flash is made up for at
//! power-on. Without a buffer, programs that have begun are finished; a protected
//! buffer is saved. From any other buffer each zone keeps what flash has of it up to
//! the first gap, and the caller's choice of undecided writes after that, as far as
//! they join on: a zone has no place for what lies behind a gap.

use nvme::ZoneState;
use units::Nanos;

use super::Zoned;
use crate::slab::NONE;
use crate::zoned::config::StripeOrder;
use crate::zoned::zones::Zones;
use crate::{PowerCut, VolatileWrite};

/// Zones that lost blocks in the last power cut.
pub(super) struct Recovery {
    /// The state of all zones without that loss.
    complete: Vec<Zones>,
    /// Zones, and the blocks of each that survived.
    survived: Vec<(u32, u64)>,
}

impl Zoned {
    pub(super) fn lose_power(&mut self, now: Nanos) -> PowerCut {
        self.events.clear();
        self.flash.reset();
        self.link.reset();
        self.firmware.reset();
        self.commands.clear();
        self.parts.clear();
        self.reading.fill(false);
        self.queued_reads.fill(crate::slab::Fifo::default());
        self.buffer.clear();
        self.turns.clear();
        self.padding_units = 0;
        self.resets.clear();
        self.catching.clear();
        self.eraser.stop();
        self.waits.clear();
        self.last_command = now;
        for zones in &mut self.namespaces {
            zones.power_loss();
        }
        self.recovery = None;
        if !self.survives_power_cut() {
            let lost = |(zone, flash): (usize, &super::ZoneFlash)| {
                let (namespace, index) = self.in_namespace(zone as u32);
                let written = self.namespaces[namespace].zone(index).written_blocks;
                (flash.durable_blocks < written).then_some((zone as u32, flash.durable_blocks))
            };
            let survived = self.zones.iter().enumerate().filter_map(lost).collect();
            let complete = self.namespaces.clone();
            self.recovery = Some(Box::new(Recovery { complete, survived }));
            self.apply_recovery();
        }
        for zone in 0..self.zones.len() as u32 {
            let flash = &mut self.zones[zone as usize];
            if flash.placed_bytes > 0 || flash.unit != NONE || !flash.full.is_empty() {
                (flash.unit, flash.in_turn) = (NONE, false);
                flash.full.clear();
                self.restore_flash(zone);
            }
            let flash = &mut self.zones[zone as usize];
            (flash.finishing, flash.waiting, flash.in_turn) = (None, crate::slab::Fifo::default(), false);
        }
        for pending in &mut self.pending {
            pending.clear();
        }
        self.look_for_idle(now);
        let undecided = self.store.cut();
        PowerCut { undecided }
    }

    /// Sets the write pointers of zones that lost blocks.
    fn apply_recovery(&mut self) {
        let Some(recovery) = &self.recovery else { return };
        for (zones, complete) in self.namespaces.iter_mut().zip(&recovery.complete) {
            zones.clone_from(complete);
        }
        let firsts = &self.layout.namespace_zones;
        for (zone, blocks) in &recovery.survived {
            let namespace = firsts.partition_point(|first| first <= zone) - 1;
            self.namespaces[namespace].set_write_pointer(zone - firsts[namespace], *blocks);
        }
    }

    /// Puts a zone's flash and buffer in the state that its write pointer says.
    fn restore_flash(&mut self, zone: u32) {
        let (namespace, index) = self.in_namespace(zone);
        let state = self.namespaces[namespace].zone(index);
        let full = state.state == ZoneState::Full;
        let bytes = if full { self.layout.capacity_blocks } else { state.write_pointer_blocks } * self.layout.lba_bytes;
        let durable_blocks = state.write_pointer_blocks.min(state.written_blocks);
        let unit = self.layout.program_bytes;
        let buffered = self.is_buffered();
        let flash = &mut self.zones[zone as usize];
        flash.generation = flash.generation.wrapping_add(1);
        (flash.in_flight, flash.durable_blocks, flash.saved) = (0, durable_blocks, (NONE, 0));
        flash.ahead.clear();
        let placed = if buffered { bytes / unit * unit } else { bytes.next_multiple_of(unit) };
        let chosen = !self.zones[zone as usize].placement.is_empty();
        if buffered && chosen && self.config.stripe.order == StripeOrder::LeastBusy {
            self.restore_placement(zone, placed);
        }
        let flash = &mut self.zones[zone as usize];
        flash.placed_bytes = placed;
        let rest = bytes.saturating_sub(placed);
        if flash.unit != NONE {
            self.buffer.give_back(flash.unit);
            flash.unit = NONE;
        }
        if buffered && rest > 0 {
            flash.unit = self.buffer.open(zone, flash.generation, (placed / unit) as u32);
            self.buffer.put(flash.unit, rest, Nanos::ZERO);
        }
    }

    /// Places of stripe units up to `placed` bytes: those chosen stay; others follow in
    /// turn.
    fn restore_placement(&mut self, zone: u32, placed: u64) {
        let units = placed.div_ceil(self.layout.stripe_bytes);
        let chosen = self.zones[zone as usize].placed_bytes.div_ceil(self.layout.stripe_bytes);
        let flash = &mut self.zones[zone as usize];
        flash.units_on.fill(0);
        for unit in 0..units.min(chosen) {
            let array = flash.placement[unit as usize];
            flash.units_on[usize::from(array)] += 1;
        }
        for unit in chosen..units {
            self.place(zone, unit * self.layout.stripe_bytes);
        }
    }

    pub(super) fn make_survive(&mut self, write: &VolatileWrite) {
        let namespace = (write.nsid.0 as usize).wrapping_sub(1);
        let zone_blocks = self.layout.zone_blocks;
        let zone = self.zone_of(namespace, (write.start.0 / zone_blocks) as u32);
        let start = write.start.0 % zone_blocks;
        let end = start + u64::from(write.blocks);
        let Some(recovery) = &mut self.recovery else { return };
        let Some((_, survived)) = recovery.survived.iter_mut().find(|(lost, _)| *lost == zone) else { return };
        let gap = start > *survived;
        #[cfg(test)]
        let gap = gap && self.mutant != Some(crate::zoned::mutant::Mutant::SurvivesBehindGap);
        if gap || end <= *survived {
            return;
        }
        *survived = end;
        self.apply_recovery();
        self.restore_flash(zone);
        if self.store.survive(write).is_err() {
            self.counters.media_errors += 1;
        }
    }
}
