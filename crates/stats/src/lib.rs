//! Histograms of latency, means with confidence intervals, correlation, and
//! Little's law.
//!
//! Everything here is a value without a clock: callers bring the times.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bins;
mod fio_bins;
mod histogram;
mod interval;
mod occupancy;
mod packed_bins;
mod regression;
mod student;

pub use histogram::{Bin, Histogram};
pub use interval::{MeanInterval, mean_interval_95};
pub use occupancy::Occupancy;
pub use packed_bins::{PackedBins, Unpacked};
pub use regression::{correlation, normalised_slope, slope};
pub use student::student_t_95;
