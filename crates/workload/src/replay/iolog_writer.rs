//! fio's I/O logs, versions 2 and 3, written: to convert a trace or keep a run.

use std::io::{self, Write};

use block::BioFlags;
use units::Nanos;

use super::{IologVersion, Record, TraceOp};

/// Writes I/Os as an I/O log that fio reads back (`--read_iolog`).
///
/// Times count from the first I/O and are cut to what the version holds:
/// microseconds in version 3; milliseconds, as `wait` lines, in version 2. An
/// I/O earlier than one before it is given that one's time. Logs know no
/// PREFLUSH and FUA; a `datasync` before or after the write stands for them.
pub struct IologWriter<W> {
    out: W,
    version: IologVersion,
    file: String,
    /// Time of the first I/O.
    first: Option<Nanos>,
    /// Latest time written, from the first I/O.
    latest: Nanos,
    /// The `wait` in effect, in version 2.
    waited_ms: u64,
}

/// Why a log cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum IologWriteError {
    /// The file system's answer.
    #[error("cannot write the I/O log: {0}")]
    Io(#[from] io::Error),
    /// A file name that would not be one word of 255 bytes.
    #[error("`{0}` cannot name a file in an I/O log: fio takes 1 to 255 bytes without blanks")]
    FileName(String),
}

impl<W: Write> IologWriter<W> {
    /// Begins a log of I/O on `file`, as fio will open it.
    pub fn new(mut out: W, version: IologVersion, file: &str) -> Result<Self, IologWriteError> {
        let fits = (1..=255).contains(&file.len());
        if !fits || file.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(IologWriteError::FileName(file.to_owned()));
        }
        writeln!(out, "{}", version.header())?;
        let mut writer = Self { out, version, file: file.to_owned(), first: None, latest: Nanos::ZERO, waited_ms: 0 };
        writer.line("add", None)?;
        writer.line("open", None)?;
        Ok(writer)
    }

    /// Writes one I/O.
    pub fn write(&mut self, record: &Record) -> Result<(), IologWriteError> {
        let first = *self.first.get_or_insert(record.at);
        self.latest = self.latest.max(record.at.since(first));
        let now_ms = self.latest.0 / 1_000_000;
        if self.version == IologVersion::V2 && now_ms > self.waited_ms {
            self.waited_ms = now_ms;
            self.line("wait", Some((now_ms, 0)))?;
        }
        let action = match record.op {
            TraceOp::Read => "read",
            TraceOp::Write => "write",
            TraceOp::Trim => "trim",
            TraceOp::Sync => "sync",
            TraceOp::DataSync => "datasync",
        };
        let flagged = |flag| record.op.has_range() && record.flags.contains(flag);
        if flagged(BioFlags::PREFLUSH) {
            self.line("datasync", Some((0, 0)))?;
        }
        self.line(action, Some((record.offset, record.bytes)))?;
        if flagged(BioFlags::FUA) {
            self.line("datasync", Some((0, 0)))?;
        }
        Ok(())
    }

    /// Ends the log and hands the output back, flushed.
    pub fn finish(mut self) -> Result<W, IologWriteError> {
        self.line("close", None)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, action: &str, range: Option<(u64, u64)>) -> io::Result<()> {
        if self.version == IologVersion::V3 {
            write!(self.out, "{} ", self.latest.0 / 1_000)?;
        }
        write!(self.out, "{} {action}", self.file)?;
        match range {
            Some((offset, bytes)) => writeln!(self.out, " {offset} {bytes}"),
            None => writeln!(self.out),
        }
    }
}
