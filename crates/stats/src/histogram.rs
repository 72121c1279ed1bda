//! Distribution of a time in nanoseconds.

use std::fmt;

use units::Nanos;

use crate::bins::Bins;
use crate::fio_bins;

/// A distribution of times with three significant digits.
///
/// Count, minimum, maximum, mean and standard deviation are exact, from running
/// sums; percentiles and bins are those of a high dynamic range histogram and
/// at most 0.1 % above the true value. Times above [`Histogram::LIMIT`] count in
/// the last bin and in [`Histogram::saturated`]. An empty histogram takes no
/// memory of its own; it grows with the number of different times, to at most
/// 270 KiB.
#[derive(Clone)]
pub struct Histogram {
    bins: Bins,
    count: u64,
    saturated: u64,
    min: u64,
    max: u64,
    sum: u128,
    sum_of_squares: u128,
}

/// Times that the histogram does not tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bin {
    /// Shortest of them.
    pub low: Nanos,
    /// Longest of them.
    pub high: Nanos,
    /// How often they were recorded.
    pub count: u64,
}

impl Histogram {
    /// Longest time with a bin of its own: one hour.
    pub const LIMIT: Nanos = Nanos::from_secs(3600);

    /// An empty histogram.
    pub fn new() -> Self {
        Self { bins: Bins::default(), count: 0, saturated: 0, min: u64::MAX, max: 0, sum: 0, sum_of_squares: 0 }
    }

    /// Records one time.
    #[inline]
    pub fn record(&mut self, time: Nanos) {
        let value = u128::from(time.0);
        self.add(time, 1, value, value * value);
    }

    /// Records the same time `times` times.
    pub fn record_n(&mut self, time: Nanos, times: u64) {
        if times == 0 {
            return;
        }
        let value = u128::from(time.0);
        self.add(time, times, value * u128::from(times), (value * value).saturating_mul(u128::from(times)));
    }

    #[inline]
    fn add(&mut self, time: Nanos, times: u64, sum: u128, sum_of_squares: u128) {
        self.bins.add(time.0.min(Self::LIMIT.0), times);
        self.count += times;
        self.saturated += if time > Self::LIMIT { times } else { 0 };
        self.min = self.min.min(time.0);
        self.max = self.max.max(time.0);
        self.sum += sum;
        // Overflows only past 2^16 times of 2 years each.
        self.sum_of_squares = self.sum_of_squares.saturating_add(sum_of_squares);
    }

    /// Adds what another histogram has recorded.
    pub fn merge(&mut self, other: &Self) {
        self.bins.merge(&other.bins);
        self.count += other.count;
        self.saturated += other.saturated;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
    }

    /// Number of times recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many of them were longer than [`Histogram::LIMIT`].
    pub fn saturated(&self) -> u64 {
        self.saturated
    }

    /// The shortest time; zero when empty.
    pub fn min(&self) -> Nanos {
        if self.is_empty() { Nanos::ZERO } else { Nanos(self.min) }
    }

    /// The longest time; zero when empty.
    pub fn max(&self) -> Nanos {
        Nanos(self.max)
    }

    /// Sum of the times in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// Mean in nanoseconds; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let count = u128::from(self.count);
        // Whole part and rest apart, so that long runs lose no digits.
        (self.sum / count) as f64 + (self.sum % count) as f64 / self.count as f64
    }

    /// Sample standard deviation (divisor n - 1, as fio's) in nanoseconds; 0 for fewer than two times.
    pub fn stddev_ns(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        // Sum of squared deviations = S2 - S^2/n. With S = qn + r this is
        // (S2 - q^2 n - 2qr) - r^2/n, whose first part is a whole number: no
        // digits are cancelled, however small the deviation beside the mean.
        let count = u128::from(self.count);
        let (whole, rest) = (self.sum / count, self.sum % count);
        let removed = (whole * whole).saturating_mul(count).saturating_add(2 * whole * rest);
        let deviations = self.sum_of_squares.saturating_sub(removed) as f64 - (rest as f64).powi(2) / self.count as f64;
        (deviations.max(0.0) / (self.count - 1) as f64).sqrt()
    }

    /// The time that `percent` of those recorded do not exceed (nearest rank):
    /// the upper end of its bin, and never above the maximum. Zero when empty.
    pub fn percentile(&self, percent: f64) -> Nanos {
        let rank = ((self.count as f64 * percent / 100.0).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for bin in self.bins() {
            seen += bin.count;
            if seen >= rank {
                return bin.high.min(self.max());
            }
        }
        self.max()
    }

    /// Bins in use, ascending.
    pub fn bins(&self) -> impl Iterator<Item = Bin> {
        self.bins.iter().map(|(low, high, count)| Bin { low: Nanos(low), high: Nanos(high), count })
    }

    /// The same distribution in fio's bins, ascending and without empty ones:
    /// the value by which fio's `json+` names a bin, and its count.
    pub fn fio_bins(&self) -> Vec<(u64, u64)> {
        let mut bins: Vec<(u64, u64)> = Vec::new();
        for bin in self.bins() {
            let index = fio_bins::index_of(bin.low.0);
            debug_assert_eq!(index, fio_bins::index_of(bin.high.0), "fio's bins are unions of ours");
            let name = fio_bins::value_of(index);
            match bins.last_mut() {
                Some((last, count)) if *last == name => *count += bin.count,
                _ => bins.push((name, bin.count)),
            }
        }
        bins
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Same count, extremes, sums and bins.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let exact = |h: &Self| (h.count, h.saturated, h.min, h.max, h.sum, h.sum_of_squares);
        exact(self) == exact(other) && self.bins().eq(other.bins())
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("min", &self.min())
            .field("mean_ns", &self.mean_ns())
            .field("p50", &self.percentile(50.0))
            .field("p99", &self.percentile(99.0))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_is_all_zero() {
        let empty = Histogram::new();
        assert!(empty.is_empty());
        assert_eq!((empty.min(), empty.max(), empty.percentile(99.0)), (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO));
        assert_eq!((empty.mean_ns(), empty.stddev_ns()), (0.0, 0.0));
        assert_eq!(empty.bins().count(), 0);
    }

    #[test]
    fn over_the_limit_saturates_loudly() {
        let mut histogram = Histogram::new();
        histogram.record(Histogram::LIMIT);
        assert_eq!(histogram.saturated(), 0);
        histogram.record(Nanos::MAX);
        histogram.record(Histogram::LIMIT + Nanos(1));
        assert_eq!((histogram.count(), histogram.saturated(), histogram.max()), (3, 2, Nanos::MAX));
        assert_eq!(histogram.bins().count(), 1, "all three are in the last bin");
        // The top bin cannot say where in it the value lies.
        let p50 = histogram.percentile(50.0);
        assert!(p50 >= Histogram::LIMIT && p50.0 - Histogram::LIMIT.0 <= Histogram::LIMIT.0 / 1000);
    }

    #[test]
    fn deviation_survives_a_large_mean() {
        // 1, 2, 3, 4 seconds' worth of nanoseconds plus an offset of 10 minutes:
        // naive sums in f64 lose the digits that matter.
        let mut histogram = Histogram::new();
        let offset = 600_000_000_000;
        for value in [1, 2, 3, 4] {
            for _ in 0..250_000 {
                histogram.record(Nanos(offset + value));
            }
        }
        let want = (1.25_f64 * 1e6 / (1e6 - 1.0)).sqrt();
        assert!((histogram.stddev_ns() - want).abs() < 1e-12, "{}", histogram.stddev_ns());
        assert_eq!(histogram.mean_ns(), offset as f64 + 2.5);
    }
}
