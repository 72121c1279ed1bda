//! Plots: those that the spec asks for, and one of rate and tail for each
//! swept number besides.

use std::collections::BTreeMap;

use super::scaled;
use crate::experiment::Experiment;
use crate::metric::{Metric, directions};
use crate::quantity::{PointValue, Quantity, Values};
use crate::report::{SweepLine, SweepPlot, Unit};
use crate::spec::{Plot, short_key};

/// Lines in one picture.
const LINES: usize = 8;
/// Pictures side by side.
const FACETS: usize = 9;
/// Points on one line; a screen has no room for more.
const POINTS: usize = 500;
/// Swept keys that get plots by themselves.
const DEFAULT_KEYS: usize = 4;
/// An axis over more than this ratio is logarithmic by itself.
const WIDE: f64 = 16.0;

/// Every plot of the report.
pub(super) fn plots(experiment: &Experiment, values: Values<'_>) -> Vec<SweepPlot> {
    let asked = experiment.spec.plot.iter().zip(&experiment.plan().plots);
    let asked = asked.map(|(plot, quantity)| sweep_plot(plot, quantity, experiment, values, false));
    let default = defaults(experiment, values);
    asked.chain(default.iter().map(|(plot, quantity)| sweep_plot(plot, quantity, experiment, values, true))).collect()
}

/// Rate and p99 of the directions that did most, for each swept number, where
/// the spec has no plot of the same.
fn defaults(experiment: &Experiment, values: Values<'_>) -> Vec<(Plot, Quantity)> {
    let mut plots = Vec::new();
    let directions = directions(values.runs());
    let asked = |key: &str, metric: &str| {
        experiment.spec.plot.iter().any(|plot| plot.x == key && same_measure(&plot.y, metric))
    };
    let numeric = experiment.spec.sweep.keys().filter_map(|key| {
        let names = values.names(key);
        let numbers: Vec<f64> = names.iter().map(|name| number(name)).collect::<Option<_>>()?;
        (numbers.len() > 1).then_some((key, numbers, names.iter().any(|name| name.parse::<f64>().is_err())))
    });
    for (key, numbers, sizes) in numeric.take(DEFAULT_KEYS) {
        for direction in directions.iter().take(2) {
            // Of requests that differ in size, the rate that says something is of bytes.
            let rate = if sizes { "mib_per_s" } else { "iops" };
            for statistic in [rate, "p99_us"] {
                let y = format!("{direction}.{statistic}");
                let Ok(metric) = y.parse::<Metric>() else { continue };
                if asked(key, &y) {
                    continue;
                }
                let plot = Plot {
                    title: String::new(),
                    x: key.clone(),
                    y,
                    series: None,
                    log_x: is_wide(numbers.iter().copied()),
                    log_y: false,
                };
                plots.push((plot, Quantity::Metric(metric)));
            }
        }
    }
    plots
}

/// Whether two metrics tell the same: rates do, in whatever unit.
fn same_measure(one: &str, other: &str) -> bool {
    const RATES: [&str; 4] = ["iops", "iops_mean", "mib_per_s", "mb_per_s"];
    let parts = |metric: &str| {
        let (direction, statistic) = metric.split_once('.').unwrap_or((metric, ""));
        let statistic = if RATES.contains(&statistic) { RATES[0] } else { statistic };
        (direction.to_owned(), statistic.to_owned())
    };
    parts(one) == parts(other)
}

/// Whether positive values are so far apart that a line would show the largest alone.
fn is_wide(values: impl Iterator<Item = f64> + Clone) -> bool {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    low > 0.0 && values.fold(0.0, f64::max) / low >= WIDE
}

/// A picture's name, and its lines: each one's name and places.
type Group<'a> = (String, Vec<(String, Vec<&'a PointValue>)>);

/// A plot of the spec; `choose` leaves the vertical axis to the values.
fn sweep_plot(
    plot: &Plot,
    quantity: &Quantity,
    experiment: &Experiment,
    values: Values<'_>,
    choose: bool,
) -> SweepPlot {
    let (unit, base) = quantity.unit();
    let places = values.of(quantity);
    let names = super::once(places.iter().map(|place| place.parameter(&plot.x)));
    let sizes = names.iter().any(|name| name.parse::<f64>().is_err());
    let numbers: Option<Vec<f64>> = names.iter().map(|name| number(name)).collect();
    let index: BTreeMap<&str, f64> = names
        .iter()
        .enumerate()
        .map(|(index, name)| (name.as_str(), numbers.as_ref().map_or(index as f64, |numbers| numbers[index])))
        .collect();
    let x_of = |place: &PointValue| index.get(place.parameter(&plot.x)).copied().unwrap_or(0.0);
    // A line joins places that differ in nothing but x.
    let grouping = Grouping::of(plot, &places);
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut known: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    for place in &places {
        let names = grouping.names(place);
        let (facet, line) = *known.entry(names.clone()).or_insert_with(|| {
            let (facet, line) = names;
            let at = groups.iter().position(|(known, _)| *known == facet).unwrap_or_else(|| {
                groups.push((facet, Vec::new()));
                groups.len() - 1
            });
            groups[at].1.push((line, Vec::new()));
            (at, groups[at].1.len() - 1)
        });
        groups[facet].1[line].1.push(place);
    }
    let line = |(name, here): &(String, Vec<&PointValue>)| {
        let published = experiment.spec.published.iter().filter(|row| row.metric == plot.y).filter_map(|row| {
            let place = here.iter().find(|place| place.is_at(&row.at))?;
            Some((x_of(place), row.value * base, row.to.unwrap_or(row.value) * base))
        });
        let published = published.collect();
        let mut points: Vec<_> =
            here.iter().filter_map(|place| Some((x_of(place), scaled(place.estimate?, base)))).collect();
        points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        SweepLine { name: name.clone(), published, points: thinned(points) }
    };
    let heights = || places.iter().filter_map(|place| place.estimate).map(|estimate| estimate.value);
    let left_out = left_out(&groups);
    let mut facets: Vec<(String, Vec<SweepLine>)> = groups
        .iter()
        .take(FACETS)
        .map(|(name, lines)| (name.clone(), lines.iter().take(LINES).map(line).collect()))
        .collect();
    let lines = if facets.len() == 1 { facets.remove(0).1 } else { Vec::new() };
    SweepPlot {
        title: if plot.title.is_empty() {
            format!("{} by {}", quantity.label(), short_key(&plot.x))
        } else {
            plot.title.clone()
        },
        x_label: short_key(&plot.x).to_owned(),
        x_unit: if sizes && numbers.is_some() { Unit::Bytes } else { Unit::Plain },
        log_x: plot.log_x,
        log_y: plot.log_y || (choose && unit == Unit::Time && is_wide(heights().collect::<Vec<_>>().into_iter())),
        lines,
        facets,
        left_out,
        x_names: if numbers.is_some() { Vec::new() } else { names },
        y_label: quantity.label(),
        y_unit: unit,
    }
}

/// What of a plot's groups is more than a picture holds.
fn left_out(groups: &[Group<'_>]) -> String {
    let lines = groups.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
    let mut parts = Vec::new();
    if lines > LINES {
        parts.push(format!("the first {LINES} of {lines} lines"));
    }
    if groups.len() > FACETS {
        parts.push(format!("the first {FACETS} of {} pictures", groups.len()));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!("These are {}; the tables have all values.", parts.join(" in ")),
    }
}

/// Which swept keys tell lines apart, and which pictures.
struct Grouping {
    lines: Vec<String>,
    facets: Vec<String>,
}

impl Grouping {
    /// By every key, besides that of x, which has several values: all of them
    /// in the lines' names where the lines fit into one picture, else one of
    /// them tells lines apart and the others pictures.
    fn of(plot: &Plot, places: &[PointValue]) -> Self {
        let keys = places.first().map_or(&[][..], |place| &place.parameters);
        let varied: Vec<(String, usize)> = keys
            .iter()
            .map(|(key, _)| (key, super::once(places.iter().map(|place| place.parameter(key))).len()))
            .filter(|(key, count)| **key != plot.x && *count > 1)
            .map(|(key, count)| (key.clone(), count))
            .collect();
        let combinations = varied.iter().fold(1usize, |product, (_, count)| product.saturating_mul(*count));
        // The spec's series comes first in a line's name.
        let first = plot.series.clone().filter(|series| varied.iter().any(|(key, _)| key == series));
        let others = |taken: &Option<String>| {
            varied.iter().map(|(key, _)| key.clone()).filter(|key| Some(key) != taken.as_ref()).collect::<Vec<_>>()
        };
        if combinations <= LINES {
            return Self { lines: first.iter().cloned().chain(others(&first)).collect(), facets: Vec::new() };
        }
        let fitting = varied.iter().filter(|(_, count)| *count <= LINES).max_by_key(|(_, count)| *count);
        let line = first.or_else(|| fitting.or(varied.first()).map(|(key, _)| key.clone()));
        Self { facets: others(&line), lines: line.into_iter().collect() }
    }

    /// The names of a place's picture and line.
    fn names(&self, place: &PointValue) -> (String, String) {
        let named = |keys: &[String]| {
            let parts: Vec<_> =
                keys.iter().map(|key| format!("{} = {}", short_key(key), place.parameter(key))).collect();
            parts.join(", ")
        };
        let line = match &self.lines[..] {
            [only] => place.parameter(only).to_owned(),
            keys => named(keys),
        };
        (named(&self.facets), line)
    }
}

/// At most [`POINTS`] of the points, evenly spaced, the ends among them.
fn thinned<T: Clone>(points: Vec<T>) -> Vec<T> {
    if points.len() <= POINTS {
        return points;
    }
    let last = points.len() - 1;
    (0..POINTS).map(|index| points[index * last / (POINTS - 1)].clone()).collect()
}

/// A swept value as a number: itself, or bytes for a size such as `4k`.
fn number(text: &str) -> Option<f64> {
    let plain = text.parse().ok().filter(|value: &f64| value.is_finite());
    plain.or_else(|| text.parse::<units::ByteSize>().ok().map(|size| size.0 as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(parameters: &[(&str, String)], value: f64) -> PointValue {
        let parameters = parameters.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        PointValue { parameters, estimate: Some(value.into()) }
    }

    fn plot(series: Option<&str>) -> Plot {
        let text = |text: &str| text.to_owned();
        let (title, x, y) = (String::new(), text("x"), text("read.iops"));
        Plot { title, x, y, series: series.map(text), log_x: false, log_y: false }
    }

    #[test]
    fn no_line_joins_points_that_differ_in_another_key() {
        for (counts, series, lines, facets) in [
            (&[][..], None, 1, 1),
            (&[2][..], None, 2, 1),
            (&[2, 3], Some("k0"), 6, 1),
            (&[2, 3], None, 6, 1),
            (&[3, 4], Some("k0"), 3, 4),
            (&[3, 4], None, 4, 3),
            (&[2, 2, 2, 2], Some("k3"), 2, 8),
            (&[20], None, 20, 1),
            (&[1, 1, 20, 2], None, 2, 20),
        ] {
            let mut places = vec![Vec::new()];
            for (key, count) in counts.iter().enumerate() {
                let key: &str = ["k0", "k1", "k2", "k3"][key];
                places = places
                    .iter()
                    .flat_map(|head: &Vec<(&str, String)>| {
                        (0..*count).map(move |value: usize| [head.clone(), vec![(key, value.to_string())]].concat())
                    })
                    .collect();
            }
            let places: Vec<PointValue> = places
                .iter()
                .flat_map(|head| ["1", "2", "4"].map(|x| place(&[&head[..], &[("x", x.to_owned())]].concat(), 1.0)))
                .collect();
            let grouping = Grouping::of(&plot(series), &places);
            let mut seen: BTreeMap<(String, String), Vec<&PointValue>> = BTreeMap::new();
            for place in &places {
                seen.entry(grouping.names(place)).or_default().push(place);
            }
            for joined in seen.values() {
                assert_eq!(joined.len(), 3, "{counts:?}: {joined:?}");
                let others = |place: &&PointValue| {
                    let mut all = place.parameters.clone();
                    all.retain(|(key, _)| key != "x");
                    all
                };
                assert!(joined.windows(2).all(|pair| others(&pair[0]) == others(&pair[1])));
            }
            let pictures = super::super::once(seen.keys().map(|(facet, _)| facet.as_str())).len();
            assert_eq!((seen.len() / pictures, pictures), (lines, facets), "{counts:?}");
        }
    }

    #[test]
    fn rates_are_one_measure() {
        for (one, other, same) in [
            ("read.iops", "read.mib_per_s", true),
            ("read.iops", "write.iops", false),
            ("read.p99_us", "read.p99_us", true),
            ("read.p99_us", "read.p99.9_us", false),
            ("read.iops", "read.p99_us", false),
            ("slowdown", "slowdown", true),
        ] {
            assert_eq!(same_measure(one, other), same, "{one} {other}");
        }
    }

    #[test]
    fn wide_ranges_and_long_lines() {
        assert!(
            is_wide([1.0, 64.0].into_iter()) && !is_wide([0.0, 64.0].into_iter()) && !is_wide([8.0, 9.0].into_iter())
        );
        let thin = thinned((0..5001).collect());
        assert_eq!((thin.len(), thin[0], thin[POINTS - 1]), (POINTS, 0, 5000));
        assert_eq!(["4k", "0.5", "nan", "auto"].map(number), [Some(4096.0), Some(0.5), None, None]);
    }
}
