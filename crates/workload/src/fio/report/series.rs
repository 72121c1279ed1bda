//! Completions over time, in equal intervals.

use units::Nanos;

/// What completed in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Bytes completed.
    pub bytes: u64,
    /// I/Os completed.
    pub ios: u64,
    /// Sum of their latencies in nanoseconds.
    pub lat_sum_ns: u64,
    /// The largest of their latencies in nanoseconds.
    pub lat_max_ns: u64,
}

/// Completions of one direction over time.
///
/// Interval `i` covers the run's clock from `i * interval` to `(i + 1) *
/// interval`, so series of different jobs line up. A series holds at most
/// [`Series::MAX_INTERVALS`]; a run that outgrows them doubles the interval and
/// adds neighbours, which loses resolution but never a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    interval: Nanos,
    first: u64,
    values: Vec<Interval>,
}

impl Series {
    /// Bound on the intervals of a series.
    pub const MAX_INTERVALS: usize = 4096;

    /// An empty series whose interval is `interval`, or a doubling of it.
    pub(crate) fn new(interval: Nanos) -> Self {
        Self { interval: interval.max(Nanos(1)), first: 0, values: Vec::new() }
    }

    /// Length of an interval.
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// Each interval's start on the run's clock and what completed in it.
    pub fn iter(&self) -> impl Iterator<Item = (Nanos, &Interval)> {
        (self.first..).zip(&self.values).map(|(index, value)| (Nanos(index * self.interval.0), value))
    }

    /// Number of intervals from the first to the last completion.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing completed.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Records a completion at `at`.
    #[inline]
    pub(crate) fn record(&mut self, at: Nanos, bytes: u64, lat: Nanos) {
        let value = self.interval_of(at);
        value.bytes += bytes;
        value.ios += 1;
        value.lat_sum_ns = value.lat_sum_ns.saturating_add(lat.0);
        value.lat_max_ns = value.lat_max_ns.max(lat.0);
    }

    /// Records bytes that count for an I/O that has completed before.
    pub(crate) fn record_bytes(&mut self, at: Nanos, bytes: u64) {
        self.interval_of(at).bytes += bytes;
    }

    #[inline]
    fn interval_of(&mut self, at: Nanos) -> &mut Interval {
        let mut index = at.0 / self.interval.0;
        if self.values.is_empty() {
            self.first = index;
        }
        while self.width_with(index) > Self::MAX_INTERVALS as u64 {
            self.coarsen();
            index = at.0 / self.interval.0;
        }
        if index < self.first {
            let missing = (self.first - index) as usize;
            self.values.splice(0..0, std::iter::repeat_n(Interval::default(), missing));
            self.first = index;
        }
        let position = (index - self.first) as usize;
        if position >= self.values.len() {
            self.values.resize(position + 1, Interval::default());
        }
        &mut self.values[position]
    }

    /// How many intervals the series would hold with `index` among them.
    #[inline]
    fn width_with(&self, index: u64) -> u64 {
        (index + 1).max(self.first + self.values.len() as u64) - self.first.min(index)
    }

    fn coarsen(&mut self) {
        let first = self.first / 2;
        let mut values: Vec<Interval> = Vec::with_capacity(self.values.len() / 2 + 1);
        for (index, value) in (self.first..).zip(&self.values) {
            let position = (index / 2 - first) as usize;
            if position == values.len() {
                values.push(*value);
            } else {
                values[position].add(value);
            }
        }
        *self = Self { interval: self.interval * 2, first, values };
    }

    /// Adds another series, at an interval no finer than either's.
    pub(crate) fn merge(&mut self, other: &Self) {
        while self.interval < other.interval {
            self.coarsen();
        }
        for (start, value) in other.iter() {
            self.interval_of(start).add(value);
        }
    }
}

impl Interval {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.ios += other.ios;
        self.lat_sum_ns = self.lat_sum_ns.saturating_add(other.lat_sum_ns);
        self.lat_max_ns = self.lat_max_ns.max(other.lat_max_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outgrown_series_keeps_every_byte() {
        let mut series = Series::new(Nanos::from_millis(1));
        for ms in 0..20_000 {
            series.record(Nanos::from_millis(ms + 7), 512, Nanos(ms));
        }
        assert!(series.len() <= Series::MAX_INTERVALS);
        assert_eq!(series.interval(), Nanos::from_millis(8));
        assert_eq!(series.iter().map(|(_, value)| value.bytes).sum::<u64>(), 20_000 * 512);
        assert_eq!(series.iter().map(|(_, value)| value.lat_max_ns).max(), Some(19_999));
        let full = series.iter().skip(1).take(100);
        assert!(full.into_iter().all(|(_, value)| value.ios == 8));
    }

    #[test]
    fn merge_lines_up() {
        let mut early = Series::new(Nanos::from_millis(1));
        early.record(Nanos::from_millis(3), 1, Nanos(5));
        let mut late = Series::new(Nanos::from_millis(1));
        late.record(Nanos::from_millis(1), 2, Nanos(9));
        late.record(Nanos::from_millis(9_000), 4, Nanos(1));
        early.merge(&late);
        let bytes: Vec<(Nanos, u64)> = early.iter().filter(|(_, v)| v.ios > 0).map(|(at, v)| (at, v.bytes)).collect();
        assert_eq!(early.interval(), Nanos::from_millis(4));
        assert_eq!(bytes, [(Nanos::ZERO, 3), (Nanos::from_millis(9_000), 4)]);
    }
}
