//! Values by name, over the points of a sweep: metrics of a run, and what is
//! made of several points.

use std::fmt;
use std::sync::Arc;

use units::ByteSize;

use crate::interference::{self, Point as LoadPoint, Victim, Weights};
use crate::metric::{Metric, MetricError, Work};
use crate::report::{Estimate, Unit};
use crate::results::{DirectionResult, RunResult};
use crate::spec::{Derived, Experiment, Form, Interference, Point, Spec, SpecError, short_key, value_text};
use crate::summary::{over_repeats, repeats_of};

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

/// The ways to say what an interferer does (see [`crate::interference`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The published Z.
    Z,
    /// Z against the first load point instead of the victim alone: what was
    /// published for management operations as victims.
    ZFirstLoad,
    /// Z with its sign: negative where the victim gained.
    Signed,
    /// Z of the rate and the p99.9 latency.
    Tail,
    /// The victim's longest latency with the interferer.
    Stall,
    /// The victim's longest latency without it.
    StallAlone,
    /// The time for which one operation of the interferer stops the victim.
    PerOperation,
    /// The victim's operations lost to one of the interferer's.
    LostIos,
    /// Operations of the interferer a second, over the load points.
    Operations,
}

impl Effect {
    /// Those that tables show, in reading order.
    pub const SHOWN: [Self; 7] =
        [Self::Z, Self::Signed, Self::Tail, Self::StallAlone, Self::Stall, Self::Operations, Self::PerOperation];

    const ALL: [Self; 9] = [
        Self::Z,
        Self::ZFirstLoad,
        Self::Signed,
        Self::Tail,
        Self::Stall,
        Self::StallAlone,
        Self::PerOperation,
        Self::LostIos,
        Self::Operations,
    ];

    /// What follows `interference.` in its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Z => "z",
            Self::ZFirstLoad => "z_first_load",
            Self::Signed => "signed",
            Self::Tail => "tail",
            Self::Stall => "stall_ms",
            Self::StallAlone => "stall_alone_ms",
            Self::PerOperation => "per_operation_ms",
            Self::LostIos => "lost_ios",
            Self::Operations => "operations_per_s",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Z => "Interference Z",
            Self::ZFirstLoad => "Z against the first load",
            Self::Signed => "Signed interference",
            Self::Tail => "Tail interference (p99.9)",
            Self::Stall => "Longest stall",
            Self::StallAlone => "Longest latency alone",
            Self::PerOperation => "Cost of one operation",
            Self::LostIos => "Requests lost to one operation",
            Self::Operations => "Interfering operations",
        }
    }

    /// The effect over load points; `None` where it cannot be told.
    fn of(self, loads: &[LoadPoint], weights: Weights) -> Option<f64> {
        let measure = |result: Result<interference::Measure, _>| result.ok().map(|measure| measure.mean);
        match self {
            Self::Z => measure(interference::z(loads, weights)),
            Self::Signed => measure(interference::signed(loads, weights)),
            Self::Tail => measure(interference::z_tail(loads, weights)),
            Self::ZFirstLoad => {
                let without = &loads.first()?.with;
                let against: Vec<_> =
                    loads.iter().map(|load| LoadPoint { without: *without, ..load.clone() }).collect();
                measure(interference::z(&against, weights))
            }
            Self::Stall => Some(interference::stall(loads)?.with_ns / 1e6),
            Self::StallAlone => Some(interference::stall(loads)?.without_ns / 1e6),
            Self::PerOperation => Some(interference::mean_operation_cost(loads).ok()??.stall_ns / 1e6),
            Self::LostIos => Some(interference::mean_operation_cost(loads).ok()??.lost_ios),
            Self::Operations => {
                let rates: Vec<f64> = loads.iter().filter_map(|load| load.operations_per_s).collect();
                (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
            }
        }
    }
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
pub struct Place {
    /// Swept keys and their values as text, those averaged over left out.
    pub parameters: Parameters,
    /// Its value there; `None` where no run yields it.
    pub estimate: Option<Estimate>,
}

impl Place {
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
    experiment: &'a Experiment,
    points: &'a [Arc<Point>],
    runs: &'a [RunResult],
}

impl<'a> Values<'a> {
    /// Of `points` of `experiment` and their `runs`, both in the sweep's order.
    pub fn new(experiment: &'a Experiment, points: &'a [Arc<Point>], runs: &'a [RunResult]) -> Self {
        Self { experiment, points, runs }
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
    pub fn of(&self, quantity: &Quantity) -> Vec<Place> {
        match (quantity, &self.experiment.spec.interference) {
            (Quantity::Metric(metric), _) => self.points.iter().map(|point| self.metric(metric, point)).collect(),
            (Quantity::Interference(effect), Some(section)) => self.interference(*effect, section),
            (Quantity::Interference(_), None) => Vec::new(),
            (Quantity::Derived(pair), _) => vec![Place { parameters: Vec::new(), estimate: self.pair(pair) }],
        }
    }

    /// The quantity at the places that `at` names.
    pub fn at(&self, quantity: &Quantity, at: &toml::Table) -> Vec<Place> {
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

    fn metric(&self, metric: &Metric, point: &Point) -> Place {
        let values = repeats_of(self.runs, point.index).iter().filter_map(|run| metric.value(run));
        Place { parameters: texts(point), estimate: over_repeats(values) }
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

    fn interference(&self, effect: Effect, section: &Interference) -> Vec<Place> {
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
                let repeats = 0..self.experiment.spec.run.repeats;
                let values = repeats.filter_map(|repeat| self.effect(effect, section, &loads, repeat));
                Place { parameters, estimate: over_repeats(values) }
            })
            .collect()
    }

    /// The effect over the load points, from the runs of one repeat.
    fn effect(&self, effect: Effect, section: &Interference, loads: &[&Point], repeat: u32) -> Option<f64> {
        let (victim, interferer): (Work, Work) = (section.victim.parse().ok()?, section.interferer.parse().ok()?);
        let weights = Weights::with_alpha(section.alpha).ok()?;
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
        effect.of(&loads?, weights)
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

/// Whether every name in the spec means something, and every cell of a map and
/// side of a derived value is one value.
pub(crate) fn check(experiment: &Experiment, points: &[Arc<Point>]) -> Result<(), crate::LabError> {
    let spec = &experiment.spec;
    let values = Values::new(experiment, points, &[]);
    for name in &spec.metrics {
        name.parse::<Metric>()?;
    }
    if let Some(section) = &spec.interference {
        for name in [&section.victim, &section.interferer] {
            name.parse::<Work>()?;
        }
        let place = "[interference]";
        if let Err(error) = Weights::with_alpha(section.alpha) {
            return Err(SpecError::Unclear { place, message: error.to_string() }.into());
        }
        if section.without.is_empty() {
            let message =
                "`without` is empty; name the swept key and its value where the interferer is absent".to_owned();
            return Err(SpecError::Unclear { place, message }.into());
        }
        if let Some(alone) = points.iter().find(|point| values.reference(point, section).is_none()) {
            let message = format!(
                "no point stands for `{}` without the interferer; sweep the value that `without` names",
                alone.label()
            );
            return Err(SpecError::Unclear { place, message }.into());
        }
    }
    for name in spec.plot.iter().map(|plot| &plot.y).chain(spec.published.iter().map(|row| &row.metric)) {
        Quantity::parse(name, spec)?;
    }
    for map in &spec.heat_map {
        let quantity = Quantity::parse(&map.value, spec)?;
        let cell = |place: &Place| {
            [&map.x, &map.y].into_iter().chain(&map.by).map(|key| place.parameter(key).to_owned()).collect::<Vec<_>>()
        };
        let mut cells: Vec<_> = values.of(&quantity).iter().map(cell).collect();
        let all = cells.len();
        cells.sort();
        cells.dedup();
        if cells.len() < all || cells.iter().flatten().any(String::is_empty) {
            let message =
                format!("`{}` has not one value for each cell; name every key it varies by in x, y and by", map.value);
            return Err(SpecError::Unclear { place: "[[heat_map]]", message }.into());
        }
    }
    for (index, row) in spec.derived.iter().enumerate() {
        if let Some(message) = along(row, &Quantity::parse_above(&row.value, spec, index)?, values) {
            return Err(SpecError::Unclear { place: "[[derived]]", message }.into());
        }
        if row.form.is_along() {
            continue;
        }
        for (name, at) in [(&row.value, &row.at), (row.base.as_ref().unwrap_or(&row.value), &row.to)] {
            let found = values.at(&Quantity::parse_above(name, spec, index)?, at).len();
            if found != 1 {
                let message =
                    format!("`{}` takes {name} at {found} places; say in `at` and `to` at which one", row.name);
                return Err(SpecError::Unclear { place: "[[derived]]", message }.into());
            }
        }
    }
    Ok(())
}

/// What is wrong with a derived value along a swept key, and the mend.
fn along(row: &Derived, quantity: &Quantity, values: Values<'_>) -> Option<String> {
    let key = match (&row.over, row.form.is_along()) {
        (None, false) => return None,
        (None, true) => {
            return Some(format!("`{}` needs `over`: the swept key whose values are the other side", row.name));
        }
        (Some(_), false) => {
            return Some(format!("`{}` has `over`, which goes with as = \"correlation\" or \"slope\"", row.name));
        }
        (Some(key), true) => key,
    };
    if row.base.is_some() || !row.to.is_empty() {
        return Some(format!("`{}` goes along `over` and has no base: take `base` and `to` out", row.name));
    }
    let places = values.at(quantity, &row.at);
    let mut seen: Vec<&str> = places.iter().map(|place| place.parameter(key)).collect();
    if let Some(text) = seen.iter().find(|text| number(text).is_none()) {
        return Some(format!("`{}` goes along {key}, whose value `{text}` is neither a number nor a size", row.name));
    }
    seen.sort_unstable();
    seen.dedup();
    if seen.len() < places.len() || seen.len() < 3 {
        return Some(format!(
            "`{}` has {} values for {} of {key}; say in `at` where the other swept keys stand, and sweep 3 or more",
            row.name,
            places.len(),
            seen.len()
        ));
    }
    None
}
