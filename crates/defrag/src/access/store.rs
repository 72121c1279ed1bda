//! The trace file: one JSON value a line.
//!
//! ```text
//! {"header":{"version":1,"source":"bpf"}}
//! {"file":{"device":"7:0","inode":12,"generation":305419896,"path":"/mnt/photographs.db"}}
//! {"access":{"file":0,"kind":"buffered-read","start":0,"length":4096,"count":3}}
//! {"end":{"files":1,"accesses":1,"lost":0,"unresolved":0}}
//! ```
//!
//! - `header` comes first. `source` is what made the trace.
//! - `file` describes one file; the first described is number 0, and so on. `device` is
//!   `st_dev` as major:minor. `generation` (`FS_IOC_GETVERSION`) and `path` are there if
//!   they were known; a path that is not UTF-8 is `path_hex`, two digits a byte.
//! - `access` follows the `file` that it names. `kind` is one of `buffered-read`,
//!   `buffered-write`, `direct-read`, `direct-write`, `mapped`, `readahead`; `start` and
//!   `length` are bytes; `count` says how often. No two have the same file, kind and range.
//!   They are in the order of their first appearance.
//! - `end` comes last and counts the lines of each kind, so that a file cut short is seen.
//!   `lost` and `unresolved` are events that could not be recorded.
//!
//! A change that old readers would misunderstand makes the version higher; they refuse it.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::TraceError;
use super::model::Trace;
use crate::{Access, ByteRange, FileId, IoKind};

/// Of the format.
pub const VERSION: u32 = 1;
/// A path of PATH_MAX bytes, each of them escaped, and the rest of its line.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// More lines are refused, so that no file fills the memory.
const MAX_LINES: u64 = 32 << 20;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    Header(Header),
    File(FileLine),
    Access(AccessLine),
    End(End),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
    source: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLine {
    device: String,
    inode: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessLine {
    file: usize,
    kind: IoKind,
    start: u64,
    length: u64,
    count: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    files: u64,
    accesses: u64,
    lost: u64,
    unresolved: u64,
}

impl Trace {
    /// Reads a trace file.
    ///
    /// # Errors
    /// [`TraceError::File`] if it cannot be read, [`TraceError::Line`] at the first line
    /// that is not as the format says.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        Ok(Self::load_identified(path)?.0)
    }

    /// The same, with the BLAKE3 of what was read, in hexadecimal digits: whatever takes the file's place meanwhile, it is
    /// that of this trace.
    ///
    /// # Errors
    /// As [`Trace::load`].
    pub fn load_identified(path: &Path) -> Result<(Self, String), TraceError> {
        let inner = File::open(path).map_err(TraceError::file(path, "opening the trace"))?;
        let mut hashed = Hashed { inner, hasher: blake3::Hasher::new() };
        let trace = Self::parse(BufReader::new(&mut hashed), path)?;
        Ok((trace, hashed.hasher.finalize().to_hex().to_string()))
    }

    /// Reads a trace; `path` is for the messages.
    ///
    /// # Errors
    /// As [`Trace::load`].
    pub fn parse(mut input: impl BufRead, path: &Path) -> Result<Self, TraceError> {
        let mut reader = Reader::default();
        let mut text = Vec::new();
        for line in 1..=MAX_LINES {
            text.clear();
            let taken = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut text);
            let at = |why: String| TraceError::Line { path: path.to_owned(), line, why };
            if taken.map_err(TraceError::file(path, "reading the trace"))? == 0 {
                return reader.finish().map_err(at);
            }
            if !text.ends_with(b"\n") {
                return Err(at("it has no end: the file was cut short, or is no trace of Plumb's".into()));
            }
            reader.line(&text).map_err(at)?;
        }
        Err(TraceError::Line { path: path.to_owned(), line: MAX_LINES, why: "there are too many lines".into() })
    }

    /// Writes a trace file: first beside `path`, then, when all of it is on the disk, in
    /// its place.
    ///
    /// # Errors
    /// [`TraceError::File`] if that fails; what was at `path` then is there still.
    pub fn save(&self, path: &Path) -> Result<(), TraceError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let written = self.save_beside(&partial).and_then(|()| std::fs::rename(&partial, path));
        written.map_err(|error| {
            // Nothing more can be done if it cannot be removed either.
            let _ = std::fs::remove_file(&partial);
            TraceError::File { path: path.to_owned(), what: "writing the trace", error }
        })
    }

    fn save_beside(&self, partial: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(File::create(partial)?);
        self.write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    /// Writes the trace. `accesses` to a file that is not in `files` give it a line
    /// without a path.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        put(out, &Line::Header(Header { version: VERSION, source: self.source.clone() }))?;
        let mut numbers: BTreeMap<FileId, usize> = BTreeMap::new();
        let unlisted = self.accesses.iter().map(|access| (&access.file, &None));
        for (file, path) in self.files.iter().chain(unlisted) {
            let next = numbers.len();
            if numbers.contains_key(file) {
                continue;
            }
            numbers.insert(*file, next);
            put(out, &Line::File(FileLine::of(*file, path.as_deref())))?;
        }
        for Access { file, range, kind, count } in &self.accesses {
            let file = numbers.get(file).copied().unwrap_or_default();
            let (start, length) = (range.start, range.len());
            put(out, &Line::Access(AccessLine { file, kind: *kind, start, length, count: *count }))?;
        }
        let (files, accesses) = (numbers.len() as u64, self.accesses.len() as u64);
        put(out, &Line::End(End { files, accesses, lost: self.lost, unresolved: self.unresolved }))?;
        out.flush()
    }
}

/// Hashes what is read.
struct Hashed<R> {
    inner: R,
    hasher: blake3::Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

fn put(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// The lines so far.
#[derive(Default)]
struct Reader {
    trace: Trace,
    has_header: bool,
    end: Option<End>,
    files: Vec<FileId>,
    known: HashSet<(usize, IoKind, ByteRange)>,
}

impl Reader {
    fn line(&mut self, text: &[u8]) -> Result<(), String> {
        let line: Line = serde_json::from_slice(text).map_err(|error| match self.has_header {
            true => error.to_string(),
            false => "this is no trace of `plumb defrag trace`, which begins with a `header`".into(),
        })?;
        if self.end.is_some() {
            return Err("nothing may follow the `end`".into());
        }
        if self.has_header == matches!(line, Line::Header(_)) {
            return Err("a trace has one `header`, in its first line".into());
        }
        match line {
            Line::Header(header) if header.version != VERSION => {
                return Err(format!("version {} is not version {VERSION}, which this Plumb reads", header.version));
            }
            Line::Header(header) => {
                self.has_header = true;
                self.trace.source = header.source;
            }
            Line::File(line) => self.file(&line)?,
            Line::Access(line) => self.access(&line)?,
            Line::End(end) => self.end = Some(end),
        }
        Ok(())
    }

    fn file(&mut self, line: &FileLine) -> Result<(), String> {
        let id = line.id()?;
        if self.trace.files.insert(id, line.path()?).is_some() {
            return Err(format!("{id} is described twice"));
        }
        self.files.push(id);
        Ok(())
    }

    fn access(&mut self, line: &AccessLine) -> Result<(), String> {
        let number = line.file;
        let Some(&file) = self.files.get(number) else {
            return Err(format!("there is no file {number}: {} are described above", self.files.len()));
        };
        let range = ByteRange::new(line.start, line.length).ok_or("the range ends beyond 64 bits")?;
        if range.is_empty() || line.count == 0 {
            return Err("an access has at least one byte and a count of at least one".into());
        }
        if !self.known.insert((number, line.kind, range)) {
            return Err("an access with this file, kind and range is there already: add the counts".into());
        }
        self.trace.accesses.push(Access { file, range, kind: line.kind, count: line.count });
        Ok(())
    }

    fn finish(mut self) -> Result<Trace, String> {
        let end = self.end.ok_or("there is no `end`: the file was cut short, or is no trace of Plumb's")?;
        if (end.files, end.accesses) != (self.files.len() as u64, self.trace.accesses.len() as u64) {
            return Err("the `end` counts other lines than there are: some are missing".into());
        }
        self.trace.lost = end.lost;
        self.trace.unresolved = end.unresolved;
        Ok(self.trace)
    }
}

impl FileLine {
    fn of(file: FileId, path: Option<&Path>) -> Self {
        let text = path.and_then(Path::to_str).map(str::to_owned);
        let bytes = path.filter(|_| text.is_none()).map(|path| path.as_os_str().as_bytes());
        Self {
            device: format!("{}:{}", rustix::fs::major(file.device), rustix::fs::minor(file.device)),
            inode: file.inode,
            generation: file.generation,
            path: text,
            path_hex: bytes.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    fn id(&self) -> Result<FileId, String> {
        let numbers = self.device.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (major, minor) = numbers.ok_or_else(|| format!("`{}` is no device: write 8:1", self.device))?;
        Ok(FileId { device: rustix::fs::makedev(major, minor), inode: self.inode, generation: self.generation })
    }

    fn path(&self) -> Result<Option<PathBuf>, String> {
        match (&self.path, &self.path_hex) {
            (Some(_), Some(_)) => Err("give `path` or `path_hex`, not both".into()),
            (None, Some(hex)) => {
                let wrong = || format!("`{hex}` is no path in hexadecimal digits, two a byte");
                let pairs = hex.as_bytes().chunks(2).map(|pair| match pair {
                    [a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                        u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
                    }
                    _ => None,
                });
                let bytes: Vec<u8> = pairs.collect::<Option<_>>().ok_or_else(wrong)?;
                Ok(Some(OsString::from_vec(bytes).into()))
            }
            (path, None) => Ok(path.as_ref().map(PathBuf::from)),
        }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
