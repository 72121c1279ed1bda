//! How far the device's clock runs ahead of the wall clock.

use units::Nanos;

use super::{Calibration, MAX_COST};

/// How much one late or early answer moves the estimate: slow enough that the
/// estimate is a median, fast enough to follow a change within a thousand
/// answers.
const STEP: Nanos = Nanos(100);

/// The lead: what calibration found, with the part that the server itself can
/// see, its overshoot, followed as the machine's load changes.
#[derive(Debug)]
pub(crate) struct Lead {
    transport: Nanos,
    overshoot: Nanos,
    fixed: bool,
}

impl Lead {
    pub(crate) fn new(calibration: Calibration) -> Self {
        let Calibration { transport, overshoot } = calibration;
        // Without calibration nothing is compensated.
        Self { transport, overshoot, fixed: calibration == Calibration::default() }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.transport + self.overshoot
    }

    /// Learns from an answer given at `now` that the device completed at
    /// `completed_at`, to a request seen at `seen_at`.
    pub(crate) fn learn(&mut self, seen_at: Nanos, completed_at: Nanos, now: Nanos) {
        let wanted_at = completed_at.since(self.now());
        // An answer wanted before the request was even seen says nothing about
        // waking up.
        if self.fixed || wanted_at <= seen_at {
            return;
        }
        self.overshoot = if now.since(wanted_at) > self.overshoot {
            (self.overshoot + STEP).min(MAX_COST)
        } else {
            self.overshoot.since(STEP)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers come `spread` after the wanted time; the lead ends at the median.
    #[test]
    fn follows_the_median_overshoot() {
        let transport = Nanos::from_micros(30);
        let mut lead = Lead::new(Calibration { transport, overshoot: Nanos::from_micros(5) });
        let spread_us = [10, 12, 14, 15, 16, 40, 900];
        for round in 0..4000_u64 {
            let seen_at = Nanos::from_millis(round);
            let completed_at = seen_at + Nanos::from_micros(300);
            let late = Nanos::from_micros(spread_us[round as usize % spread_us.len()]);
            let now = completed_at.since(lead.now()) + late;
            lead.learn(seen_at, completed_at, now);
        }
        let overshoot = lead.now() - transport;
        assert!((Nanos(14_000)..=Nanos(16_000)).contains(&overshoot), "{overshoot}");
    }

    #[test]
    fn uncalibrated_stays_at_zero() {
        let mut lead = Lead::new(Calibration::default());
        lead.learn(Nanos::ZERO, Nanos::from_micros(80), Nanos::from_micros(120));
        assert_eq!(lead.now(), Nanos::ZERO);
    }
}
