//! Looks that the device takes at its own state some time later.

use units::Nanos;

use crate::event::{Event, Events};

/// A look that is scheduled at most once at a time.
#[derive(Default)]
pub(super) struct Timer {
    armed: bool,
}

impl Timer {
    pub fn is_armed(&self) -> bool {
        self.armed
    }

    /// Schedules the look at `at`, unless one is scheduled.
    pub fn arm(&mut self, at: Nanos, event: Event, events: &mut Events) {
        if !std::mem::replace(&mut self.armed, true) {
            events.push(at, event, 0);
        }
    }

    /// The look is being taken: another may be scheduled.
    pub fn fired(&mut self) {
        self.armed = false;
    }
}
