//! CSV (RFC 4180), with a header line.

use std::borrow::Cow;
use std::io::{self, Write};

use super::{Cell, Column, Table};

/// Writes the line of column names.
pub(super) fn write_header(columns: &[Column], out: &mut impl Write) -> io::Result<()> {
    line(columns.iter().map(|column| field(&column.name)), out)
}

/// Writes the rows of `table`. Floats are the shortest text that reads back the same.
pub(super) fn write_rows(table: &Table, out: &mut impl Write) -> io::Result<()> {
    for row in &table.rows {
        line(row.iter().map(cell), out)?;
    }
    Ok(())
}

fn cell(cell: &Cell) -> Cow<'_, str> {
    match cell {
        Cell::Text(text) => field(text),
        Cell::Integer(value) => value.to_string().into(),
        Cell::Float(value) => value.to_string().into(),
        Cell::Empty => "".into(),
    }
}

fn line<'a>(fields: impl Iterator<Item = Cow<'a, str>>, out: &mut impl Write) -> io::Result<()> {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        out.write_all(field.as_bytes())?;
    }
    out.write_all(b"\r\n")
}

/// Text as a field, quoted where it must be.
///
/// A spreadsheet takes a field for a formula, and runs it, that begins as one
/// does; names of jobs and swept values come from others. A quote before it
/// keeps it text. A number is none.
pub(crate) fn field(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text: Cow<'_, str> = if formula { format!("'{text}").into() } else { text.into() };
    if text.contains([',', '"', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")).into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn quotes_and_empties() {
        let mut table = Table::new([("a".to_owned(), Kind::Text), ("b".to_owned(), Kind::Float)]);
        table.push(vec![Cell::Text("x,\"y\"".to_owned()), Cell::Float(0.1)]);
        table.push(vec![Cell::Empty, Cell::Empty]);
        let mut out = Vec::new();
        write_header(&table.columns, &mut out).unwrap();
        write_rows(&table, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a,b\r\n\"x,\"\"y\"\"\",0.1\r\n,\r\n");
    }

    #[test]
    fn nothing_becomes_a_formula() {
        for (text, written) in [
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-cmd", "'-cmd"),
            ("+1+1", "'+1+1"),
            ("\t=1", "'\t=1"),
            ("-5", "-5"),
            ("a=1", "a=1"),
            ("", ""),
        ] {
            assert_eq!(field(text), written);
        }
    }
}
