//! What the screen shows: the last state, and rates between the last two.

use std::collections::VecDeque;

use serve::control::{Status, ZonePage};

/// Rates kept for the curve.
const HISTORY: usize = 240;

/// Requests and bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub read_iops: f64,
    pub write_iops: f64,
    pub read_bytes_per_s: f64,
    pub write_bytes_per_s: f64,
    pub errors_per_s: f64,
    pub moved_bytes_per_s: f64,
}

impl Rates {
    /// The rates between two looks at the same device.
    fn between(earlier: &Status, later: &Status) -> Self {
        let seconds = later.elapsed_ns.saturating_sub(earlier.elapsed_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return Self::default();
        }
        let rate = |of: fn(&Status) -> u64| of(later).saturating_sub(of(earlier)) as f64 / seconds;
        Self {
            read_iops: rate(|status| status.reads),
            write_iops: rate(|status| status.writes),
            read_bytes_per_s: rate(|status| status.read_bytes),
            write_bytes_per_s: rate(|status| status.written_bytes),
            errors_per_s: rate(|status| status.errors),
            moved_bytes_per_s: rate(|status| status.live.garbage_collection.map_or(0, |gc| gc.moved_bytes)),
        }
    }
}

/// Everything on the screen.
pub struct View {
    status: Status,
    pub rates: Rates,
    /// When the looks so far were, by the device's clock in nanoseconds, and the
    /// IOPS since the one before; oldest first.
    pub history: VecDeque<(u64, u64)>,
    pub zones: Option<ZonePage>,
}

impl View {
    /// A first look.
    pub fn new(status: Status) -> Self {
        Self { status, rates: Rates::default(), history: VecDeque::new(), zones: None }
    }

    /// The last look.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Another look.
    pub fn update(&mut self, status: Status) {
        self.rates = Rates::between(&self.status, &status);
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        let iops = (self.rates.read_iops + self.rates.write_iops).round() as u64;
        self.history.push_back((status.elapsed_ns, iops));
        self.status = status;
    }
}

/// A rate with three digits and a prefix: `12.3 k`.
pub fn prefixed(value: f64) -> String {
    with_prefix(value, 1e3, ["k", "M", "G"])
}

/// Bytes with three digits and a binary prefix, as the report writes them: `12.3 KiB`.
pub fn bytes(value: f64) -> String {
    with_prefix(value, 1024.0, ["KiB", "MiB", "GiB"]) + if value < 1024.0 { "B" } else { "" }
}

fn with_prefix(value: f64, step: f64, prefixes: [&str; 3]) -> String {
    let (value, prefix) = match value {
        v if v >= step.powi(3) => (v / step.powi(3), prefixes[2]),
        v if v >= step * step => (v / (step * step), prefixes[1]),
        v if v >= step => (v / step, prefixes[0]),
        v => (v, ""),
    };
    let digits = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::screen::tests::status;

    #[test]
    fn rates_are_by_the_device_clock() {
        let mut view = View::new(status());
        let mut later = status();
        later.elapsed_ns += 500_000_000;
        later.reads += 100;
        later.read_bytes += 409_600;
        later.errors += 1;
        view.update(later.clone());
        let rates = view.rates;
        assert_eq!((rates.read_iops, rates.write_iops, rates.read_bytes_per_s), (200.0, 0.0, 819_200.0));
        assert_eq!(rates.errors_per_s, 2.0);
        // The server started again: nothing is below zero.
        view.update(status());
        assert_eq!(view.rates, Rates::default());
        for _ in 0..1000 {
            view.update(later.clone());
        }
        assert_eq!(view.history.len(), HISTORY);
    }

    #[test]
    fn three_digits() {
        for (value, text) in
            [(0.0, "0.00 "), (12.34, "12.3 "), (999.0, "999 "), (12_345.0, "12.3 k"), (6.5e9, "6.50 G")]
        {
            assert_eq!(prefixed(value), text);
        }
        for (value, text) in [(0.0, "0.00 B"), (1023.0, "1023 B"), (4096.0, "4.00 KiB"), (3e9, "2.79 GiB")] {
            assert_eq!(bytes(value), text);
        }
    }
}
