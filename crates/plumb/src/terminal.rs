//! Tables and progress on a terminal.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lab::Observer;

/// Columns narrower than this are not made narrower.
const NARROWEST: usize = 12;
/// Between two columns.
const GAP: usize = 2;

/// Rows in columns as wide as their widest cell; numbers to the right. On a
/// terminal the table fits its width.
pub fn print_table(header: &[&str], rows: &[Vec<String>]) {
    print!("{}", fitted_table(header, rows, 1, width()));
}

/// The same of a sweep, whose first `keys` columns say which point a row is:
/// on a terminal a table that is too wide becomes several, each with them.
pub fn print_sweep(header: &[&str], rows: &[Vec<String>], keys: usize) {
    let width = width();
    let shown = if width == usize::MAX { rows.len() } else { rows.len().min(ROWS) };
    print!("{}", fitted_table(header, &rows[..shown], keys, width));
    if shown < rows.len() {
        println!("... and {} more; runs.csv and the report have all", rows.len() - shown);
    }
}

/// Rows of a sweep that a terminal shows; what is piped elsewhere has all.
const ROWS: usize = 200;

/// The terminal's width in characters; unbounded where standard output is none.
fn width() -> usize {
    if !std::io::stdout().is_terminal() {
        return usize::MAX;
    }
    ratatui::crossterm::terminal::size().map_or(usize::MAX, |(columns, _)| usize::from(columns).max(20))
}

/// The same as text, however wide.
pub fn format_table(header: &[&str], rows: &[Vec<String>]) -> String {
    fitted_table(header, rows, 1, usize::MAX)
}

/// A table's columns: how wide they are, and whether they hold numbers.
struct Columns {
    widths: Vec<usize>,
    numeric: Vec<bool>,
}

impl Columns {
    fn of(header: &[&str], rows: &[Vec<String>]) -> Self {
        let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
        let width = |column: usize| {
            let widths = cells(column).map(|cell| cell.chars().count());
            widths.chain([header[column].chars().count()]).max().unwrap_or(0)
        };
        let starts_like_number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || "-+~".contains(c));
        let numeric = |column: usize| cells(column).all(|cell| cell.is_empty() || starts_like_number(cell));
        let all = 0..header.len();
        Self { widths: all.clone().map(width).collect(), numeric: all.map(numeric).collect() }
    }

    /// Width of these columns side by side.
    fn together(&self, columns: &[usize]) -> usize {
        columns.iter().map(|column| self.widths[*column] + GAP).sum::<usize>().saturating_sub(GAP)
    }

    /// Takes room from the widest columns of text until all fit, or none can give more.
    fn squeeze(&mut self, columns: &[usize], width: usize) {
        while self.together(columns) > width {
            let text = columns.iter().filter(|column| !self.numeric[**column] && self.widths[**column] > NARROWEST);
            let Some(widest) = text.max_by_key(|column| self.widths[**column]) else { return };
            self.widths[*widest] -= 1;
        }
    }
}

/// A table that fits `width`: first text is wrapped, then columns go into
/// further tables, each with the first `keys` columns.
fn fitted_table(header: &[&str], rows: &[Vec<String>], keys: usize, width: usize) -> String {
    let mut columns = Columns::of(header, rows);
    let all: Vec<usize> = (0..header.len()).collect();
    if columns.together(&all) <= width {
        return lines(header, rows, &columns, &all);
    }
    let numbers = |columns: &Columns| all.iter().filter(|column| columns.numeric[**column]).count();
    if numbers(&columns) < all.len() {
        let mut squeezed = Columns { widths: columns.widths.clone(), numeric: columns.numeric.clone() };
        squeezed.squeeze(&all, width);
        if squeezed.together(&all) <= width {
            return lines(header, rows, &squeezed, &all);
        }
    }
    let keys = keys.min(all.len());
    columns.squeeze(&all[..keys], width / 2);
    let mut tables: Vec<Vec<usize>> = vec![all[..keys].to_vec()];
    for column in &all[keys..] {
        let last = tables.len() - 1;
        let with: Vec<usize> = tables[last].iter().chain([column]).copied().collect();
        if columns.together(&with) <= width || tables[last].len() == keys {
            tables[last] = with;
        } else {
            tables.push(all[..keys].iter().chain([column]).copied().collect());
        }
    }
    let one = |table: &Vec<usize>| {
        columns.squeeze(table, width);
        lines(header, rows, &columns, table)
    };
    tables.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Header and rows of some columns.
fn lines(header: &[&str], rows: &[Vec<String>], columns: &Columns, shown: &[usize]) -> String {
    let mut out = String::new();
    let mut row = |cells: &dyn Fn(usize) -> String| {
        let wrapped: Vec<Vec<String>> =
            shown.iter().map(|column| wrap(&cells(*column), columns.widths[*column])).collect();
        for line in 0..wrapped.iter().map(Vec::len).max().unwrap_or(0) {
            let mut text = String::new();
            for (column, parts) in shown.iter().zip(&wrapped) {
                let part = parts.get(line).map_or("", String::as_str);
                let padding = " ".repeat(columns.widths[*column].saturating_sub(part.chars().count()));
                let both = if columns.numeric[*column] { [padding.as_str(), part] } else { [part, padding.as_str()] };
                text.push_str(&both.concat());
                text.push_str(&" ".repeat(GAP));
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
    };
    row(&|column| header[column].to_owned());
    for cells in rows {
        row(&|column| cells.get(column).cloned().unwrap_or_default());
    }
    out
}

/// Text in lines of at most `width` characters, parted between words where
/// words are short enough.
fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width || width == 0 {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let used = lines.last().map_or(0, |line| line.chars().count());
        if used > 0 && used + 1 + word.chars().count() <= width {
            lines.last_mut().into_iter().for_each(|line| line.extend([" ", word]));
            continue;
        }
        let characters: Vec<char> = word.chars().collect();
        for part in characters.chunks(width) {
            let part: String = part.iter().collect();
            match lines.last_mut() {
                Some(line) if line.is_empty() => *line = part,
                _ => lines.push(part),
            }
        }
    }
    lines
}

/// Three significant digits, or the whole number where it is larger.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    format!("{value:.*}", decimals(value))
}

/// What one step of the last digit that [`number`] prints of `value` is.
pub fn last_digit(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { 0.1f64.powi(i32::try_from(decimals(value)).unwrap_or(0)) }
}

/// Digits after the point: three significant ones in all, at most six.
fn decimals(value: f64) -> usize {
    let magnitude = value.abs().log10().floor() as i32;
    usize::try_from(2 - magnitude).unwrap_or(0).min(6)
}

/// Progress over runs, each counted by how far it has come: a bar on a
/// terminal; a line now and then elsewhere, such as in a batch job's log.
pub struct Progress {
    bar: ProgressBar,
    state: Mutex<State>,
    lines: bool,
}

struct State {
    total: u64,
    done: u64,
    /// Of `done`, those of an earlier start.
    before: u64,
    running: BTreeMap<usize, f64>,
    begun: Instant,
    said: Instant,
}

/// Ticks of the bar a run is worth.
const TICKS: u64 = 1000;
/// For so long, or until such a part is done, nothing is said of the time that is left.
const UNSURE: Duration = Duration::from_secs(10);
const SURE: f64 = 0.05;
/// Between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(15);

impl Progress {
    /// Progress on standard error; none where `quiet`.
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = if quiet || !terminal { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style = ProgressStyle::with_template("{bar:32} {percent:>3}%  {msg}  elapsed {elapsed}{prefix}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        let state = State { total: 0, done: 0, before: 0, running: BTreeMap::new(), begun: now, said: now };
        Self { bar, state: Mutex::new(state), lines: !quiet && !terminal }
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
        self.bar.set_prefix(state.left(running, state.begun.elapsed()));
        if self.lines && state.said.elapsed() >= LINE_INTERVAL {
            state.said = Instant::now();
            // Nobody who reads it is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{}", state.line(running, state.begun.elapsed()));
        }
    }
}

/// Hours, minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

impl State {
    /// `120 of 5000 runs done (2 %), 0:00:31 elapsed, about 0:21:10 left`.
    fn line(&self, running: f64, elapsed: Duration) -> String {
        let percent = (self.done as f64 + running) / self.total.max(1) as f64 * 100.0;
        let left = self.left(running, elapsed);
        format!("{} of {} runs done ({percent:.0} %), {} elapsed{left}", self.done, self.total, clock(elapsed))
    }

    /// `, about 0:21:10 left`, as the rest takes as long as what was done. Nothing at first, nor until the first run got on: one of
    /// thousands of jobs has to start them all before.
    fn left(&self, running: f64, elapsed: Duration) -> String {
        let came = self.done as f64 + running;
        let (new, rest) = (came - self.before as f64, (self.total as f64 - came).max(0.0));
        let is_first = self.done == self.before && running < SURE;
        if new <= 0.0 || is_first || elapsed < UNSURE && new < SURE * (new + rest) {
            return String::new();
        }
        let left = Duration::try_from_secs_f64(elapsed.as_secs_f64() / new * rest).unwrap_or(Duration::MAX);
        format!(", about {} left", clock(left))
    }
}

impl Observer for Progress {
    fn begin(&self, total: usize, done: usize) {
        self.bar.set_length(total as u64 * TICKS);
        self.show(|state| (state.total, state.done, state.before) = (total as u64, done as u64, done as u64));
        if done > 0 && done < total {
            let text = format!("resuming: {done} of {total} runs are already done");
            match self.lines {
                true => drop(writeln!(std::io::stderr(), "{text}")),
                false => self.bar.println(text),
            }
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

    fn widest(table: &str) -> usize {
        table.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn tables_fit_their_width() {
        let header = ["device", "iodepth", "read.iops", "read.mib_per_s", "read.p99.9_us", "source"];
        let source = "Somebody et al., Some Conference '24, figure 7, left half";
        let row = |depth: &str| {
            ["samsung-980pro-1tb", depth, "123456", "482 ±3.1", "1234", source].map(str::to_owned).to_vec()
        };
        let rows = [row("1"), row("64")];
        for width in [200, 100, 80, 60, 40] {
            let table = fitted_table(&header, &rows, 2, width);
            assert!(widest(&table) <= width, "{width}:\n{table}");
            // Nothing is lost: every word is there, and each table says which point a row is.
            let squeezed: String = table.split_whitespace().collect();
            for cell in ["123456", "482", "1234", "read.mib_per_s"] {
                assert!(squeezed.contains(cell), "{width}: no {cell} in\n{table}");
            }
            for word in source.split(' ') {
                assert!(table.contains(word), "{width}: no {word} in\n{table}");
            }
            assert_eq!(table.matches("iodepth").count(), table.matches("\n\n").count() + 1, "{table}");
        }
        assert_eq!(fitted_table(&header, &rows, 2, usize::MAX).lines().count(), 3);
    }

    #[test]
    fn words_are_kept_whole_where_they_fit() {
        assert_eq!(wrap("a bcd ef", 5), ["a bcd", "ef"]);
        assert_eq!(wrap("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrap("", 3), [""]);
    }

    #[test]
    fn progress_in_words() {
        let now = Instant::now();
        let mut state = State { total: 5000, done: 150, before: 50, running: BTreeMap::new(), begun: now, said: now };
        let line = state.line(0.0, Duration::from_secs(60));
        assert_eq!(line, "150 of 5000 runs done (3 %), 0:01:00 elapsed, about 0:48:30 left");
        state.total = 51;
        state.done = 50;
        assert_eq!(state.left(0.001, Duration::from_secs(5)), "", "too soon to tell");
        assert_eq!(state.left(0.5, Duration::from_secs(5)), ", about 0:00:05 left");
        assert_eq!(state.left(0.1, Duration::from_secs(20)), ", about 0:03:00 left");
        assert_eq!(state.left(0.004, Duration::from_secs(60)), "", "the first run has not got on");
        state.total = 5000;
        assert_eq!(state.line(0.0, Duration::ZERO), "50 of 5000 runs done (1 %), 0:00:00 elapsed");
    }
}
