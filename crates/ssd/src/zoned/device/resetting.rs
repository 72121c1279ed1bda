//! Resets that take a law's time, one after the other in the device.

use std::collections::VecDeque;

use units::Nanos;

use super::Zoned;
use super::erase::NOBODY;
use crate::zoned::Event;
use crate::zoned::flash::{Job, JobKind};
use crate::zoned::mapping::UNMAPPED;
use crate::zoned::reset::ResetPlan;

/// A reset and its times.
struct Timed {
    command: u32,
    physical: u32,
    ungated: Nanos,
    gated: Nanos,
    erasing_arrays: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Programs go on.
    Ungated,
    /// The programs in flight when it began end; others begin.
    Draining,
    /// No program begins; arrays erase in turn. Since when, and steps done.
    Gated { since: Nanos, step: u32 },
}

/// The reset under way and those behind it.
#[derive(Default)]
pub(super) struct TimedResets {
    queue: VecDeque<Timed>,
    active: Option<(Timed, Phase)>,
}

impl TimedResets {
    /// Power off.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.active = None;
    }
}

impl Zoned {
    /// Queues a reset of a physical zone (or of none); command `id` waits for it.
    pub(super) fn timed_reset(&mut self, now: Nanos, id: u32, plan: ResetPlan, physical: u32) {
        let ResetPlan::Timed { ungated, gated, erasing_arrays } = plan else { return };
        self.hold(id);
        self.resets.queue.push_back(Timed { command: id, physical, ungated, gated, erasing_arrays });
        if self.resets.active.is_none() {
            self.next_reset(now);
        }
    }

    fn next_reset(&mut self, now: Nanos) {
        let Some(timed) = self.resets.queue.pop_front() else { return };
        self.reset_begins(now);
        self.events.push(now + timed.ungated, Event::Reset, 0);
        self.resets.active = Some((timed, Phase::Ungated));
    }

    /// The reset under way takes its next step.
    pub(super) fn reset_step(&mut self, now: Nanos) {
        let Some((timed, phase)) = &mut self.resets.active else { return };
        match *phase {
            Phase::Ungated if timed.gated == Nanos::ZERO || timed.physical == UNMAPPED => self.reset_done(now),
            Phase::Ungated => {
                *phase = Phase::Draining;
                self.flash.mark_running();
                if self.flash.is_drained() {
                    self.programs_drained(now);
                }
            }
            Phase::Draining => {}
            Phase::Gated { since, step } => self.erase_step(now, since, step),
        }
    }

    /// No program is in flight.
    pub(super) fn programs_drained(&mut self, now: Nanos) {
        if let Some((_, phase)) = &mut self.resets.active
            && *phase == Phase::Draining
        {
            self.flash.gate();
            self.erase_step(now, now, 0);
        }
    }

    /// Erases the next arrays of the zone, for their share of the time.
    fn erase_step(&mut self, now: Nanos, since: Nanos, step: u32) {
        let arrays = self.layout.zone_arrays();
        let Some((timed, phase)) = &mut self.resets.active else { return };
        let steps = arrays.div_ceil(timed.erasing_arrays);
        if step == steps {
            return self.reset_done(now);
        }
        *phase = Phase::Gated { since, step: step + 1 };
        let end = since + timed.gated * u64::from(step + 1) / u64::from(steps);
        let (physical, erasing) = (timed.physical, timed.erasing_arrays);
        for unit in step * erasing..((step + 1) * erasing).min(arrays) {
            let array = self.striping.array(physical, unit);
            let job = Job::new(JobKind::Erase, NOBODY, end.since(now), now, 0);
            self.flash.enqueue(array, now, job, &mut self.events);
        }
        self.events.push(end, Event::Reset, 0);
    }

    fn reset_done(&mut self, now: Nanos) {
        let Some((timed, phase)) = self.resets.active.take() else { return };
        if phase != Phase::Ungated {
            self.flash.ungate(now, &mut self.events);
            self.dispatch(now);
        }
        self.release(now, timed.command);
        self.reset_ends(now);
        self.next_reset(now);
    }
}
