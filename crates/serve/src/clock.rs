//! The wall clock, counted from the start of serving.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use units::Nanos;

/// CLOCK_MONOTONIC since an origin, in the device's unit.
#[derive(Clone, Copy)]
pub(crate) struct WallClock {
    origin: Instant,
    started_at: Nanos,
}

impl WallClock {
    pub(crate) fn start() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        let started_at = Nanos::from_secs(time.tv_sec as u64) + Nanos(time.tv_nsec as u64);
        Self { origin: Instant::now(), started_at }
    }

    pub(crate) fn now(&self) -> Nanos {
        // 2^64 ns are 584 years.
        Nanos(self.origin.elapsed().as_nanos() as u64)
    }

    /// The origin on CLOCK_MONOTONIC, for those who join times with other programs'.
    pub(crate) fn started_at(&self) -> Nanos {
        self.started_at
    }
}
