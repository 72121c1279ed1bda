//! Emptying the SLC cache while the device is idle.

use units::Nanos;

use crate::config::SsdConfig;
use crate::event::{Event, Events};

use super::Ssd;
use super::timer::Timer;

/// When the SLC cache is emptied.
pub(super) struct Fold {
    /// How long no command is under way before it begins; `None`: it never does.
    after: Option<Nanos>,
    timer: Timer,
    active: bool,
}

impl Fold {
    pub fn new(config: &SsdConfig) -> Self {
        let after = config.slc_cache.as_ref().and_then(|slc| slc.fold_after_idle);
        Self { after, timer: Timer::default(), active: false }
    }

    /// Whether the cache is being emptied.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Schedules a look whether the device is idle enough.
    pub fn arm(&mut self, now: Nanos, events: &mut Events) {
        if let Some(after) = self.after {
            self.timer.arm(now + after, Event::Fold, events);
        }
    }

    /// A command came: the cache is emptied when the device is next idle.
    pub fn stop(&mut self, now: Nanos, events: &mut Events) {
        if std::mem::take(&mut self.active) {
            self.arm(now, events);
        }
    }

    /// Power off.
    pub fn reset(&mut self) {
        (self.timer, self.active) = (Timer::default(), false);
    }
}

impl Ssd {
    /// Looks whether the device has been idle long enough.
    pub(super) fn fold_timer(&mut self, now: Nanos) {
        self.fold.timer.fired();
        let after = self.fold.after.unwrap_or_default();
        if !self.host.is_idle_for(now, after) {
            self.fold.arm(now, &mut self.events);
            return;
        }
        self.fold.active = true;
        (0..self.layout.dies).for_each(|die| self.collect(now, die));
    }
}
