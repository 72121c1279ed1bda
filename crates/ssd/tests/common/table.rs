//! Tables of measurements, and how far a model is from them.

#![allow(dead_code, clippy::unwrap_used)]

use std::path::Path;

/// A CSV file of `tests/data`: rows by column name.
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A row.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    columns: &'a [String],
    fields: &'a [String],
}

impl Table {
    pub fn load(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines().map(fields);
        let columns = lines.next().unwrap();
        Self { columns, rows: lines.collect() }
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|fields| Row { columns: &self.columns, fields })
    }
}

/// The fields of a line; one with a comma in it stands in quotation marks.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

impl<'a> Row<'a> {
    pub fn text(&self, column: &str) -> &'a str {
        let index = self.columns.iter().position(|name| name == column).unwrap_or_else(|| panic!("no column {column}"));
        &self.fields[index]
    }

    pub fn number(&self, column: &str) -> f64 {
        self.text(column).parse().unwrap_or_else(|_| panic!("{column} is `{}`", self.text(column)))
    }
}

/// Signed relative errors, with what they are of.
#[derive(Default)]
pub struct Errors(Vec<(String, f64)>);

impl Errors {
    /// Notes a point: what it is, what the model gave, what was measured.
    pub fn note(&mut self, what: impl Into<String>, modelled: f64, measured: f64) {
        self.0.push((what.into(), modelled / measured - 1.0));
    }

    /// Fails unless the median and the worst absolute error are within bounds.
    pub fn check(&self, table: &str, median_max: f64, worst_max: f64) {
        let mut sorted: Vec<f64> = self.0.iter().map(|(_, error)| error.abs()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        let report: String =
            self.0.iter().map(|(what, error)| format!("  {what}: {:+.1} %\n", error * 100.0)).collect();
        println!("{table}: {} points, median {:.1} %\n{report}", sorted.len(), median * 100.0);
        assert!(median <= median_max, "{table}: median {:.1} %\n{report}", median * 100.0);
        let far: Vec<&(String, f64)> = self.0.iter().filter(|(_, error)| error.abs() > worst_max).collect();
        assert!(far.is_empty(), "{table}: beyond {:.0} %: {far:?}", worst_max * 100.0);
    }
}
