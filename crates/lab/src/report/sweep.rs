//! Metrics against swept parameters.

use super::chart::{Chart, Line};
use super::html::esc;
use super::published::Reference;
use super::scale::Axis;
use super::{SweepLine, SweepPlot, values};

/// One plot with its heading, one picture for each facet, with its values in a table where they are `told`; `None` when
/// it has no finite point.
pub(super) fn plot(plot: &SweepPlot, reference: Reference, told: bool) -> Option<String> {
    let only = [(String::new(), plot.lines.clone())];
    let facets: &[(String, Vec<SweepLine>)] = if plot.facets.is_empty() { &only } else { &plot.facets };
    // One pair of axes for all, so that they can be compared.
    let all: Vec<Line> = facets.iter().flat_map(|(_, lines)| drawn(plot, lines)).collect();
    let (x, y) = axes(plot, &all)?;
    let summary = format!("{} against {}", plot.y_label, plot.x_label);
    let mut pictures = String::new();
    for (name, own) in facets {
        let mut lines = drawn(plot, own);
        // No name of what is not in the picture.
        lines.retain(|line| !line.points.is_empty() || !line.published.is_empty());
        if lines.is_empty() {
            continue;
        }
        let summary = if name.is_empty() { summary.clone() } else { format!("{summary}, {name}") };
        let mut picture = Chart { x: x.clone(), y: y.clone(), lines, summary, reference }.html();
        if told {
            picture += &values::table(plot, own);
        }
        pictures += &match &name[..] {
            "" => picture,
            name => format!("<div class=\"facet\"><h4>{}</h4>{picture}</div>", esc(name)),
        };
    }
    let title = if plot.title.is_empty() { &summary } else { &plot.title };
    let pictures = if plot.facets.is_empty() { pictures } else { format!("<div class=\"facets\">{pictures}</div>\n") };
    let note = match &plot.left_out[..] {
        "" => String::new(),
        text => format!("<p class=\"note\">{}</p>\n", esc(text)),
    };
    Some(format!("<h3>{}</h3>\n{pictures}{note}", esc(title)))
}

/// Lines without what cannot be drawn.
fn drawn(plot: &SweepPlot, lines: &[SweepLine]) -> Vec<Line> {
    // No logarithm has a place for nothing.
    let fits = |y: f64| y.is_finite() && (!plot.log_y || y > 0.0);
    let draw = |(colour, line): (usize, &SweepLine)| {
        let finite = line.points.iter().filter(|(x, y)| x.is_finite() && fits(y.value));
        let interval = |(x, y): &(f64, super::Estimate)| {
            let half = y.half_width.filter(|half| half.is_finite() && *half > 0.0)?;
            Some((*x, y.value - half, y.value + half))
        };
        Line {
            name: line.name.clone(),
            colour,
            points: finite.clone().map(|(x, y)| (*x, y.value)).collect(),
            dots: line.points.len() <= 60,
            // Between named values there is nothing to read off a line.
            joined: plot.x_names.is_empty(),
            bars: finite.filter_map(interval).collect(),
            published: line
                .published
                .iter()
                .filter(|(x, low, high)| x.is_finite() && fits(*low) && fits(*high))
                .copied()
                .collect(),
            ..Line::default()
        }
    };
    lines.iter().enumerate().map(draw).collect()
}

/// The axes that hold all of `lines`.
fn axes(plot: &SweepPlot, lines: &[Line]) -> Option<(Axis, Axis)> {
    let ranges = || lines.iter().flat_map(|line| line.bars.iter().chain(&line.published));
    let heights = || {
        let points = lines.iter().flat_map(|line| line.points.iter().map(|(_, y)| *y));
        points.chain(ranges().flat_map(|(_, low, high)| [*low, *high]))
    };
    let highest = heights().max_by(f64::total_cmp)?;
    let mut values: Vec<f64> = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|(x, _)| *x).chain(line.published.iter().map(|(x, ..)| *x)))
        .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let (low, high) = (*values.first()?, *values.last()?);
    let x = if !plot.x_names.is_empty() {
        Axis::named(&plot.x_names, &plot.x_label)
    } else if plot.log_x && low > 0.0 {
        Axis::log(low, high, &plot.x_label, plot.x_unit.clone()).with_ticks_at(&values)
    } else {
        let axis = Axis::from_zero(high, "", plot.x_unit.clone()).starting_at(low).with_ticks_at(&values);
        // The ticks carry the unit.
        Axis { title: plot.x_label.clone(), ..axis }
    };
    let y = if plot.log_y {
        let lowest = heights().filter(|y| *y > 0.0).min_by(f64::total_cmp)?;
        Axis::log(lowest, highest, &plot.y_label, plot.y_unit.clone())
    } else {
        Axis::from_zero(highest, &plot.y_label, plot.y_unit.clone())
    };
    Some((x, y))
}
