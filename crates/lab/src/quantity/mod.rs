//! Values by name, over the points of a sweep: metrics of a run, and what is
//! made of several points.

mod effect;
mod plan;

use std::fmt;
use std::sync::Arc;

use units::ByteSize;

use crate::interference::{Point as LoadPoint, Victim};
use crate::metric::{Metric, MetricError};
use crate::results::{DirectionResult, RunResult, repeats_of};
use crate::spec::{Derived, Form, Interference, Point, Spec, short_key, value_text};
use crate::value::{Estimate, Unit, over_repeats};

pub use effect::Effect;
pub use plan::{MetricPlan, Streams};

/// A value that a spec can name.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// Of single runs.
    Metric(Metric),
    /// Of points held against those without the interferer.
    Interference(Effect),
    /// Of several places.
    Derived(Box<Pair>),
}

/// A derived value with its parts found.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    row: Derived,
    value: Quantity,
    base: Quantity,
}

/// Swept keys and their values as text.
type Parameters = Vec<(String, String)>;

/// A quantity at one combination of swept values.
#[derive(Clone, Debug, PartialEq)]
pub struct PointValue {
    /// Swept keys and their values as text, those averaged over left out.
    pub parameters: Parameters,
    /// Its value there; `None` where no run yields it.
    pub estimate: Option<Estimate>,
}

impl PointValue {
    /// How tables call it: `design=lazy rate=30`; empty for the only place.
    pub fn label(&self) -> String {
        let parts: Vec<_> = self.parameters.iter().map(|(key, value)| format!("{}={value}", short_key(key))).collect();
        parts.join(" ")
    }

    /// The value of a swept key here; empty where the key is averaged over.
    pub fn parameter(&self, key: &str) -> &str {
        self.parameters.iter().find(|(swept, _)| swept == key).map_or("", |(_, value)| value)
    }

    /// Whether it lies where `at` says.
    pub fn is_at(&self, at: &toml::Table) -> bool {
        at.iter().all(|(key, value)| self.parameter(key) == value_text(value))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metric(metric) => metric.fmt(f),
            Self::Interference(effect) => f.pad(&format!("interference.{}", effect.name())),
            Self::Derived(pair) => f.pad(&format!("derived.{}", pair.row.name)),
        }
    }
}

impl Quantity {
    /// The quantity that `name` means in `spec`.
    pub fn parse(name: &str, spec: &Spec) -> Result<Self, MetricError> {
        Self::parse_above(name, spec, spec.derived.len())
    }

    /// A derived value may be made of those above it, and so of no circle.
    fn parse_above(name: &str, spec: &Spec, above: usize) -> Result<Self, MetricError> {
        if let Some(effect) = name.strip_prefix("interference.") {
            let known = Effect::ALL.into_iter().find(|known| known.name() == effect);
            let known = known.filter(|_| spec.interference.is_some());
            return known.map(Self::Interference).ok_or_else(|| MetricError::new(name));
        }
        let Some(derived) = name.strip_prefix("derived.") else { return Ok(Self::Metric(name.parse()?)) };
        let found = spec.derived[..above].iter().enumerate().find(|(_, row)| row.name == derived);
        let (index, row) = found.ok_or_else(|| MetricError::new(name))?;
        let value = Self::parse_above(&row.value, spec, index)?;
        let base = row.base.as_ref().map_or_else(|| Ok(value.clone()), |base| Self::parse_above(base, spec, index))?;
        Ok(Self::Derived(Box::new(Pair { row: row.clone(), value, base })))
    }

    /// What it counts, and how many of that unit's base units one is.
    pub fn unit(&self) -> (Unit, f64) {
        match self {
            Self::Metric(metric) => metric.unit(),
            Self::Interference(Effect::PerOperation | Effect::Stall | Effect::StallAlone) => (Unit::Time, 1e6),
            Self::Interference(Effect::Operations) => (Unit::Iops, 1.0),
            Self::Interference(_) => (Unit::Plain, 1.0),
            Self::Derived(pair) => match pair.row.form {
                Form::Ratio => (Unit::Factor, 1.0),
                Form::Difference => pair.value.unit(),
                Form::Change => (Unit::Fraction, 1.0),
                Form::Correlation | Form::Slope => (Unit::Plain, 1.0),
            },
        }
    }

    /// As a reader would say it.
    pub fn label(&self) -> String {
        match self {
            Self::Metric(metric) => metric.label(),
            Self::Interference(effect) => effect.label().to_owned(),
            Self::Derived(pair) => crate::metric::sentence(&pair.row.name),
        }
    }
}

/// What the points of a sweep yield.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    spec: &'a Spec,
    streams: Option<&'a Streams>,
    points: &'a [Arc<Point>],
    runs: &'a [RunResult],
}

impl<'a> Values<'a> {
    /// Of `points` of `spec` and their `runs`, both in the sweep's order.
    pub(crate) fn new(
        spec: &'a Spec,
        streams: Option<&'a Streams>,
        points: &'a [Arc<Point>],
        runs: &'a [RunResult],
    ) -> Self {
        Self { spec, streams, points, runs }
    }

    /// The runs.
    pub(crate) fn runs(&self) -> &'a [RunResult] {
        self.runs
    }

    /// The values of a swept key as text, each once, in the sweep's order.
    pub(crate) fn names(&self, key: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for value in self.points.iter().flat_map(|point| &point.parameters).filter(|(swept, _)| swept == key) {
            let name = value_text(&value.1);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The quantity everywhere, in the sweep's order.
    pub fn of(&self, quantity: &Quantity) -> Vec<PointValue> {
        match (quantity, &self.spec.interference) {
            (Quantity::Metric(metric), _) => self.points.iter().map(|point| self.metric(metric, point)).collect(),
            (Quantity::Interference(effect), Some(section)) => self.interference(*effect, section),
            (Quantity::Interference(_), None) => Vec::new(),
            (Quantity::Derived(pair), _) => vec![PointValue { parameters: Vec::new(), estimate: self.pair(pair) }],
        }
    }

    /// The quantity at the places that `at` names.
    pub fn at(&self, quantity: &Quantity, at: &toml::Table) -> Vec<PointValue> {
        if let Quantity::Metric(metric) = quantity {
            let here = |point: &&Arc<Point>| {
                let is_at = |(key, value): (&String, &toml::Value)| {
                    let swept = point.parameters.iter().find(|(swept, _)| swept == key);
                    swept.is_some_and(|(_, swept)| value_text(swept) == value_text(value))
                };
                at.iter().all(is_at)
            };
            return self.points.iter().filter(here).map(|point| self.metric(metric, point)).collect();
        }
        self.of(quantity).into_iter().filter(|place| place.is_at(at)).collect()
    }

    fn metric(&self, metric: &Metric, point: &Point) -> PointValue {
        let values = repeats_of(self.runs, point.index).iter().filter_map(|run| metric.value(run));
        PointValue { parameters: texts(point), estimate: over_repeats(values) }
    }

    fn pair(&self, pair: &Pair) -> Option<Estimate> {
        if let Some(key) = &pair.row.over {
            // A measure of some of the places would be another measure.
            let pairs: Option<Vec<_>> = self
                .at(&pair.value, &pair.row.at)
                .iter()
                .map(|place| Some((number(place.parameter(key))?, place.estimate?.value)))
                .collect();
            return Some(pair.row.form.along(&pairs?)?.into());
        }
        let only = |quantity, at| match self.at(quantity, at).as_slice() {
            [place] => place.estimate,
            _ => None,
        };
        let (value, base) = (only(&pair.value, &pair.row.at)?, only(&pair.base, &pair.row.to)?);
        Some(pair.row.form.of(value.value, base.value)?.into())
    }

    fn interference(&self, effect: Effect, section: &Interference) -> Vec<PointValue> {
        let is_without = |point: &Point| {
            point.parameters.iter().all(|(key, value)| {
                section.without.get(key).is_none_or(|without| value_text(without) == value_text(value))
            })
        };
        let mut groups: Vec<(Parameters, Vec<&Point>)> = Vec::new();
        for point in self.points.iter().filter(|point| !is_without(point)) {
            let mut place = texts(point);
            place.retain(|(key, _)| !section.over.contains(key));
            match groups.iter_mut().find(|(known, _)| *known == place) {
                Some((_, members)) => members.push(point),
                None => groups.push((place, vec![point])),
            }
        }
        groups
            .into_iter()
            .map(|(parameters, loads)| {
                let repeats = 0..self.spec.run.repeats;
                let values = repeats.filter_map(|repeat| self.effect(effect, section, &loads, repeat));
                PointValue { parameters, estimate: over_repeats(values) }
            })
            .collect()
    }

    /// The effect over the load points, from the runs of one repeat.
    fn effect(&self, effect: Effect, section: &Interference, loads: &[&Point], repeat: u32) -> Option<f64> {
        let Streams { victim, interferer, weights } = self.streams?;
        let load = |point: &&Point| {
            let (with, without) = (self.run(point, repeat)?, self.run(self.reference(point, section)?, repeat)?);
            Some(LoadPoint {
                load: point.label(),
                without: victim_of(&victim.of(without)?),
                with: victim_of(&victim.of(with)?),
                operations_per_s: interferer.of(with).map(|part| part.iops()),
            })
        };
        // A mean over some of the load points would be another measure.
        let loads: Option<Vec<LoadPoint>> = loads.iter().map(load).collect();
        effect.of(&loads?, *weights)
    }

    /// The point like `point` where the interferer is absent.
    fn reference(&self, point: &Point, section: &Interference) -> Option<&Point> {
        let wanted = |key: &String, value| section.without.get(key).map_or_else(|| value_text(value), value_text);
        let is_reference = |other: &&Arc<Point>| {
            let mut pairs = other.parameters.iter().zip(&point.parameters);
            pairs.all(|((_, here), (key, there))| value_text(here) == wanted(key, there))
        };
        self.points.iter().find(is_reference).map(Arc::as_ref)
    }

    fn run(&self, point: &Point, repeat: u32) -> Option<&RunResult> {
        repeats_of(self.runs, point.index).iter().find(|run| run.repeat == repeat)
    }
}

fn victim_of(part: &DirectionResult) -> Victim {
    Victim {
        iops: part.iops(),
        p95_ns: Some(part.lat.percentile_ns(95.0) as f64),
        p999_ns: Some(part.lat.percentile_ns(99.9) as f64),
        max_ns: Some(part.lat.max_ns as f64),
    }
}

/// The number that a swept value's text is: a number, or a size in bytes.
fn number(text: &str) -> Option<f64> {
    let plain: Option<f64> = text.parse().ok();
    plain.filter(|number| number.is_finite()).or_else(|| Some(text.parse::<ByteSize>().ok()?.0 as f64))
}

/// A point's swept keys and their values as text.
pub(crate) fn texts(point: &Point) -> Parameters {
    point.parameters.iter().map(|(key, value)| (key.clone(), value_text(value))).collect()
}
