//! The two clocks: one that jumps, one that runs.

use std::cell::Cell;
use std::time::{Duration, Instant};

use units::Nanos;

use super::ready::{Ready, Unparked};

/// How an executor on the wall clock waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WallConfig {
    /// The longest an executor may spin before a timer.
    ///
    /// A sleeping thread wakes late, by tens of microseconds on a virtual
    /// machine. The executor measures by how much, asks to be woken that much
    /// early, and spins for what is left, but never for longer than this. Zero
    /// never spins, and timers fire late by the whole overshoot.
    pub spin_ns: Nanos,
}

impl Default for WallConfig {
    /// Spins for at most 50 us, the default timer slack of a Linux thread.
    fn default() -> Self {
        Self { spin_ns: Nanos::from_micros(50) }
    }
}

pub(super) enum Clock {
    Virtual(Cell<Nanos>),
    Wall(Wall),
}

pub(super) struct Wall {
    pub(super) start: Instant,
    config: WallConfig,
    overshoot_ns: Cell<u64>,
}

impl Clock {
    pub(super) fn new_virtual() -> Self {
        Self::Virtual(Cell::new(Nanos::ZERO))
    }

    /// Starts the wall clock and asks the kernel for its finest timers on this thread.
    pub(super) fn new_wall(config: WallConfig) -> Self {
        // Timer slack is 50 us by default (PR_SET_TIMERSLACK(2const)); where it
        // cannot be changed, timers are late by it and the overshoot shows it.
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        Self::Wall(Wall { start: Instant::now(), config, overshoot_ns: Cell::new(0) })
    }

    #[inline]
    pub(super) fn now(&self) -> Nanos {
        match self {
            Self::Virtual(now) => now.get(),
            Self::Wall(wall) => since(wall.start),
        }
    }
}

/// The reading of a wall clock that was started at `start`.
pub(super) fn since(start: Instant) -> Nanos {
    Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// How much later than asked the thread wakes, three times out of four: the
/// estimate moves up by 3 when a sample lies above it and down by 1 when below
/// (a stochastic quantile), so that one preemption does not spoil it.
const OVERSHOOT_STEP_NS: u64 = 250;

impl Wall {
    /// Sleeps until `until` (`None`: for ever) or until there is work.
    pub(super) fn park(&self, ready: &Ready, until: Option<Nanos>) -> Unparked {
        let Some(until) = until else { return ready.park(None) };
        let early_ns = self.overshoot_ns.get().min(self.config.spin_ns.0);
        let asked = Nanos(until.0.saturating_sub(early_ns));
        let now = since(self.start);
        if asked > now {
            if ready.park(Some(Duration::from_nanos(asked.0 - now.0))) == Unparked::Work {
                return Unparked::Work;
            }
            let late_ns = since(self.start).0.saturating_sub(asked.0);
            let estimate_ns = self.overshoot_ns.get();
            self.overshoot_ns.set(if late_ns > estimate_ns {
                estimate_ns + 3 * OVERSHOOT_STEP_NS
            } else {
                estimate_ns.saturating_sub(OVERSHOOT_STEP_NS)
            });
        }
        loop {
            let left_ns = until.0.saturating_sub(since(self.start).0);
            // More is left only after a chance wake-up: the caller parks again.
            if left_ns == 0 || left_ns > early_ns {
                return Unparked::Timeout;
            }
            if ready.is_pending() {
                return Unparked::Work;
            }
            std::hint::spin_loop();
        }
    }
}
