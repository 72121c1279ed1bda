//! What can be wrong with a trace.

use std::fmt;

use super::TraceFormat;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file system's answer.
    #[error("{file}: cannot read the trace: {source}")]
    Read {
        /// The trace.
        file: String,
        /// What the read said.
        source: std::io::Error,
    },
    /// A line is not what the format says.
    #[error("{place}: expected {expected}, found {found}{}", cut_note(*cut))]
    Syntax {
        /// Where.
        place: TraceLine,
        /// What the format has here.
        expected: String,
        /// What is there.
        found: String,
        /// Whether the file ends in this line without a newline, and so was probably cut.
        cut: bool,
    },
    /// The last line reads well but has no newline: digits may be missing.
    #[error(
        "{place}: the file ends inside this line, its last, so the trace was cut; copy it again in full, \
         or, if the line is known to be whole, end it with a newline"
    )]
    Truncated {
        /// The end of the file.
        place: TraceLine,
    },
    /// A line without end.
    #[error("{place}: the line is longer than {limit_bytes} bytes; this is not a text trace")]
    LineTooLong {
        /// Where it begins.
        place: TraceLine,
        /// The longest line taken.
        limit_bytes: usize,
    },
    /// Packed.
    #[error("{file}: the trace is compressed with gzip; unpack it first: gunzip {file}")]
    Compressed {
        /// The trace.
        file: String,
    },
    /// No format fits.
    #[error(
        "{place}: no known trace format begins with `{found}`; name the format: {}",
        TraceFormat::names().join(", ")
    )]
    UnknownFormat {
        /// The first line that is not blank.
        place: TraceLine,
        /// How it begins.
        found: String,
    },
    /// More than one disk, and none was chosen.
    #[error("{place}: this I/O is on disk `{found}`, those before on `{first}`; choose one disk to replay")]
    SecondDisk {
        /// Where.
        place: TraceLine,
        /// The disk of the I/Os before.
        first: String,
        /// The other disk.
        found: String,
    },
    /// Nothing to replay.
    #[error("{file}: the trace has no I/O on disk `{disk}`; {}", seen_note(seen.as_deref()))]
    NoSuchDisk {
        /// The trace.
        file: String,
        /// The disk asked for.
        disk: String,
        /// A disk that the trace has.
        seen: Option<String>,
    },
    /// Nothing at all in it.
    #[error("{file}: the trace has no I/O")]
    Empty {
        /// The trace.
        file: String,
    },
}

/// A place in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// The trace.
    pub file: String,
    /// Line, counted from 1.
    pub line: u64,
    /// Column in bytes, counted from 1.
    pub column: usize,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

fn cut_note(cut: bool) -> &'static str {
    if cut { "; the file ends inside this line, its last, so the trace was cut" } else { "" }
}

fn seen_note(seen: Option<&str>) -> String {
    seen.map_or_else(|| "it has no I/O at all".to_owned(), |seen| format!("it has some on `{seen}`"))
}
