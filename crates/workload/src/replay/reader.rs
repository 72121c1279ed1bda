//! Reads a trace of any format, one I/O at a time.

use std::io::BufRead;

use super::disk::Selection;
use super::fields::{Unexpected, quoted};
use super::iolog::IologParser;
use super::lines::{LIMIT_BYTES, Lines, ReadLine};
use super::{BlkAction, Disk, Record, TraceError, TraceFormat, TraceLine, alibaba, blkparse, msr};

/// How gzip's files begin (RFC 1952), as which public traces are handed out.
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";

/// How to read a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format; `None` to tell by the first line.
    pub format: Option<TraceFormat>,
    /// The disk to read: a file of an iolog, `major,minor` of blkparse, a
    /// device_id of Alibaba, a disk number or `host_number` of MSR. Without it a
    /// trace must have one disk only.
    pub disk: Option<String>,
    /// The event of blkparse that stands for an I/O.
    pub action: BlkAction,
}

/// The I/Os of a trace in the file's order, read as they are asked for: a trace
/// of any length takes the memory of one line. Ends after the first error.
pub struct TraceReader<R> {
    file: String,
    format: TraceFormat,
    parser: Parser,
    lines: Lines<R>,
    /// The line in the buffer is yet to be parsed.
    pending: bool,
    selection: Selection,
    done: bool,
}

enum Parser {
    Iolog(IologParser),
    Blkparse(BlkAction),
    Msr,
    Alibaba,
}

/// What a line means to the reader.
enum Step<'a> {
    Io(Disk<'a>, Record),
    Skip,
    End,
}

impl<R: BufRead> TraceReader<R> {
    /// Begins to read `input`, which errors will call `file`.
    pub fn new(file: impl Into<String>, input: R, options: &ReadOptions) -> Result<Self, TraceError> {
        let file = file.into();
        let mut lines = Lines::new(input);
        loop {
            let more = next_line(&file, &mut lines);
            if lines.line().starts_with(GZIP_MAGIC) {
                return Err(TraceError::Compressed { file });
            }
            if !more? || !lines.line().trim_ascii().is_empty() {
                break;
            }
        }
        let first = lines.line();
        if lines.number() == 0 || first.trim_ascii().is_empty() {
            return Err(TraceError::Empty { file });
        }
        let place = TraceLine { file: file.clone(), line: lines.number(), column: 1 };
        let unknown = || TraceError::UnknownFormat {
            place: place.clone(),
            found: first[..first.len().min(60)].escape_ascii().to_string(),
        };
        let format = options.format.or_else(|| TraceFormat::detect(first)).ok_or_else(unknown)?;
        let parser = match format {
            TraceFormat::Iolog(version) => {
                if first != version.header().as_bytes() {
                    let (expected, found) = (format!("`{}`", version.header()), quoted(first));
                    return Err(TraceError::Syntax { place, expected, found, cut: !lines.ended() });
                }
                Parser::Iolog(IologParser::new(version))
            }
            TraceFormat::Blkparse => Parser::Blkparse(options.action),
            TraceFormat::Msr => Parser::Msr,
            TraceFormat::Alibaba => Parser::Alibaba,
        };
        let pending = !matches!(format, TraceFormat::Iolog(_)) && !format.is_header(first);
        let selection = match &options.disk {
            Some(name) => Selection::Named { name: name.clone(), found: false, other: None },
            None => Selection::Only(None),
        };
        Ok(Self { file, format, parser, lines, pending, selection, done: false })
    }

    /// The trace's name, as errors give it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The format, given or found.
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if !std::mem::take(&mut self.pending) && !next_line(&self.file, &mut self.lines)? {
                return self.end();
            }
            let (line, number) = (self.lines.line(), self.lines.number());
            if line.trim_ascii().is_empty() {
                continue;
            }
            let place = |column| TraceLine { file: self.file.clone(), line: number, column };
            let cut = !self.lines.ended();
            let step = self.parser.parse(line, number).map_err(|Unexpected { column, expected, found }| {
                TraceError::Syntax { place: place(column), expected, found, cut }
            })?;
            let (disk, record) = match step {
                Step::End => return self.end(),
                _ if cut => return Err(TraceError::Truncated { place: place(line.len() + 1) }),
                Step::Skip => continue,
                Step::Io(disk, record) => (disk, record),
            };
            match self.selection.takes(disk) {
                Ok(true) => return Ok(Some(record)),
                Ok(false) => {}
                Err(first) => {
                    return Err(TraceError::SecondDisk { place: place(1), first, found: disk.to_string() });
                }
            }
        }
    }

    /// The end of the trace, which must have had something to replay.
    fn end(&self) -> Result<Option<Record>, TraceError> {
        let file = self.file.clone();
        match &self.selection {
            Selection::Only(None) => Err(TraceError::Empty { file }),
            Selection::Named { name, found: false, other } => {
                Err(TraceError::NoSuchDisk { file, disk: name.clone(), seen: other.clone() })
            }
            Selection::Only(Some(_)) | Selection::Named { .. } => Ok(None),
        }
    }
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.read().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Parser {
    fn parse<'a>(&mut self, line: &'a [u8], number: u64) -> Result<Step<'a>, Unexpected> {
        let (disk, record) = match self {
            Self::Iolog(iolog) => match iolog.parse(line, number)? {
                Some(io) => io,
                None => return Ok(Step::Skip),
            },
            Self::Blkparse(action) => match blkparse::parse(line, number, *action)? {
                blkparse::Event::Io(disk, record) => (disk, record),
                blkparse::Event::Other => return Ok(Step::Skip),
                blkparse::Event::Summary => return Ok(Step::End),
            },
            Self::Msr => msr::parse(line, number)?,
            Self::Alibaba => alibaba::parse(line, number)?,
        };
        Ok(Step::Io(disk, record))
    }
}

/// Reads the next line; `false` at the end of the file.
fn next_line<R: BufRead>(file: &str, lines: &mut Lines<R>) -> Result<bool, TraceError> {
    match lines.read() {
        Ok(ReadLine::Line) => Ok(true),
        Ok(ReadLine::End) => Ok(false),
        Ok(ReadLine::TooLong) => Err(TraceError::LineTooLong {
            place: TraceLine { file: file.to_owned(), line: lines.number(), column: 1 },
            limit_bytes: LIMIT_BYTES,
        }),
        Err(source) => Err(TraceError::Read { file: file.to_owned(), source }),
    }
}
