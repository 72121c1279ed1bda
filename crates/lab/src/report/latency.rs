//! Latency: the distribution as a curve, its percentiles as a table.

use super::chart::{Chart, Line};
use super::html::{esc, views};
use super::number::{percentile, show, show_estimate};
use super::published::Reference;
use super::scale::Axis;
use super::{DirectionData, Estimate, Unit};

/// Percentiles marked on a curve, where they were measured.
const MARKED: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// A curve to draw: its name, colour and direction.
pub(super) struct Curve<'a> {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) direction: &'a DirectionData,
}

/// The distributions of `curves` in one picture, as fractions and as nines.
/// `name` is unique in the page; `marked` adds percentile labels.
pub(super) fn distribution(name: &str, curves: &[Curve<'_>], marked: bool) -> Option<String> {
    let drawn: Vec<&Curve<'_>> = curves.iter().filter(|curve| !curve.direction.latency_cdf.is_empty()).collect();
    let all = || drawn.iter().flat_map(|curve| curve.direction.latency_cdf.iter().copied());
    let low = all().map(|(ns, _)| ns).min_by(f64::total_cmp)?;
    let high = all().map(|(ns, _)| ns).max_by(f64::total_cmp)?;
    let first_median = drawn.iter().map(|curve| median(curve.direction)).min_by(f64::total_cmp)?;
    let chart = |y: Axis, labelled: &[f64], points: fn(&DirectionData) -> Vec<(f64, f64)>| {
        let lines = drawn.iter().map(|curve| Line {
            name: curve.name.clone(),
            colour: curve.colour,
            points: stepped(&points(curve.direction)),
            marks: if marked { marks(curve.direction, labelled) } else { Vec::new() },
            labels_left: drawn.len() > 1 && median(curve.direction) <= first_median,
            joined: true,
            ..Line::default()
        });
        let (low_text, high_text) = (show(low, &Unit::Time), show(high, &Unit::Time));
        Chart {
            x: Axis::log(low, high, "Latency", Unit::Time),
            y,
            lines: lines.collect(),
            summary: format!("Cumulative distribution of latency from {low_text} to {high_text}"),
            reference: Reference::default(),
        }
        .html()
    };
    let fractions = Axis::from_zero(1.0, "Requests at or below", Unit::Fraction);
    let highest =
        drawn.iter().flat_map(|curve| tail(curve.direction)).map(|(_, fraction)| fraction).fold(0.9, f64::max);
    let nines = Axis::nines(highest, "Requests at or below, by nines");
    let distribution = chart(fractions, &[50.0, 99.0], |direction| direction.latency_cdf.clone());
    Some(views(name, &[("Distribution", distribution), ("Tail", chart(nines, &MARKED, tail))]))
}

/// Latencies further apart than this ratio have nothing between them: the
/// distribution stays level there and rises at the later one.
const EMPTY_RATIO: f64 = 1.1;

/// The curve of a distribution: from zero, with steps over empty stretches.
fn stepped(cdf: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut curve = Vec::with_capacity(cdf.len() + 1);
    let mut last = (0.0, 0.0);
    for &(ns, fraction) in cdf {
        if ns > last.0 * EMPTY_RATIO {
            curve.push((ns, last.1));
        }
        curve.push((ns, fraction));
        last = (ns, fraction);
    }
    curve
}

/// The distribution for an axis of nines, which has no place for all of them:
/// the longest of n requests stands at n / (n + 1), as plotting positions do.
fn tail(direction: &DirectionData) -> Vec<(f64, f64)> {
    let requests = direction.requests.max(1.0);
    let top = direction.latency_cdf.iter().map(|(_, fraction)| *fraction).filter(|fraction| *fraction < 1.0);
    let top = top.fold(requests / (requests + 1.0), f64::max);
    direction.latency_cdf.iter().map(|(ns, fraction)| (*ns, fraction.min(top))).collect()
}

/// The percentiles of `directions` side by side, each with a bar to scale.
pub(super) fn percentile_table(directions: &[(usize, &DirectionData)]) -> Option<String> {
    let mut percents: Vec<f64> = directions
        .iter()
        .flat_map(|(_, direction)| &direction.latency_percentiles_ns)
        .map(|(percent, _)| *percent)
        .collect();
    percents.sort_by(f64::total_cmp);
    percents.dedup();
    if percents.is_empty() {
        return None;
    }
    let longest = directions
        .iter()
        .flat_map(|(_, direction)| &direction.latency_percentiles_ns)
        .map(|(_, estimate)| estimate.value)
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max);
    let mut out = String::from("<div class=\"scroll\"><table class=\"percentiles\"><thead><tr><th>Latency</th>");
    for (_, direction) in directions {
        out += &format!("<th class=\"n\">{}</th>", esc(&direction.name));
    }
    out += "</tr></thead><tbody>";
    let mut row = |label: &str, value: &dyn Fn(&DirectionData) -> Option<Estimate>| {
        out += &format!("<tr><th scope=\"row\">{label}</th>");
        for (colour, direction) in directions {
            match value(direction) {
                Some(estimate) => {
                    let width = if longest > 0.0 { (estimate.value / longest * 100.0).clamp(0.0, 100.0) } else { 0.0 };
                    let width = if width.is_finite() { width } else { 0.0 };
                    out += &format!(
                        "<td class=\"n\">{}<i class=\"gauge c{colour}\" style=\"width:{width:.1}%\"></i></td>",
                        show_estimate(estimate, &Unit::Time)
                    );
                }
                None => out += "<td class=\"n\">–</td>",
            }
        }
        out += "</tr>";
    };
    row("mean", &|direction| Some(direction.latency_mean_ns));
    for percent in percents {
        row(&percentile(percent), &|direction| at_percent(direction, percent));
    }
    Some(out + "</tbody></table></div>\n")
}

/// The estimate of one percentile, if it was measured.
pub(super) fn at_percent(direction: &DirectionData, percent: f64) -> Option<Estimate> {
    direction.latency_percentiles_ns.iter().find(|(at, _)| *at == percent).map(|(_, estimate)| *estimate)
}

fn median(direction: &DirectionData) -> f64 {
    at_percent(direction, 50.0).map_or(f64::INFINITY, |estimate| estimate.value)
}

fn marks(direction: &DirectionData, percents: &[f64]) -> Vec<(f64, f64, String)> {
    percents
        .iter()
        .filter_map(|percent| {
            let value = at_percent(direction, *percent)?.value;
            let label = format!("{} {}", percentile(*percent), show(value, &Unit::Time));
            value.is_finite().then_some((value, percent / 100.0, label))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_latencies_step() {
        assert_eq!(stepped(&[(80e3, 1.0)]), [(80e3, 0.0), (80e3, 1.0)]);
        let cdf = [(80e3, 0.4), (81e3, 0.5), (200e3, 1.0)];
        assert_eq!(stepped(&cdf), [(80e3, 0.0), (80e3, 0.4), (81e3, 0.5), (200e3, 0.5), (200e3, 1.0)]);
        assert_eq!(stepped(&[]), []);
    }

    #[test]
    fn the_longest_has_a_place_among_the_nines() {
        let direction =
            DirectionData { requests: 999.0, latency_cdf: vec![(1.0, 0.5), (2.0, 1.0)], ..DirectionData::default() };
        assert_eq!(tail(&direction), [(1.0, 0.5), (2.0, 0.999)]);
    }
}
