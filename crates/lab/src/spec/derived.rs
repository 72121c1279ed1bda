//! Values made of several points: interference, derived values, heat maps.

use serde::{Deserialize, Serialize};
use toml::Table;

/// How much one stream of commands costs another.
///
/// Each point of the sweep is held against the same point with the
/// interferer absent; `interference.z` and its siblings are then one value for
/// each combination of the swept keys that are not averaged over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// The work that suffers: `write`, `job.NAME` or `job.NAME.write`.
    pub victim: String,
    /// The operations that make it suffer, counted for the cost of each:
    /// `reset`, `job.NAME` and so on.
    pub interferer: String,
    /// Swept keys and the values they have where the interferer is absent.
    pub without: Table,
    /// Swept keys whose values are the load points averaged over.
    #[serde(default)]
    pub over: Vec<String>,
    /// Weight of the victim's rate; that of its p95 latency is the rest.
    #[serde(default = "half")]
    pub alpha: f64,
}

fn half() -> f64 {
    0.5
}

/// A value made of two others, or of one along a swept key, named `derived.NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// What to call it, after `derived.`.
    pub name: String,
    /// How they are put together.
    #[serde(rename = "as")]
    pub form: Form,
    /// The metric at `at`.
    pub value: String,
    /// Its place: swept key = value.
    #[serde(default)]
    pub at: Table,
    /// The metric at `to`; absent: the same as `value`.
    #[serde(default)]
    pub base: Option<String>,
    /// The place of the base.
    #[serde(default)]
    pub to: Table,
    /// Of `correlation` and `slope`: the swept key, whose values are numbers or
    /// sizes, along which the metric is taken.
    #[serde(default)]
    pub over: Option<String>,
}

/// How a derived value is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// value / base
    Ratio,
    /// value - base
    Difference,
    /// (value - base) / base
    Change,
    /// Pearson's correlation coefficient of the values with those of `over`.
    Correlation,
    /// The slope of the least-squares line of the values on those of `over`, each
    /// divided by its largest.
    Slope,
}

impl Form {
    /// The value beside its base; `None` where that is no number.
    pub fn of(self, value: f64, base: f64) -> Option<f64> {
        let result = match self {
            Self::Ratio => value / base,
            Self::Difference => value - base,
            Self::Change => (value - base) / base,
            Self::Correlation | Self::Slope => return None,
        };
        result.is_finite().then_some(result)
    }

    /// The measure of (value of `over`, value) pairs; `None` where it is none.
    pub fn along(self, pairs: &[(f64, f64)]) -> Option<f64> {
        match self {
            Self::Correlation => stats::correlation(pairs),
            Self::Slope => stats::normalised_slope(pairs),
            Self::Ratio | Self::Difference | Self::Change => None,
        }
    }

    /// Whether it is of values along a swept key.
    pub fn is_along(self) -> bool {
        matches!(self, Self::Correlation | Self::Slope)
    }
}

/// A picture of one value over two swept keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatMap {
    /// Heading.
    #[serde(default)]
    pub title: String,
    /// Swept key across.
    pub x: String,
    /// Swept key down.
    pub y: String,
    /// The value: a metric, or one of several points.
    pub value: String,
    /// Swept key with a map of its own for each value, side by side.
    #[serde(default)]
    pub by: Option<String>,
}
