//! How many requests are in a system, averaged over time, and Little's law.

use units::Nanos;

/// Number of requests in flight, with its integral over time.
///
/// Little's law says that over a span that begins and ends empty the mean number
/// in flight equals throughput times mean latency, whatever the distributions.
/// Both sides come from different measurements (this integral; counts and
/// latencies), so [`Occupancy::littles_law_error`] finds requests that were lost,
/// counted twice or timed wrongly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    in_flight: u64,
    max: u64,
    since: Nanos,
    integral_ns: u128,
}

impl Occupancy {
    /// One more in flight from `now` on; times must not decrease.
    #[inline]
    pub fn enter(&mut self, now: Nanos) {
        self.elapse(now);
        self.in_flight += 1;
        self.max = self.max.max(self.in_flight);
    }

    /// One less in flight from `now` on.
    #[inline]
    pub fn leave(&mut self, now: Nanos) {
        self.elapse(now);
        debug_assert!(self.in_flight > 0, "more left than entered");
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn elapse(&mut self, now: Nanos) {
        self.integral_ns += u128::from(self.in_flight) * u128::from((now - self.since).0);
        self.since = now;
    }

    /// How many are in flight now.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The most that ever were in flight at once.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean number in flight over `span`, which ends at the last change; 0 for no time.
    pub fn mean(&self, span: Nanos) -> f64 {
        if span == Nanos::ZERO { 0.0 } else { self.integral_ns as f64 / span.0 as f64 }
    }

    /// How far Little's law is from holding when the requests' latencies sum to
    /// `latency_sum_ns`: a fraction of that sum, 0 when it holds exactly.
    pub fn littles_law_error(&self, latency_sum_ns: u128) -> f64 {
        if self.integral_ns == latency_sum_ns {
            return 0.0;
        }
        let difference = self.integral_ns.abs_diff(latency_sum_ns) as f64;
        difference / latency_sum_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_overlapping_requests() {
        let mut occupancy = Occupancy::default();
        occupancy.enter(Nanos(10));
        occupancy.enter(Nanos(20));
        occupancy.leave(Nanos(30));
        occupancy.leave(Nanos(50));
        assert_eq!((occupancy.in_flight(), occupancy.max()), (0, 2));
        // 20 + 30 (or 40 + 10) whichever of the two left first.
        assert_eq!(occupancy.mean(Nanos(100)), 0.5);
        assert_eq!(occupancy.littles_law_error(50), 0.0);
        assert!((occupancy.littles_law_error(40) - 0.25).abs() < 1e-12);
    }
}
