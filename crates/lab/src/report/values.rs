//! What a picture over named values shows, in numbers.

use super::{EffectTable, SweepLine, SweepPlot, effects};

/// A row for each named value, a column for each line; nothing for a picture over numbers.
pub(super) fn table(plot: &SweepPlot, lines: &[SweepLine]) -> String {
    if plot.x_names.is_empty() || lines.is_empty() {
        return String::new();
    }
    let heading = |line: &SweepLine| if line.name.is_empty() { plot.y_label.clone() } else { line.name.clone() };
    let cell = |line: &SweepLine, at: usize| line.points.iter().find(|(x, _)| *x == at as f64).map(|(_, value)| *value);
    let row = |(at, name): (usize, &String)| {
        let cells = lines.iter().map(|line| cell(line, at)).collect();
        (vec![(plot.x_label.clone(), name.clone())], cells)
    };
    effects::table(&EffectTable {
        columns: lines.iter().map(|line| (heading(line), plot.y_unit.clone())).collect(),
        rows: plot.x_names.iter().enumerate().map(row).collect(),
    })
}
