//! Metrics against swept parameters.

use super::SweepPlot;
use super::chart::{Chart, Line};
use super::html::esc;
use super::scale::Axis;

/// One plot with its heading; `None` when it has no finite point.
pub(super) fn plot(plot: &SweepPlot) -> Option<String> {
    let lines: Vec<Line> = plot
        .lines
        .iter()
        .enumerate()
        .map(|(colour, line)| {
            let finite = line.points.iter().filter(|(x, y)| x.is_finite() && y.value.is_finite());
            let interval = |(x, y): &(f64, super::Estimate)| {
                let half = y.half_width.filter(|half| half.is_finite())?;
                Some((*x, y.value - half, y.value + half))
            };
            Line {
                name: line.name.clone(),
                colour,
                points: finite.clone().map(|(x, y)| (*x, y.value)).collect(),
                dots: true,
                // Between named values there is nothing to read off a line.
                joined: plot.x_names.is_empty(),
                bars: finite.filter_map(interval).collect(),
                published: line
                    .published
                    .iter()
                    .filter(|(x, low, high)| x.is_finite() && low.is_finite() && high.is_finite())
                    .copied()
                    .collect(),
                ..Line::default()
            }
        })
        .collect();
    let ranges = || lines.iter().flat_map(|line| line.bars.iter().chain(&line.published));
    let highest = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|(_, y)| *y))
        .chain(ranges().map(|(_, _, high)| *high))
        .max_by(f64::total_cmp)?;
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
    let chart = Chart {
        x,
        y: Axis::from_zero(highest, &plot.y_label, plot.y_unit.clone()),
        lines,
        summary: format!("{} against {}", plot.y_label, plot.x_label),
    };
    let title = if plot.title.is_empty() { &chart.summary } else { &plot.title };
    Some(format!("<h3>{}</h3>\n{}", esc(title), chart.html()))
}
