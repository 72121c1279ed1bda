//! What a profile's device must do, and whether it does.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::measure::{Driver, MeasureError, Phase, Sample};
use super::{BuildOptions, Profile, ProfileError};
use crate::config::Initial;

/// A published figure, the measurement that should yield it, and the range that
/// counts as agreement.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// What the figure is, in words.
    pub figure: String,
    /// The commands measured.
    pub measure: Phase,
    /// Commands of the measured phase that are not counted.
    #[serde(default)]
    pub warm_up: u64,
    /// What happens before, not measured.
    #[serde(default)]
    pub preamble: Vec<Phase>,
    /// The device's state before that, where it matters.
    #[serde(default)]
    pub initial: Option<Initial>,
    /// Which number is taken.
    pub statistic: Statistic,
    /// Least value that agrees.
    pub low: f64,
    /// Greatest value that agrees.
    pub high: f64,
    /// Unit of both.
    pub unit: Unit,
    /// Where the figure is published, and why the range is what it is.
    pub source: String,
}

/// Which number a measurement takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Mean of the commands' latencies.
    MeanLatency,
    /// Their median.
    MedianLatency,
    /// Data per time.
    Throughput,
    /// Commands per time.
    Iops,
}

/// Units of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Unit {
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Millions of bytes per second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// Commands per second.
    #[serde(rename = "IOPS")]
    Iops,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::MegabytesPerSecond => "MB/s",
            Self::Iops => "IOPS",
        })
    }
}

/// An expectation with what the model gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What was expected.
    pub expectation: Expectation,
    /// What was measured, in the expectation's unit.
    pub measured: f64,
    /// Whether it lies in the range.
    pub within: bool,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Expectation { figure, low, high, unit, .. } = &self.expectation;
        let verdict = if self.within { "within" } else { "OUTSIDE" };
        write!(f, "{figure}: {:.4} {unit}, {verdict} {low} to {high} {unit}", Significant(self.measured))
    }
}

/// A number shown with four significant digits.
struct Significant(f64);

impl fmt::Display for Significant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = 3 - self.0.abs().max(1e-3).log10().floor() as i32;
        write!(f, "{:.*}", digits.max(0) as usize, self.0)
    }
}

impl Expectation {
    /// Whether statistic, unit and range fit together.
    pub(super) fn check(&self) -> Result<(), String> {
        let fits = match self.statistic {
            Statistic::MeanLatency | Statistic::MedianLatency => {
                matches!(self.unit, Unit::Microseconds | Unit::Milliseconds)
            }
            Statistic::Throughput => self.unit == Unit::MegabytesPerSecond,
            Statistic::Iops => self.unit == Unit::Iops,
        };
        if !fits {
            return Err(format!("`{}`: {} is no unit of this statistic", self.figure, self.unit));
        }
        if self.low > self.high || self.low.is_nan() || self.high.is_nan() {
            return Err(format!("`{}`: no number lies from `low` to `high`; exchange them", self.figure));
        }
        Ok(())
    }

    fn value(&self, sample: &Sample) -> f64 {
        let latency_unit_ns = if self.unit == Unit::Milliseconds { 1e6 } else { 1e3 };
        match self.statistic {
            Statistic::MeanLatency => sample.mean_latency_ns() / latency_unit_ns,
            Statistic::MedianLatency => sample.latency_quantile_ns(0.5) / latency_unit_ns,
            Statistic::Throughput => sample.throughput() / 1e6,
            Statistic::Iops => sample.iops(),
        }
    }
}

/// Measures every expectation of `profile`, each on a device of its own.
pub fn check(profile: &Profile) -> Result<Vec<Checked>, ProfileError> {
    profile.expectations.iter().map(|expectation| measure(profile, expectation)).collect()
}

fn measure(profile: &Profile, expectation: &Expectation) -> Result<Checked, ProfileError> {
    let options = BuildOptions { initial: expectation.initial.clone(), ..BuildOptions::default() };
    let mut device = profile.build(&options)?;
    let mut driver = Driver::new(device.as_mut(), 1);
    let mut run = || -> Result<Sample, MeasureError> {
        for phase in &expectation.preamble {
            driver.run(phase, 0)?;
        }
        driver.run(&expectation.measure, expectation.warm_up)
    };
    let sample = run().map_err(|source| ProfileError::Measure {
        profile: profile.name.clone(),
        figure: expectation.figure.clone(),
        source,
    })?;
    let measured = expectation.value(&sample);
    let within = (expectation.low..=expectation.high).contains(&measured);
    Ok(Checked { expectation: expectation.clone(), measured, within })
}
