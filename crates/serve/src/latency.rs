//! How close to the model's latencies the answers came.

use std::fmt;

use serde::{Deserialize, Serialize};
use stats::Histogram;
use units::Nanos;

/// Modelled and served latencies of the requests answered so far.
pub struct Latencies {
    modelled: Histogram,
    late: Histogram,
    early: Histogram,
    in_server: Histogram,
    transport: Nanos,
    /// Since when `window` collects.
    window_began: Nanos,
    window: Histogram,
    last: RecentLatency,
}

/// How long a window of recent latencies is.
const WINDOW: Nanos = Nanos::from_secs(1);

/// Served latencies (as a client sees them) of the last whole window of time. All
/// in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RecentLatency {
    /// Requests answered in it.
    pub requests: u64,
    /// Their latencies.
    pub served_ns: Percentiles,
}

/// Median and tail of a distribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: i64,
    /// 99th percentile.
    pub p99: i64,
    /// 99.9th percentile.
    pub p999: i64,
}

impl Percentiles {
    fn of(histogram: &Histogram) -> Self {
        let at = |percent| histogram.percentile(percent).0 as i64;
        Self { p50: at(50.0), p99: at(99.0), p999: at(99.9) }
    }
}

/// What [`Latencies`] amounts to. All in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
        Self {
            modelled: Histogram::new(),
            late: Histogram::new(),
            early: Histogram::new(),
            in_server: Histogram::new(),
            transport,
            window_began: Nanos::ZERO,
            window: Histogram::new(),
            last: RecentLatency::default(),
        }
    }

    /// Counts a request, answered at `now`, that the model says takes `modelled` and
    /// that the server had for `in_server`.
    pub fn record(&mut self, now: Nanos, modelled: Nanos, in_server: Nanos) {
        let served = in_server + self.transport;
        self.turn_window(now);
        self.window.record(served);
        self.in_server.record(in_server);
        self.modelled.record(modelled);
        if served >= modelled {
            self.late.record(served.since(modelled));
        } else {
            self.early.record(modelled.since(served));
        }
    }

    /// Median of the time requests were in the server.
    pub fn in_server_median(&self) -> Nanos {
        self.in_server.percentile(50.0)
    }

    /// The latencies of the last whole second before `now`.
    pub fn recent(&mut self, now: Nanos) -> RecentLatency {
        self.turn_window(now);
        self.last
    }

    fn turn_window(&mut self, now: Nanos) {
        let passed = now.since(self.window_began);
        if passed < WINDOW {
            return;
        }
        // Nothing was recorded after the window: it would have been turned then.
        let full = passed < WINDOW * 2;
        let window = std::mem::take(&mut self.window);
        self.last = RecentLatency::default();
        if full && !window.is_empty() {
            self.last = RecentLatency { requests: window.count(), served_ns: Percentiles::of(&window) };
        }
        self.window_began = now;
    }

    /// The figures so far.
    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            requests: self.modelled.count(),
            modelled_ns: Percentiles::of(&self.modelled),
            error_ns: Percentiles { p50: self.error_at(50.0), p99: self.error_at(99.0), p999: self.error_at(99.9) },
        }
    }

    /// A percentile of the signed error: the early answers, earliest first, come
    /// before the late ones.
    fn error_at(&self, percent: f64) -> i64 {
        let (early, late) = (self.early.count() as f64, self.late.count() as f64);
        let rank = (percent / 100.0 * (early + late)).ceil().max(1.0);
        if rank <= early {
            -(self.early.percentile((early - rank + 1.0) / early * 100.0).0 as i64)
        } else if late > 0.0 {
            self.late.percentile((rank - early) / late * 100.0).0 as i64
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
            latencies.record(Nanos::ZERO, Nanos(modelled), Nanos(in_server));
        }
        let summary = latencies.summary();
        assert_eq!(summary.requests, 5);
        // Errors are -30, -10, 0, +20, +100.
        assert_eq!(summary.error_ns.p50, 0);
        assert_eq!(summary.error_ns.p999, 100);
        assert_eq!(latencies.error_at(20.0), -30);
        assert_eq!(latencies.error_at(40.0), -10);
    }

    #[test]
    fn recent_is_the_last_whole_second() {
        let mut latencies = Latencies::new(Nanos::ZERO);
        let ms = Nanos::from_millis;
        latencies.record(ms(100), Nanos(50), Nanos(70));
        assert_eq!(latencies.recent(ms(900)).requests, 0, "not over yet");
        latencies.record(ms(1100), Nanos(50), Nanos(90));
        let recent = latencies.recent(ms(1200));
        assert_eq!((recent.requests, recent.served_ns.p50), (1, 70));
        assert_eq!(latencies.recent(ms(2150)).served_ns.p50, 90);
        assert_eq!(latencies.recent(ms(9000)).requests, 0, "nothing came for seconds");
        assert_eq!(latencies.summary().requests, 2);
    }

    #[test]
    fn nothing_counted() {
        assert_eq!(Latencies::new(Nanos::ZERO).summary(), LatencySummary::default());
    }
}
