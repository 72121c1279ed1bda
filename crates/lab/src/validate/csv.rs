//! Tables of comma-separated values (RFC 4180), read with their line numbers.

use std::path::{Path, PathBuf};

/// A table as it stands in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    /// The file, for messages.
    pub origin: String,
    /// Names in the header line, lower case.
    pub columns: Vec<String>,
    /// The rows, each with as many cells as there are columns.
    pub rows: Vec<SheetRow>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetRow {
    /// The line it begins on, from 1.
    pub line: usize,
    cells: Vec<String>,
}

/// Why a file is no table.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Bytes that are no text.
    #[error("{origin}: it is not UTF-8 text; save the table as CSV in UTF-8")]
    NotText {
        /// The file.
        origin: String,
    },
    /// No header line.
    #[error("{origin}: it is empty; the first line must name the columns")]
    Empty {
        /// The file.
        origin: String,
    },
    /// Two columns of one name.
    #[error("{origin}: two columns are called `{column}`; rename one")]
    Twice {
        /// The file.
        origin: String,
        /// The name.
        column: String,
    },
    /// A row of another length than the header.
    #[error("{origin}, line {line}: {found} cells under {wanted} columns; quote cells that hold a comma")]
    Ragged {
        /// The file.
        origin: String,
        /// The line.
        line: usize,
        /// Cells found.
        found: usize,
        /// Columns.
        wanted: usize,
    },
    /// A quote without its partner, or amid a cell.
    #[error("{origin}, line {line}: a quote that does not enclose a cell; double it inside a quoted cell")]
    Quote {
        /// The file.
        origin: String,
        /// The line.
        line: usize,
    },
    /// A cell that should be a number.
    #[error(
        "{origin}, line {line}: `{column}` is `{cell}`, which is not a number from 0 on; leave the cell empty where nothing was measured"
    )]
    Number {
        /// The file.
        origin: String,
        /// The line.
        line: usize,
        /// The column.
        column: String,
        /// What is there.
        cell: String,
    },
}

impl Sheet {
    /// The table in the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read or is no table.
    pub fn read(path: &Path) -> Result<Self, CsvError> {
        let bytes = std::fs::read(path).map_err(|source| CsvError::Read { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &bytes)
    }

    /// The table in `bytes`; `origin` is what messages call it.
    ///
    /// # Errors
    /// When it is no table.
    pub fn parse(origin: &str, bytes: &[u8]) -> Result<Self, CsvError> {
        let text = std::str::from_utf8(bytes).map_err(|_| CsvError::NotText { origin: origin.to_owned() })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut records = records(origin, text)?.into_iter();
        let header = records.next().ok_or_else(|| CsvError::Empty { origin: origin.to_owned() })?;
        let columns: Vec<String> = header.cells.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        for (index, column) in columns.iter().enumerate() {
            if columns[..index].contains(column) {
                return Err(CsvError::Twice { origin: origin.to_owned(), column: column.clone() });
            }
        }
        let rows: Vec<SheetRow> = records.collect();
        for row in &rows {
            if row.cells.len() != columns.len() {
                return Err(CsvError::Ragged {
                    origin: origin.to_owned(),
                    line: row.line,
                    found: row.cells.len(),
                    wanted: columns.len(),
                });
            }
        }
        Ok(Self { origin: origin.to_owned(), columns, rows })
    }

    /// Whether every one of these columns is there.
    pub fn has(&self, columns: &[&str]) -> bool {
        columns.iter().all(|column| self.index(column).is_some())
    }

    fn index(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|known| known == column)
    }

    /// A cell as text; empty where there is no such column.
    pub fn text<'a>(&self, row: &'a SheetRow, column: &str) -> &'a str {
        self.index(column).map_or("", |index| row.cells[index].trim())
    }

    /// A cell as a number; `None` where it is empty or there is no such column.
    ///
    /// # Errors
    /// When it holds something else.
    pub fn number(&self, row: &SheetRow, column: &str) -> Result<Option<f64>, CsvError> {
        let cell = self.text(row, column);
        if cell.is_empty() {
            return Ok(None);
        }
        match cell.parse::<f64>() {
            // Nothing that is measured here can be negative.
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(Some(value)),
            _ => Err(CsvError::Number {
                origin: self.origin.clone(),
                line: row.line,
                column: column.to_owned(),
                cell: cell.to_owned(),
            }),
        }
    }
}

/// The records of a text, blank lines left out.
fn records(origin: &str, text: &str) -> Result<Vec<SheetRow>, CsvError> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while !rest.is_empty() {
        let begins = line;
        let mut cells = Vec::new();
        loop {
            let (cell, after, lines) = cell(rest).ok_or(CsvError::Quote { origin: origin.to_owned(), line: begins })?;
            cells.push(cell);
            line += lines;
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix("\r\n").or_else(|| after.strip_prefix(['\n', '\r'])).unwrap_or(after);
                    line += 1;
                    break;
                }
            }
        }
        if cells.len() > 1 || !cells[0].trim().is_empty() {
            found.push(SheetRow { line: begins, cells });
        }
    }
    Ok(found)
}

/// The cell at the start of `text`, what follows it, and the line ends in it.
fn cell(text: &str) -> Option<(String, &str, usize)> {
    let Some(mut quoted) = text.strip_prefix('"') else {
        let end = text.find([',', '\n', '\r']).unwrap_or(text.len());
        let (cell, after) = text.split_at(end);
        return (!cell.contains('"')).then(|| (cell.to_owned(), after, 0));
    };
    let mut cell = String::new();
    loop {
        let (part, after) = quoted.split_once('"')?;
        cell += part;
        let Some(more) = after.strip_prefix('"') else {
            let lines = cell.matches('\n').count();
            return (after.is_empty() || after.starts_with([',', '\n', '\r'])).then_some((cell, after, lines));
        };
        cell.push('"');
        quoted = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_blank_lines_and_line_numbers() {
        let text = b"\xef\xbb\xbfA,b \r\n\r\n1,\"x, \"\"y\"\"\nz\"\n2,\n";
        let sheet = Sheet::parse("t.csv", text).unwrap();
        assert_eq!(sheet.columns, ["a", "b"]);
        assert_eq!(sheet.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(sheet.text(&sheet.rows[0], "b"), "x, \"y\"\nz");
        assert_eq!(sheet.number(&sheet.rows[1], "a").unwrap(), Some(2.0));
        assert_eq!(sheet.number(&sheet.rows[1], "b").unwrap(), None);
        assert!(sheet.has(&["b", "a"]) && !sheet.has(&["a", "c"]));
    }

    #[test]
    fn faults_name_file_and_line() {
        let said = |text: &[u8]| Sheet::parse("t.csv", text).unwrap_err().to_string();
        for (text, what) in [
            (&b""[..], "it is empty"),
            (b"a,b\n1\n", "line 2: 1 cells under 2 columns"),
            (b"a,A\n", "two columns are called `a`"),
            (b"a\n\"x", "line 2: a quote"),
            (b"a\nx\"y\n", "line 2: a quote"),
            (b"a\n\"x\"y\n", "line 2: a quote"),
            (b"\xff\xfe", "not UTF-8"),
        ] {
            let said = said(text);
            assert!(said.starts_with("t.csv") && said.contains(what), "{said}");
        }
        let sheet = Sheet::parse("t.csv", b"a\nx\nNaN\n-5\n").unwrap();
        for row in &sheet.rows {
            assert!(sheet.number(row, "a").unwrap_err().to_string().contains("`a` is `"));
        }
    }
}
