//! The journal's lines: a JSON value each, and behind a tab the first 16 hexadecimal digits of its BLAKE3.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

use super::super::origin::Origin;
use super::super::report::FileOutcome;
use crate::migrate::Moved;
use crate::plan::FilePlan;

/// Of the format. The first had no origin, no checks and no outcomes of files.
pub const VERSION: u32 = 2;
/// Longest line: the plan of a file with a million moves has less.
const MAX_LINE_BYTES: u64 = 256 << 20;
/// Longest first line, whatever the file is: a head has its paths, of at most 4 KiB each.
const MAX_HEAD_BYTES: u64 = 64 << 20;
/// What the first line of every version begins with.
const BEGINNING: &[u8] = b"{\"plumb_defrag_journal\":";
/// Hexadecimal digits of a line's check.
const CHECK_DIGITS: usize = 16;

/// What any version begins with.
#[derive(Deserialize)]
struct AnyHead {
    plumb_defrag_journal: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub plumb_defrag_journal: u32,
    pub files: u64,
    pub origin: Origin,
}

/// What was done: a line each.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Note {
    /// A range was dealt with. Files and moves are counted from zero.
    Range { file: u64, r#move: u64, moved: Moved },
    /// A file was left with ranges that were not.
    File { file: u64, outcome: FileOutcome },
}

/// What a journal has.
#[derive(Debug)]
pub struct Contents {
    pub origin: Origin,
    pub files: Vec<FilePlan>,
    pub done: BTreeMap<(u64, u64), Moved>,
    pub outcomes: BTreeMap<u64, FileOutcome>,
    /// Bytes of whole lines.
    pub good_bytes: u64,
}

/// Why there are none.
#[derive(Debug)]
pub enum Unread {
    /// The system did not let it be read.
    Io(io::Error),
    /// It is no journal of any version.
    Foreign,
    /// It is one, of which this line cannot be used.
    Damaged { line: u64, why: String },
}

/// A value as a line.
pub fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    let check = check(&line);
    line.push(b'\t');
    line.extend_from_slice(check.as_bytes());
    line.push(b'\n');
    Ok(line)
}

fn check(json: &[u8]) -> String {
    let mut digits = blake3::hash(json).to_hex().to_string();
    digits.truncate(CHECK_DIGITS);
    digits
}

/// Reads all of it. Of what was done, what comes after a line that is cut off or damaged, as a machine without power may
/// leave it, is taken as not done.
pub fn read(reader: &mut dyn BufRead) -> Result<Contents, Unread> {
    let mut lines = Lines { reader, number: 0, good_bytes: 0 };
    let text = match lines.next(MAX_HEAD_BYTES)? {
        Ok(text) => text,
        Err(cut) if cut.starts_with(BEGINNING) => return Err(lines.damaged(&"the first line is cut off")),
        Err(_) => return Err(Unread::Foreign),
    };
    // Without its check: another version may have none.
    let json = text.split(|&byte| byte == b'\t' || byte == b'\n').next().unwrap_or_default();
    let any: AnyHead = match serde_json::from_slice(json) {
        Ok(any) => any,
        Err(error) if json.starts_with(BEGINNING) => return Err(lines.damaged(&error)),
        Err(_) => return Err(Unread::Foreign),
    };
    if any.plumb_defrag_journal != VERSION {
        return Err(lines.damaged(&format!("version {} is not known, {VERSION} is", any.plumb_defrag_journal)));
    }
    let head: Head = lines.value(&text)?;
    let mut files = Vec::new();
    for _ in 0..head.files {
        let Ok(text) = lines.next(MAX_LINE_BYTES)? else { return Err(lines.damaged(&"the plan is cut off")) };
        files.push(lines.value::<FilePlan>(&text)?);
    }
    let mut contents = Contents {
        origin: head.origin,
        files,
        done: BTreeMap::new(),
        outcomes: BTreeMap::new(),
        good_bytes: lines.good_bytes,
    };
    while let Ok(text) = lines.next(MAX_LINE_BYTES)? {
        let Ok(note) = lines.value::<Note>(&text) else { break };
        contents.add(note).map_err(|why| lines.damaged(&why))?;
        contents.good_bytes = lines.good_bytes;
    }
    Ok(contents)
}

impl Contents {
    fn add(&mut self, note: Note) -> Result<(), &'static str> {
        let (Note::Range { file, .. } | Note::File { file, .. }) = &note;
        let plan = usize::try_from(*file).ok().and_then(|file| self.files.get(file));
        let plan = plan.ok_or("there is no such file in its plan")?;
        match note {
            Note::Range { r#move, .. } if r#move >= plan.moves.len() as u64 => {
                return Err("there is no such move in its plan");
            }
            Note::Range { file, r#move, moved } => drop(self.done.insert((file, r#move), moved)),
            Note::File { file, outcome } => drop(self.outcomes.insert(file, outcome)),
        }
        Ok(())
    }
}

struct Lines<'a> {
    reader: &'a mut dyn BufRead,
    number: u64,
    good_bytes: u64,
}

impl Lines<'_> {
    /// The next line, or what is left of one that is cut off.
    fn next(&mut self, max_bytes: u64) -> Result<Result<Vec<u8>, Vec<u8>>, Unread> {
        let mut line = Vec::new();
        let read = io::Read::take(&mut *self.reader, max_bytes).read_until(b'\n', &mut line).map_err(Unread::Io)?;
        self.number += 1;
        if line.last() != Some(&b'\n') {
            return Ok(Err(line));
        }
        self.good_bytes += read as u64;
        Ok(Ok(line))
    }

    fn value<T: for<'de> Deserialize<'de>>(&self, line: &[u8]) -> Result<T, Unread> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let tab = line.len().saturating_sub(CHECK_DIGITS + 1);
        let (json, rest) = line.split_at(tab);
        if rest.strip_prefix(b"\t") != Some(check(json).as_bytes()) {
            return Err(self.damaged(&"its check does not fit"));
        }
        serde_json::from_slice(json).map_err(|error| self.damaged(&error))
    }

    fn damaged(&self, why: &dyn Display) -> Unread {
        Unread::Damaged { line: self.number, why: why.to_string() }
    }
}
