//! What tables and simulations are compared by.

use std::fmt;

use serde::Serialize;
use stats::Histogram;

/// A figure of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Figure {
    /// Operations a second; of the victim where there are two.
    #[serde(rename = "iops")]
    Iops,
    /// Millions of bytes a second.
    #[serde(rename = "mb_per_s")]
    Bandwidth,
    /// Mean latency.
    #[serde(rename = "mean_us")]
    Mean,
    /// Median latency.
    #[serde(rename = "p50_us")]
    P50,
    /// 95th percentile.
    #[serde(rename = "p95_us")]
    P95,
    /// 99th percentile.
    #[serde(rename = "p99_us")]
    P99,
    /// 99.9th percentile.
    #[serde(rename = "p99.9_us")]
    P999,
    /// Operations of the interferer a second, while it ran.
    #[serde(rename = "interferer_per_s")]
    InterfererPerS,
    /// Mean latency of the interferer's operations.
    #[serde(rename = "interferer_mean_us")]
    InterfererMean,
    /// 95th percentile of the interferer's.
    #[serde(rename = "interferer_p95_us")]
    InterfererP95,
}

impl Figure {
    /// Its name with its unit, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::Bandwidth => "mb_per_s",
            Self::Mean => "mean_us",
            Self::P50 => "p50_us",
            Self::P95 => "p95_us",
            Self::P99 => "p99_us",
            Self::P999 => "p99.9_us",
            Self::InterfererPerS => "interferer_per_s",
            Self::InterfererMean => "interferer_mean_us",
            Self::InterfererP95 => "interferer_p95_us",
        }
    }

    /// Percentiles of latency, in percent.
    pub const PERCENTILES: [(Self, f64); 4] =
        [(Self::P50, 50.0), (Self::P95, 95.0), (Self::P99, 99.0), (Self::P999, 99.9)];
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Figures with their values, each at most once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(Vec<(Figure, f64)>);

impl Figures {
    /// Adds a figure where there is a value.
    pub fn put(&mut self, figure: Figure, value: Option<f64>) {
        debug_assert!(self.get(figure).is_none(), "{figure} is given twice");
        self.0.extend(value.map(|value| (figure, value)));
    }

    /// A figure's value.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.0.iter().find(|(known, _)| *known == figure).map(|(_, value)| *value)
    }

    /// All of them, in the order they were put.
    pub fn iter(&self) -> impl Iterator<Item = (Figure, f64)> {
        self.0.iter().copied()
    }

    /// Mean and percentiles of single latencies in microseconds, percentiles
    /// interpolated linearly between ranks, as in the published summaries.
    pub fn of_samples(samples_us: &[f64]) -> Self {
        let mut sorted = samples_us.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut figures = Self::default();
        if sorted.is_empty() {
            return figures;
        }
        figures.put(Figure::Mean, Some(sorted.iter().sum::<f64>() / sorted.len() as f64));
        for (figure, percent) in Figure::PERCENTILES {
            // A percentile that needs more samples than there are says nothing.
            if sorted.len() as f64 * (1.0 - percent / 100.0) >= 0.5 {
                figures.put(figure, Some(interpolated(&sorted, percent)));
            }
        }
        figures
    }

    /// Mean and percentiles of a histogram.
    pub fn put_latency(&mut self, latency: &Histogram) {
        if latency.is_empty() {
            return;
        }
        self.put(Figure::Mean, Some(latency.mean_ns() / 1e3));
        for (figure, percent) in Figure::PERCENTILES {
            self.put(figure, Some(latency.percentile(percent).0 as f64 / 1e3));
        }
    }
}

/// A percentile of ascending values, between the two nearest ranks.
fn interpolated(sorted: &[f64], percent: f64) -> f64 {
    let place = (sorted.len() - 1) as f64 * percent / 100.0;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_ranks() {
        let samples: Vec<f64> = (1..=21).rev().map(f64::from).collect();
        let figures = Figures::of_samples(&samples);
        assert_eq!(figures.get(Figure::Mean), Some(11.0));
        assert_eq!(figures.get(Figure::P50), Some(11.0));
        assert_eq!(figures.get(Figure::P95), Some(20.0));
        assert_eq!(figures.get(Figure::P99), None, "21 samples have no 99th percentile");
        assert_eq!(Figures::of_samples(&[]), Figures::default());
    }
}
