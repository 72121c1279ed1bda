//! What a spec names, parsed once: at its load, so that a name that means nothing is told with its line.

use std::sync::Arc;

use super::{PointValue, Quantity, Values, number};
use crate::interference::Weights;
use crate::metric::{Metric, MetricError, Work};
use crate::spec::{Derived, HeatMap, Interference, Point, Spec, SpecError};

/// Every value that a spec names, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricPlan {
    /// To print; all that apply where there are none.
    pub metrics: Vec<Metric>,
    /// Of each `[[plot]]`, the vertical axis.
    pub plots: Vec<Quantity>,
    /// Of each `[[heat_map]]`, its cells.
    pub heat_maps: Vec<Quantity>,
    /// Each `[[derived]]`.
    pub derived: Vec<Quantity>,
    /// Of each `[[published]]`, what ours is.
    pub published: Vec<Quantity>,
    /// Who suffers, and from whom.
    pub streams: Option<Streams>,
}

/// The two sides of `[interference]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Streams {
    /// The work that suffers.
    pub victim: Work,
    /// What makes it suffer.
    pub interferer: Work,
    /// What its rate counts for, and its latency.
    pub weights: Weights,
}

impl MetricPlan {
    /// Reads the names of `spec`, whose sweep has these points.
    ///
    /// # Errors
    /// Where a name means nothing, and where a cell of a map or a side of a derived value is not one value.
    pub fn read(spec: &Spec, points: &[Arc<Point>]) -> Result<Self, SpecError> {
        let metrics = spec.metrics.iter().map(|name| name.parse().map_err(unknown)).collect::<Result<_, _>>()?;
        let streams = spec.interference.as_ref().map(Streams::read).transpose()?;
        let values = Values::new(spec, streams.as_ref(), points, &[]);
        if let Some(section) = &spec.interference {
            check_interference(section, values, points)?;
        }
        let named = |name: &String| Quantity::parse(name, spec).map_err(unknown);
        let plots = spec.plot.iter().map(|plot| named(&plot.y)).collect::<Result<_, _>>()?;
        let published = spec.published.iter().map(|row| named(&row.metric)).collect::<Result<_, _>>()?;
        let heat_map = |map: &HeatMap| {
            let quantity = named(&map.value)?;
            check_cells(map, &quantity, values)?;
            Ok(quantity)
        };
        let heat_maps = spec.heat_map.iter().map(heat_map).collect::<Result<_, SpecError>>()?;
        let derived = |(index, row): (usize, &Derived)| {
            check_derived(row, index, spec, values)?;
            Quantity::parse(&format!("derived.{}", row.name), spec).map_err(unknown)
        };
        let derived = spec.derived.iter().enumerate().map(derived).collect::<Result<_, _>>()?;
        Ok(Self { metrics, plots, heat_maps, derived, published, streams })
    }
}

impl Streams {
    fn read(section: &Interference) -> Result<Self, SpecError> {
        let work = |name: &String| name.parse::<Work>().map_err(unknown);
        let (victim, interferer) = (work(&section.victim)?, work(&section.interferer)?);
        let weights =
            Weights::with_alpha(section.alpha).map_err(|error| unclear("[interference]", error.to_string()))?;
        Ok(Self { victim, interferer, weights })
    }
}

fn unknown(error: MetricError) -> SpecError {
    SpecError::Name { name: error.name().to_owned(), message: error.to_string() }
}

fn unclear(place: &'static str, message: String) -> SpecError {
    SpecError::Unclear { place, message }
}

fn check_interference(section: &Interference, values: Values<'_>, points: &[Arc<Point>]) -> Result<(), SpecError> {
    let place = "[interference]";
    if section.without.is_empty() {
        let message = "`without` is empty; name the swept key and its value where the interferer is absent".to_owned();
        return Err(unclear(place, message));
    }
    match points.iter().find(|point| values.reference(point, section).is_none()) {
        Some(alone) => {
            let message = format!(
                "no point stands for `{}` without the interferer; sweep the value that `without` names",
                alone.label()
            );
            Err(unclear(place, message))
        }
        None => Ok(()),
    }
}

/// Whether each cell of a map is one value.
fn check_cells(map: &HeatMap, quantity: &Quantity, values: Values<'_>) -> Result<(), SpecError> {
    let cell = |place: &PointValue| {
        [&map.x, &map.y].into_iter().chain(&map.by).map(|key| place.parameter(key).to_owned()).collect::<Vec<_>>()
    };
    let mut cells: Vec<_> = values.of(quantity).iter().map(cell).collect();
    let all = cells.len();
    cells.sort();
    cells.dedup();
    if cells.len() < all || cells.iter().flatten().any(String::is_empty) {
        let message =
            format!("`{}` has not one value for each cell; name every key it varies by in x, y and by", map.value);
        return Err(unclear("[[heat_map]]", message));
    }
    Ok(())
}

/// Whether each side of a derived value, the one at `index`, is one value.
fn check_derived(row: &Derived, index: usize, spec: &Spec, values: Values<'_>) -> Result<(), SpecError> {
    let named = |name: &String| Quantity::parse_above(name, spec, index).map_err(unknown);
    if let Some(message) = along(row, &named(&row.value)?, values) {
        return Err(unclear("[[derived]]", message));
    }
    if row.form.is_along() {
        return Ok(());
    }
    for (name, at) in [(&row.value, &row.at), (row.base.as_ref().unwrap_or(&row.value), &row.to)] {
        let found = values.at(&named(name)?, at).len();
        if found != 1 {
            let message = format!("`{}` takes {name} at {found} places; say in `at` and `to` at which one", row.name);
            return Err(unclear("[[derived]]", message));
        }
    }
    Ok(())
}

/// What is wrong with a derived value along a swept key, and the remedy.
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
