//! The wall clock, counted from the start of serving.

use std::time::Instant;

use units::Nanos;

/// CLOCK_MONOTONIC since an origin, in the device's unit.
#[derive(Clone, Copy)]
pub(crate) struct WallClock {
    origin: Instant,
}

impl WallClock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Nanos {
        // 2^64 ns are 584 years.
        Nanos(self.origin.elapsed().as_nanos() as u64)
    }
}
