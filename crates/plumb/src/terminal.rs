//! Tables and progress on a terminal.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};
use lab::Observer;

/// Rows in columns as wide as their widest cell; numbers to the right.
pub fn print_table(header: &[&str], rows: &[Vec<String>]) {
    print!("{}", format_table(header, rows));
}

/// The same as text.
pub fn format_table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let numeric = |column: usize| {
        let starts_like_number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || "-+~".contains(c));
        rows.iter().filter_map(|row| row.get(column)).all(|cell| cell.is_empty() || starts_like_number(cell))
    };
    let columns: Vec<_> = (0..header.len()).map(|column| (width(column), numeric(column))).collect();
    let mut out = String::new();
    let mut line = |cells: &[&str]| {
        let mut text = String::new();
        for (cell, (width, numeric)) in cells.iter().zip(&columns) {
            let padding = " ".repeat(width - cell.chars().count());
            let parts = if *numeric { [padding.as_str(), cell] } else { [*cell, padding.as_str()] };
            text.push_str(&parts.concat());
            text.push_str("  ");
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(header);
    for row in rows {
        line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    out
}

/// Three significant digits, or the whole number where it is larger.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0).min(6);
    format!("{value:.decimals$}")
}

/// A progress bar over runs, each counted by how far it has come.
pub struct Progress {
    bar: ProgressBar,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    done: u64,
    running: BTreeMap<usize, f64>,
}

/// Ticks of the bar a run is worth.
const TICKS: u64 = 1000;

impl Progress {
    /// A bar on standard error; none where that is not a terminal or `quiet`.
    pub fn new(quiet: bool) -> Self {
        let bar = if quiet || !std::io::stderr().is_terminal() { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style = ProgressStyle::with_template("{bar:32} {percent:>3}%  {msg}  elapsed {elapsed}, left {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, state: Mutex::default() }
    }

    /// Takes the bar off the screen.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn show(&self, update: impl FnOnce(&mut State)) {
        let Ok(mut state) = self.state.lock() else { return };
        update(&mut state);
        let running: f64 = state.running.values().sum();
        self.bar.set_position(state.done * TICKS + (running * TICKS as f64) as u64);
    }
}

impl Observer for Progress {
    fn begin(&self, total: usize, done: usize) {
        self.bar.set_length(total as u64 * TICKS);
        self.show(|state| state.done = done as u64);
        if done > 0 && done < total {
            self.bar.println(format!("resuming: {done} of {total} runs are already done"));
        }
    }

    fn progress(&self, position: usize, label: &str, fraction: f64) {
        self.bar.set_message(label.to_owned());
        self.show(|state| {
            state.running.insert(position, fraction.clamp(0.0, 1.0));
        });
    }

    fn end(&self, position: usize) {
        self.show(|state| {
            state.running.remove(&position);
            state.done += 1;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        for (value, text) in [(0.0, "0"), (1234.5, "1234"), (12.345, "12.3"), (0.012_34, "0.0123"), (99.96, "100.0")] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "100".to_owned()]];
        assert_eq!(format_table(&["name", "ios"], &rows), "name  ios\na       1\nlong  100\n");
    }
}
