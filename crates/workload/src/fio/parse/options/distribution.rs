//! Where random operations go.

use super::Extent;

/// `random_distribution`.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Every block equally likely.
    Uniform,
    /// Zipf with exponent `theta`.
    Zipf {
        /// The exponent; not 1.
        theta: f64,
        /// Where the hottest block is, in 0..=1 of the region; anywhere if `None`.
        center: Option<f64>,
    },
    /// Pareto with power `h`, as fio defines it.
    Pareto {
        /// The power, between 0 and 1.
        h: f64,
        /// Where the hottest block is; anywhere if `None`.
        center: Option<f64>,
    },
    /// Gaussian.
    Normal {
        /// Standard deviation in percent of the region.
        deviation_percent: f64,
        /// Where the mean is, in 0..=1 of the region.
        center: f64,
    },
    /// `zoned` and `zoned_abs`: shares of the accesses to successive zones.
    Zoned(Vec<Zone>),
}

/// One zone of [`Distribution::Zoned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Percent of the accesses.
    pub access_percent: u8,
    /// How much of the region it covers.
    pub extent: Extent,
}
