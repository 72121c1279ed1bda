//! Values with their units, as runs yield them and pages show them.

use serde::{Deserialize, Serialize};

/// A value measured over the repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean over the repeats.
    pub value: f64,
    /// Half of the 95 % confidence interval; `None` for a single run.
    pub half_width: Option<f64>,
}

impl From<f64> for Estimate {
    fn from(value: f64) -> Self {
        Self { value, half_width: None }
    }
}

/// What a number counts, and in which base unit it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nothing in particular; shown without a unit.
    #[default]
    Plain,
    /// Nanoseconds.
    Time,
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Bytes.
    Bytes,
    /// A part of one; shown in per cent.
    Fraction,
    /// A ratio; shown with a multiplication sign.
    Factor,
    /// Any other unit, shown after the number as it is.
    Named(String),
}

/// A published or expected value beside ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The metric as a reader would say it.
    pub metric: String,
    /// The point it belongs to: parameters as text; empty for the only point.
    pub at: String,
    /// What the numbers count.
    pub unit: Unit,
    /// The published value, or the lower end of its range.
    pub published: f64,
    /// The upper end of a published range.
    pub published_to: Option<f64>,
    /// Ours; `None` when the run did not yield it.
    pub ours: Option<Estimate>,
    /// The largest difference that was asked for, as a fraction of the published value.
    pub within: Option<f64>,
    /// Where it was published.
    pub source: String,
    /// Why ours differs, where the cause is known.
    pub note: String,
}

impl Comparison {
    /// How far ours is outside the published value or range, as a fraction of
    /// its nearer end; zero inside the range, negative below it.
    pub fn difference(&self) -> Option<f64> {
        let ours = self.ours?.value;
        let to = self.published_to.unwrap_or(self.published);
        let (low, high) = (self.published.min(to), self.published.max(to));
        // Not `clamp`, which panics when the published value is no number.
        let nearer = ours.max(low).min(high);
        let difference = if ours == nearer { 0.0 } else { (ours - nearer) / nearer.abs() };
        difference.is_finite().then_some(difference)
    }

    /// Whether ours is as close as was asked; `None` when nothing was asked.
    pub fn holds(&self) -> Option<bool> {
        let within = self.within?;
        Some(self.difference().is_some_and(|difference| difference.abs() <= within))
    }
}

/// Mean and 95 % confidence interval of the repeats' values; `None` without any.
pub(crate) fn over_repeats(values: impl Iterator<Item = f64>) -> Option<Estimate> {
    let interval = stats::mean_interval_95(&values.collect::<Vec<_>>());
    (interval.count > 0).then_some(Estimate { value: interval.mean, half_width: interval.half_width })
}
