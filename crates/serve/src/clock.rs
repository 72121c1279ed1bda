//! The wall clock, counted from the start of serving.

use rustix::time::{ClockId, clock_gettime};
use units::Nanos;

/// CLOCK_MONOTONIC since an origin, in the device's unit.
#[derive(Clone, Copy)]
pub(crate) struct WallClock {
    started_at: Nanos,
}

impl WallClock {
    pub(crate) fn start() -> Self {
        Self { started_at: monotonic() }
    }

    pub(crate) fn now(&self) -> Nanos {
        monotonic().since(self.started_at)
    }

    /// The origin on CLOCK_MONOTONIC, for those who join times with other programs'
    /// or set timers.
    pub(crate) fn started_at(&self) -> Nanos {
        self.started_at
    }
}

fn monotonic() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    // Never negative; 2^64 ns are 584 years.
    Nanos::from_secs(time.tv_sec as u64) + Nanos(time.tv_nsec as u64)
}
