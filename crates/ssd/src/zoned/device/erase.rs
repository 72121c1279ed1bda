//! Erases: for a command, for a writer, and in the background.

use std::collections::VecDeque;

use trace::{RequestId, Step};
use units::Nanos;

use super::Zoned;
use crate::zoned::Event;
use crate::zoned::flash::{Job, JobKind};
use crate::zoned::mapping::Physical;
use crate::zoned::reset::ResetZone;

/// Owner of an erase job of the background eraser; a command's is its identifier.
const BACKGROUND: u32 = u32::MAX;
/// Owner of an erase job that nobody waits for.
pub(super) const NOBODY: u32 = u32::MAX - 1;

/// The background eraser: one row of blocks of one physical zone at a time.
#[derive(Default)]
pub(super) struct Eraser {
    /// Physical zones to erase, in order of reset. One that a writer has erased
    /// meanwhile is passed over.
    queue: VecDeque<u32>,
    /// The one being erased, and arrays that are not done with the row.
    active: Option<(u32, u32)>,
    /// Whether an `Idle` event is scheduled.
    armed: bool,
}

impl Eraser {
    /// Power off: a row under way counts as not erased.
    pub fn stop(&mut self) {
        if let Some((physical, _)) = self.active.take() {
            self.queue.push_front(physical);
        }
        self.armed = false;
    }
}

impl Zoned {
    /// Arrays of a physical zone.
    pub(super) fn arrays_of(&self, physical: u32) -> impl Iterator<Item = u32> + use<> {
        let striping = self.striping.clone();
        (0..self.layout.zone_arrays()).map(move |unit| striping.array(physical, unit))
    }

    /// Notes that `rows` rows of a physical zone, all that is dirty, were erased.
    pub(super) fn erased(&mut self, physical: u32, rows: u32) {
        self.counters.erases += u64::from(rows) * u64::from(self.layout.zone_arrays());
        let before = self.physical[physical as usize];
        let after = Physical { erased_rows: before.erased_rows.saturating_add(rows), dirty_rows: 0 };
        self.physical[physical as usize] = after;
        self.mapping.changed(physical, &before, &after);
    }

    /// Erases `rows` blocks on every array of a physical zone; command `id` waits
    /// for it.
    pub(super) fn erase_for(&mut self, now: Nanos, id: u32, physical: u32, rows: u32) {
        if self.config.management.erase_suspend {
            for array in self.arrays_of(physical) {
                for _ in 0..rows {
                    self.hold(id);
                    let job = Job::new(JobKind::Erase, id, self.config.cell.erase, now, 0);
                    self.flash.enqueue(array, now, job, &mut self.events);
                }
            }
        } else if rows > 0 {
            let request = self.commands[id].request;
            let end = self.erase_now(now, physical, rows, request);
            let cmd = &mut self.commands[id];
            cmd.ready = cmd.ready.max(end);
        }
        self.erased(physical, rows);
    }

    /// Books erases in the foreground: when the last is done.
    fn erase_now(&mut self, now: Nanos, physical: u32, rows: u32, request: RequestId) -> Nanos {
        let mut last = now;
        for array in self.arrays_of(physical) {
            let duration = self.config.cell.erase * u64::from(rows);
            let (start, end) = self.flash.book(array, now, duration, false);
            self.flash.record_array(array, start, end, Step::FlashErase, request, 0);
            last = last.max(end);
        }
        last
    }

    /// Leaves the flash of a zone that was reset to its next writer or, `when_idle`,
    /// to the eraser.
    pub(super) fn leave_dirty(&mut self, physical: u32, held: &ResetZone, when_idle: bool) {
        self.physical[physical as usize].dirty_rows = held.programmed_rows();
        if when_idle && held.programmed_blocks > 0 {
            self.eraser.queue.push_back(physical);
        }
    }

    /// A writer needs a physical zone that is not erased: it pays.
    pub(super) fn pay_erase(&mut self, now: Nanos, physical: u32) {
        let dirty = self.physical[physical as usize].dirty_rows;
        // A row that is being erased is waited for.
        let under_way = u32::from(self.eraser.active.is_some_and(|(active, _)| active == physical));
        self.erase_now(now, physical, dirty - under_way, RequestId(0));
        if dirty > under_way {
            self.counters.paid_erases += 1;
            self.erased(physical, dirty - under_way);
            self.physical[physical as usize].dirty_rows = under_way;
        }
    }

    /// An erase job is over.
    pub(super) fn erase_done(&mut self, now: Nanos, owner: u32) {
        if owner == NOBODY {
            return;
        }
        if owner != BACKGROUND {
            return self.release(now, owner);
        }
        let Some((physical, left)) = &mut self.eraser.active else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let physical = *physical;
        self.eraser.active = None;
        let dirty = self.physical[physical as usize].dirty_rows;
        self.erased(physical, 1);
        if dirty > 1 {
            let before = self.physical[physical as usize];
            let after = Physical { dirty_rows: dirty - 1, ..before };
            self.physical[physical as usize] = after;
            self.mapping.changed(physical, &before, &after);
            self.eraser.queue.push_front(physical);
        }
        if self.is_idle(now) {
            self.erase_next(now);
        } else {
            self.look_for_idle(now);
        }
    }

    fn is_idle(&self, now: Nanos) -> bool {
        self.commands.len() == 0 && now.since(self.last_command) >= self.config.management.idle_after
    }

    /// Schedules a look at whether the device is idle, if there is a reason.
    pub(super) fn look_for_idle(&mut self, now: Nanos) {
        let eraser = &self.eraser;
        if eraser.armed || eraser.active.is_some() || eraser.queue.is_empty() || self.commands.len() > 0 {
            return;
        }
        self.eraser.armed = true;
        let at = now.max(self.last_command + self.config.management.idle_after);
        self.events.push(at, Event::Idle, 0);
    }

    pub(super) fn idle(&mut self, now: Nanos) {
        self.eraser.armed = false;
        if self.is_idle(now) {
            self.erase_next(now);
        } else {
            self.look_for_idle(now);
        }
    }

    /// Begins with the next row of blocks to erase.
    fn erase_next(&mut self, now: Nanos) {
        while let Some(physical) = self.eraser.queue.pop_front() {
            if self.physical[physical as usize].dirty_rows == 0 {
                continue;
            }
            self.eraser.active = Some((physical, self.layout.zone_arrays()));
            for array in self.arrays_of(physical) {
                let job = Job::new(JobKind::Erase, BACKGROUND, self.config.cell.erase, now, 0);
                self.flash.enqueue(array, now, job, &mut self.events);
            }
            return;
        }
    }
}
