//! What holds a run back: a budget, a rate, others' waiting, the user.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use units::Nanos;

use super::pressure::io_pressure_percent;
use super::suspend::Suspension;
use crate::migrate::{Pace, Stop};

/// Longest sleep before it is looked whether the user has had enough.
const NAP: Duration = Duration::from_millis(50);
/// The kernel averages over ten seconds; asking more often tells nothing new.
const PRESSURE_PERIOD: Duration = Duration::from_secs(1);

/// How far a run may go, and how fast.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Limits {
    /// Bytes of data it may write in all.
    pub budget_bytes: Option<u64>,
    /// Bytes of data it may write in a second.
    pub rate_bytes_per_s: Option<u64>,
    /// It ends once some task of the system waits for I/O more than so much of the time, in percent of the last ten
    /// seconds. Where the kernel does not tell, it does not end.
    pub until_psi_percent: Option<f64>,
    /// Its requests are served when no others wait, as far as the I/O scheduler knows classes.
    pub idle: bool,
}

/// Ends a run from another thread, or from a signal's handler, after the slice that is under way.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// One that is told by a flag.
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Ends the run.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// When the next bytes may be written, such that no second has more than `bytes_per_s` beyond one slice.
#[derive(Clone, Copy, Debug)]
struct Rate {
    bytes_per_s: u64,
    /// When what has been let through is paid for.
    free: Nanos,
}

impl Rate {
    fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), free: Nanos::ZERO }
    }

    /// How long to wait, from `now`, before `bytes` may be written.
    fn wait(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let start = self.free.max(now);
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.free = Nanos(start.0.saturating_add(cost));
        Nanos(start.0 - now.0)
    }
}

/// Applies the limits.
pub(super) struct Limiter {
    cancel: Cancel,
    budget_left: Option<u64>,
    rate: Option<Rate>,
    until_psi_percent: Option<f64>,
    begun: Instant,
    asked: Option<Instant>,
}

impl Limiter {
    pub fn new(limits: &Limits, cancel: &Cancel) -> Self {
        Self {
            cancel: cancel.clone(),
            budget_left: limits.budget_bytes,
            rate: limits.rate_bytes_per_s.map(Rate::new),
            until_psi_percent: limits.until_psi_percent,
            begun: Instant::now(),
            asked: None,
        }
    }

    /// Whether the run is to end before anything else is begun.
    pub fn over(&mut self) -> Option<Stop> {
        if self.cancel.is_cancelled() {
            return Some(Stop::Cancelled);
        }
        let most = self.until_psi_percent?;
        if self.asked.is_some_and(|asked| asked.elapsed() < PRESSURE_PERIOD) {
            return None;
        }
        self.asked = Some(Instant::now());
        (io_pressure_percent()? > most).then_some(Stop::Pressure)
    }
}

impl Pace for Limiter {
    fn waits(&self) -> bool {
        self.rate.is_some() || self.interrupts()
    }

    fn interrupts(&self) -> bool {
        self.cancel.is_cancelled() || Suspension::is_asked()
    }

    fn before(&mut self, bytes: u64) -> ControlFlow<Stop> {
        Suspension::take_effect();
        if let Some(stop) = self.over() {
            return ControlFlow::Break(stop);
        }
        if let Some(left) = &mut self.budget_left {
            match left.checked_sub(bytes) {
                Some(rest) => *left = rest,
                None => return ControlFlow::Break(Stop::Budget),
            }
        }
        if let Some(rate) = &mut self.rate {
            let now = Nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
            let wait = Duration::from_nanos(rate.wait(now, bytes).0);
            let waiting = Instant::now();
            while let Some(rest) = wait.checked_sub(waiting.elapsed()).filter(|rest| !rest.is_zero()) {
                if self.cancel.is_cancelled() {
                    return ControlFlow::Break(Stop::Cancelled);
                }
                Suspension::take_effect();
                thread::sleep(rest.min(NAP));
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is asked for and when, no stretch of time gets more than its share and one slice.
        #[test]
        fn the_rate_is_kept(
            bytes_per_s in 1_u64..1 << 32,
            asks in proptest::collection::vec((0_u64..2_000_000_000, 1_u64..1 << 24), 1..60),
        ) {
            let mut rate = Rate::new(bytes_per_s);
            let mut now = 0;
            let mut granted: Vec<(u64, u64)> = Vec::new();
            for (pause, bytes) in asks {
                now += pause;
                now += rate.wait(Nanos(now), bytes).0;
                granted.push((now, bytes));
            }
            for first in 0..granted.len() {
                let mut sum = 0_u128;
                for &(at, bytes) in &granted[first..] {
                    let seconds = u128::from(at - granted[first].0);
                    // What was granted before this one is paid for by now; a nanosecond each is lost to rounding.
                    prop_assert!(sum * 1_000_000_000 <= (seconds + 60) * u128::from(bytes_per_s));
                    sum += u128::from(bytes);
                }
            }
        }
    }

    #[test]
    fn a_budget_is_not_exceeded() {
        let limits = Limits { budget_bytes: Some(10), ..Limits::default() };
        let mut limiter = Limiter::new(&limits, &Cancel::default());
        assert_eq!(limiter.before(6), ControlFlow::Continue(()));
        assert_eq!(limiter.before(5), ControlFlow::Break(Stop::Budget));
        assert_eq!(limiter.before(4), ControlFlow::Continue(()));
        assert_eq!(limiter.before(1), ControlFlow::Break(Stop::Budget));
    }

    #[test]
    fn a_wait_can_be_cancelled() {
        let cancel = Cancel::default();
        let limits = Limits { rate_bytes_per_s: Some(1), ..Limits::default() };
        let mut limiter = Limiter::new(&limits, &cancel);
        assert_eq!(limiter.before(1 << 40), ControlFlow::Continue(()));
        let other = cancel.clone();
        let thread = thread::spawn(move || limiter.before(1));
        other.cancel();
        assert_eq!(thread.join().unwrap(), ControlFlow::Break(Stop::Cancelled));
    }
}
