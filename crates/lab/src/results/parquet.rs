//! Parquet, uncompressed, a row group for each part of a table: DuckDB, pandas
//! and polars read it as it is.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::{Cell, Column, Kind, Table};

/// A file that grows by parts of one table.
pub(super) struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> Writer<W> {
    /// A file of a table with `columns`. The bytes depend on the parts and
    /// Plumb's version alone.
    pub(super) fn new(columns: &[Column], out: W) -> Result<Self> {
        let fields = columns
            .iter()
            .map(|column| {
                let physical = match column.kind {
                    Kind::Text => Physical::BYTE_ARRAY,
                    Kind::Integer => Physical::INT64,
                    Kind::Float => Physical::DOUBLE,
                };
                let logical = match column.kind {
                    Kind::Text => Some(LogicalType::String),
                    Kind::Integer => Some(LogicalType::integer(64, false)),
                    Kind::Float => None,
                };
                let field = Type::primitive_type_builder(&column.name, physical)
                    .with_repetition(Repetition::OPTIONAL)
                    .with_logical_type(logical)
                    .build()?;
                Ok(Arc::new(field))
            })
            .collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(Type::group_type_builder("plumb").with_fields(fields).build()?);
        let properties =
            WriterProperties::builder().set_created_by(concat!("plumb ", env!("CARGO_PKG_VERSION")).to_owned()).build();
        Ok(Self { file: SerializedFileWriter::new(out, schema, Arc::new(properties))? })
    }

    /// Adds the rows of `table`, which has the file's columns.
    pub(super) fn write(&mut self, table: &Table) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        let mut index = 0;
        while let Some(mut column) = group.next_column()? {
            let cells = || table.rows.iter().map(|row| &row[index]);
            let levels: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::Empty)).collect();
            match table.columns[index].kind {
                Kind::Text => {
                    let text = |cell: &Cell| {
                        if let Cell::Text(text) = cell { Some(ByteArray::from(text.as_str())) } else { None }
                    };
                    let values: Vec<_> = cells().filter_map(text).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
                }
                Kind::Integer => {
                    let integer =
                        |cell: &Cell| if let Cell::Integer(value) = cell { Some(value.cast_signed()) } else { None };
                    let values: Vec<_> = cells().filter_map(integer).collect();
                    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                Kind::Float => {
                    let float = |cell: &Cell| if let Cell::Float(value) = cell { Some(*value) } else { None };
                    let values: Vec<_> = cells().filter_map(float).collect();
                    column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
            }
            column.close()?;
            index += 1;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the end of the file; what it was written to.
    pub(super) fn finish(self) -> Result<W> {
        self.file.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    #[test]
    fn reads_back() {
        let columns =
            [("name".to_owned(), Kind::Text), ("ops".to_owned(), Kind::Integer), ("mean_us".to_owned(), Kind::Float)];
        let mut table = Table::new(columns);
        table.push(vec![Cell::Text("é".to_owned()), Cell::Integer(u64::MAX), Cell::Float(1.5)]);
        table.push(vec![Cell::Empty, Cell::Integer(2), Cell::Empty]);
        let mut writer = Writer::new(&table.columns, Vec::new()).unwrap();
        writer.write(&table).unwrap();
        let file = writer.finish().unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            rows,
            ["{name: \"é\", ops: 18446744073709551615, mean_us: 1.5}", "{name: null, ops: 2, mean_us: null}"]
        );
    }
}
