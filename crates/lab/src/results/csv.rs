//! CSV (RFC 4180), with a header line.

use std::io::{self, Write};

use super::{Cell, Table};

/// Writes `table`. Floats are the shortest text that reads back the same.
pub(super) fn write(table: &Table, out: &mut impl Write) -> io::Result<()> {
    let header: Vec<_> = table.columns.iter().map(|column| quote(&column.name)).collect();
    write!(out, "{}\r\n", header.join(","))?;
    for row in &table.rows {
        let cells: Vec<_> = row
            .iter()
            .map(|cell| match cell {
                Cell::Text(text) => quote(text),
                Cell::Integer(value) => value.to_string(),
                Cell::Float(value) => value.to_string(),
                Cell::Empty => String::new(),
            })
            .collect();
        write!(out, "{}\r\n", cells.join(","))?;
    }
    Ok(())
}

fn quote(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
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
        write(&table, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a,b\r\n\"x,\"\"y\"\"\",0.1\r\n,\r\n");
    }
}
