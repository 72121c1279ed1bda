//! Where the fields of a tracepoint's record are: the `format` files of tracefs.

use std::path::Path;

use super::TracefsError;
use crate::FileError;

/// One field of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// From the record's beginning.
    pub offset_bytes: u16,
    /// One, two, four or eight.
    pub size_bytes: u8,
    /// Whether it has a sign.
    pub is_signed: bool,
}

/// A tracepoint of this kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    /// As `perf_event_open` wants it.
    pub(crate) id: u32,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Of `events/GROUP/NAME/format` below `tracefs` (see [`root`](super::root)); `None` if this kernel has no such tracepoint.
    ///
    /// # Errors
    /// If the file cannot be read, or has not the form that the kernel's `tracing/events.rst` gives.
    pub fn read(tracefs: &Path, group: &str, name: &str) -> Result<Option<Self>, TracefsError> {
        let path = tracefs.join("events").join(group).join(name).join("format");
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let why = "it has no ID and no fields as the kernel's tracing/events.rst says";
                Ok(Some(Self::parse(&text).ok_or(TracefsError::Format { path, why })?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FileError::of(path, "reading a tracepoint's format")(error).into()),
        }
    }

    /// Of a file's text; fields that are no numbers (strings, arrays) are left out.
    fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields: Vec<_> = text.lines().filter_map(field).collect();
        (!fields.is_empty()).then_some(Self { id, fields })
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|&(_, field)| field)
    }
}

/// `field:unsigned long i_ino; offset:8; size:8; signed:0;`, with tabs between the parts
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let name = parts.next()?.strip_prefix("field:")?.split_whitespace().next_back()?;
    let offset_bytes = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size_bytes = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    let is_signed = parts.next()?.strip_prefix("signed:")? == "1";
    let is_number = matches!(size_bytes, 1 | 2 | 4 | 8) && !name.contains('[');
    is_number.then(|| (name.to_owned(), Field { offset_bytes, size_bytes, is_signed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: page_cache_ra_order\nID: 618\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[16];\toffset:44;\tsize:16;\tsigned:0;\n\
        \tfield:unsigned long i_ino;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: \"dev=%d\", REC->i_ino\n";

    #[test]
    fn fields_are_read() {
        let format = Format::parse(TEXT).unwrap();
        assert_eq!(format.id, 618);
        assert_eq!(format.field("i_ino"), Some(Field { offset_bytes: 8, size_bytes: 8, is_signed: false }));
        assert_eq!(format.field("common_pid"), Some(Field { offset_bytes: 4, size_bytes: 4, is_signed: true }));
        assert_eq!((format.field("comm[16]"), format.field("ino")), (None, None));
        assert_eq!(Format::parse("ID: x\n"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "(ID: [0-9]{1,12}\n)?(\tfield:.{0,30};\toffset:[0-9]{1,9};\tsize:.{1,4};.{0,20}\n){0,4}") {
            let _ = Format::parse(&text);
        }
    }
}
