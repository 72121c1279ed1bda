//! How close to the model's latencies the answers came.

use std::fmt;

use hdrhistogram::Histogram;
use units::Nanos;

/// Longest latency told apart from longer ones: one minute.
const MAX_LATENCY_NS: u64 = 60_000_000_000;

/// Three significant digits, as fio's own clat percentiles.
fn histogram() -> Histogram<u64> {
    match Histogram::new_with_max(MAX_LATENCY_NS, 3) {
        Ok(histogram) => histogram,
        // The bounds are constants that the crate accepts; see the unit test.
        Err(_) => unreachable!("valid histogram bounds"),
    }
}

/// Modelled and served latencies of the requests answered so far.
pub struct Latencies {
    modelled: Histogram<u64>,
    late: Histogram<u64>,
    early: Histogram<u64>,
    in_server: Histogram<u64>,
    transport: Nanos,
}

/// Median and tail of a distribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Percentiles {
    /// Median.
    pub p50: i64,
    /// 99th percentile.
    pub p99: i64,
    /// 99.9th percentile.
    pub p999: i64,
}

/// What [`Latencies`] amounts to. All in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LatencySummary {
    /// Requests counted.
    pub requests: u64,
    /// What the model says they take.
    pub modelled_ns: Percentiles,
    /// Served minus modelled, as a client sees it: the time in the server plus
    /// the calibrated cost of the way to it and back.
    pub error_ns: Percentiles,
}

impl Latencies {
    /// No requests yet; `transport` is what a request and its reply spend on
    /// the way between client and server, as calibrated.
    pub fn new(transport: Nanos) -> Self {
        Self { modelled: histogram(), late: histogram(), early: histogram(), in_server: histogram(), transport }
    }

    /// Counts a request that the model says takes `modelled` and that the server
    /// had for `in_server`.
    pub fn record(&mut self, modelled: Nanos, in_server: Nanos) {
        let served = in_server + self.transport;
        self.in_server.saturating_record(in_server.0);
        self.modelled.saturating_record(modelled.0);
        if served >= modelled {
            self.late.saturating_record(served.since(modelled).0);
        } else {
            self.early.saturating_record(modelled.since(served).0);
        }
    }

    /// Median of the time requests were in the server.
    pub fn in_server_median(&self) -> Nanos {
        Nanos(self.in_server.value_at_quantile(0.5))
    }

    /// The figures so far.
    pub fn summary(&self) -> LatencySummary {
        let modelled = |q| self.modelled.value_at_quantile(q) as i64;
        let percentiles = |at: &dyn Fn(f64) -> i64| Percentiles { p50: at(0.5), p99: at(0.99), p999: at(0.999) };
        LatencySummary {
            requests: self.modelled.len(),
            modelled_ns: percentiles(&modelled),
            error_ns: percentiles(&|q| self.error_at(q)),
        }
    }

    /// The quantile of the signed error: the early ones, largest first, come
    /// before the late ones.
    fn error_at(&self, quantile: f64) -> i64 {
        let (early, late) = (self.early.len() as f64, self.late.len() as f64);
        let rank = (quantile * (early + late)).ceil().max(1.0);
        if rank <= early {
            -(self.early.value_at_quantile((early - rank + 1.0) / early) as i64)
        } else if late > 0.0 {
            self.late.value_at_quantile((rank - early) / late) as i64
        } else {
            0
        }
    }
}

impl fmt::Display for LatencySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: i64| ns as f64 / 1e3;
        let Percentiles { p50, p99, p999 } = self.modelled_ns;
        writeln!(f, "{} requests", self.requests)?;
        writeln!(f, "  modelled latency    p50 {:9.1} us  p99 {:9.1} us  p99.9 {:9.1} us", us(p50), us(p99), us(p999))?;
        let Percentiles { p50, p99, p999 } = self.error_ns;
        write!(f, "  served - modelled   p50 {:+9.1} us  p99 {:+9.1} us  p99.9 {:+9.1} us", us(p50), us(p99), us(p999))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_signed() {
        let mut latencies = Latencies::new(Nanos(10));
        for (modelled, in_server) in [(100, 60), (100, 80), (100, 90), (100, 110), (100, 190)] {
            latencies.record(Nanos(modelled), Nanos(in_server));
        }
        let summary = latencies.summary();
        assert_eq!(summary.requests, 5);
        // Errors are -30, -10, 0, +20, +100.
        assert_eq!(summary.error_ns.p50, 0);
        assert_eq!(summary.error_ns.p999, 100);
        assert_eq!(latencies.error_at(0.2), -30);
        assert_eq!(latencies.error_at(0.4), -10);
    }

    #[test]
    fn nothing_counted() {
        assert_eq!(Latencies::new(Nanos::ZERO).summary(), LatencySummary::default());
    }
}
