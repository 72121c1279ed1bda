//! fio's I/O logs, versions 2 and 3, read.
//!
//! Source: "Trace file format" in fio's manual (fio 3.33), and for times what
//! fio 3.33 does: version 3 timestamps are microseconds since the run's start;
//! version 2's `wait` holds everything after it until that many *milliseconds*
//! after the run's start. (The manual says microseconds since the previous
//! `wait`; fio has never replayed it so.)

use std::collections::BTreeMap;

use block::BioFlags;
use units::Nanos;

use super::fields::{Field, Fields, Unexpected};
use super::{Disk, Record, TraceOp};

/// Files that one log may name.
const MAX_FILES: usize = 65_536;

/// Version of an I/O log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IologVersion {
    /// Without timestamps; time passes only in `wait` lines. From fio 1.17.
    V2,
    /// A timestamp on every line. From fio 3.31.
    V3,
}

impl IologVersion {
    /// The first line of a log.
    pub const fn header(self) -> &'static str {
        match self {
            Self::V2 => "fio version 2 iolog",
            Self::V3 => "fio version 3 iolog",
        }
    }
}

/// Follows a log's file actions and its clock.
pub(super) struct IologParser {
    version: IologVersion,
    /// Files added, and whether they are open.
    files: BTreeMap<Vec<u8>, bool>,
    /// The clock of version 2: how long the last `wait` holds back what follows.
    waited: Nanos,
}

impl IologParser {
    pub(super) fn new(version: IologVersion) -> Self {
        Self { version, files: BTreeMap::new(), waited: Nanos::ZERO }
    }

    /// Takes one line; `None` for lines that are not I/O.
    pub(super) fn parse<'a>(&mut self, line: &'a [u8], number: u64) -> Result<Option<(Disk<'a>, Record)>, Unexpected> {
        let mut fields = Fields::new(line);
        if line == self.version.header().as_bytes() {
            let whole = Field { text: line, column: 1 };
            return Err(whole.unexpected("one log (fio appends to a log that is there: split this file here)"));
        }
        let stamp = match self.version {
            IologVersion::V2 => None,
            IologVersion::V3 => {
                let expected = "a timestamp in microseconds";
                Some(Nanos(fields.need_word(expected)?.scaled(1_000, expected)?))
            }
        };
        let file = fields.need_word("a file name")?;
        let action = fields.need_word("an action")?;
        if let b"add" | b"open" | b"close" = action.text {
            self.file_action(file, action)?;
            return end(fields, None);
        }
        let op = match action.text {
            b"read" => Some(TraceOp::Read),
            b"write" => Some(TraceOp::Write),
            b"trim" => Some(TraceOp::Trim),
            b"sync" => Some(TraceOp::Sync),
            b"datasync" => Some(TraceOp::DataSync),
            b"wait" if stamp.is_none() => None,
            _ => return Err(action.unexpected(self.known_actions())),
        };
        let first = fields.need_word("an offset")?;
        let second = fields.need_word("a length")?;
        let Some(op) = op else {
            let expected = "milliseconds since the start";
            self.waited = self.waited.max(Nanos(first.scaled(1_000_000, expected)?));
            second.u64("a number")?;
            return end(fields, None);
        };
        if self.files.get(file.text) != Some(&true) {
            return Err(file.unexpected("a file that is open (`add` and `open` come before its I/O)"));
        }
        let offset = first.u64("an offset in bytes")?;
        let (offset, bytes) = if op.has_range() {
            (offset, second.length(1, offset)?)
        } else {
            // fio logs the position of the write before; a flush has none.
            second.u64("a length in bytes")?;
            (0, 0)
        };
        let at = stamp.unwrap_or(self.waited);
        let record = Record { at, op, offset, bytes, flags: BioFlags::empty(), cpu: None, line: number };
        end(fields, Some((Disk { host: None, name: file.text }, record)))
    }

    fn file_action(&mut self, file: Field<'_>, action: Field<'_>) -> Result<(), Unexpected> {
        let full = self.files.len() >= MAX_FILES;
        match (action.text, self.files.get_mut(file.text)) {
            (b"add", None) if full => {
                return Err(file.unexpected(format!("at most {MAX_FILES} files")));
            }
            (b"add", None) => {
                self.files.insert(file.text.to_vec(), false);
            }
            // Several jobs may log into one file, and each adds it.
            (b"add", Some(_)) => {}
            (b"open", Some(open)) => *open = true,
            (b"close", Some(open)) if *open => *open = false,
            (b"open", None) => return Err(file.unexpected("a file that was added")),
            (_, _) => return Err(file.unexpected("a file that is open")),
        }
        Ok(())
    }

    fn known_actions(&self) -> &'static str {
        match self.version {
            IologVersion::V2 => "one of add, open, close, read, write, trim, sync, datasync, wait",
            IologVersion::V3 => "one of add, open, close, read, write, trim, sync, datasync (version 3 has no wait)",
        }
    }
}

/// Hands over what was parsed if the line ends here.
fn end<T>(mut fields: Fields<'_>, parsed: T) -> Result<T, Unexpected> {
    match fields.word() {
        Some(more) => Err(more.unexpected("the end of the line")),
        None => Ok(parsed),
    }
}
