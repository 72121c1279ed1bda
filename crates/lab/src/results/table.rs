//! A table in memory, written alike to CSV and Parquet.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8 text.
    Text,
    /// An unsigned integer.
    Integer,
    /// A number.
    Float,
}

/// A named column. Names end in their unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// One value; `Empty` where a row has none.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// An unsigned integer.
    Integer(u64),
    /// A number.
    Float(f64),
    /// No value.
    Empty,
}

/// Rows under columns.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = (String, Kind)>) -> Self {
        let columns = columns.into_iter().map(|(name, kind)| Column { name, kind }).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When the row's length or a cell's kind does not fit the columns: a
    /// mistake in Plumb, never in its input.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "row of {} cells", row.len());
        for (cell, column) in row.iter().zip(&self.columns) {
            let fits = match cell {
                Cell::Text(_) => column.kind == Kind::Text,
                Cell::Integer(_) => column.kind == Kind::Integer,
                Cell::Float(_) => column.kind == Kind::Float,
                Cell::Empty => true,
            };
            assert!(fits, "cell {cell:?} in column {column:?}");
        }
        self.rows.push(row);
    }
}
