//! Traces out of other programs' files.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::model::Trace;
use super::recorder::MAX_DISTINCT;
use super::resolve;
use crate::{Access, ByteRange, FileId, IoKind};

/// A trace that was read from another program's file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parsed {
    /// The accesses to files that are there.
    pub trace: Trace,
    /// Files that are named and not there (or no regular files), with the number of
    /// accesses to each, which the trace lacks.
    pub missing: BTreeMap<PathBuf, u64>,
    /// Lines that say nothing about an access and are not known to be without meaning.
    pub skipped_lines: u64,
}

/// Collects accesses by path.
pub(super) struct Collector {
    parsed: Parsed,
    known: HashMap<(FileId, IoKind, ByteRange), usize>,
    files: HashMap<PathBuf, Option<FileId>>,
}

impl Collector {
    pub fn new(source: &str) -> Self {
        let trace = Trace { source: source.into(), ..Trace::default() };
        Self { parsed: Parsed { trace, ..Parsed::default() }, known: HashMap::new(), files: HashMap::new() }
    }

    /// One access to the file at `path`.
    pub fn add(&mut self, path: &Path, kind: IoKind, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let file = match self.files.get(path) {
            Some(file) => *file,
            None => {
                // Names may be links, and traces made from another folder have dots in them.
                let file = path.canonicalize().ok().and_then(|path| Some((resolve::identify(&path)?, path)));
                if let Some((id, path)) = &file {
                    self.parsed.trace.files.entry(*id).or_insert_with(|| Some(path.clone()));
                }
                let file = file.map(|(id, _)| id);
                if self.files.len() < MAX_DISTINCT {
                    self.files.insert(path.to_owned(), file);
                }
                file
            }
        };
        let Some(file) = file else {
            if let Some(count) = self.parsed.missing.get_mut(path) {
                *count += 1;
            } else if self.parsed.missing.len() < MAX_DISTINCT {
                self.parsed.missing.insert(path.to_owned(), 1);
            }
            return;
        };
        let trace = &mut self.parsed.trace;
        if let Some(known) = self.known.get(&(file, kind, range)).and_then(|&at| trace.accesses.get_mut(at)) {
            known.count = known.count.saturating_add(1);
        } else if trace.accesses.len() < MAX_DISTINCT {
            self.known.insert((file, kind, range), trace.accesses.len());
            trace.accesses.push(Access { file, range, kind, count: 1 });
        } else {
            trace.lost = trace.lost.saturating_add(1);
        }
    }

    /// One line that was not understood.
    pub fn skip(&mut self) {
        self.parsed.skipped_lines = self.parsed.skipped_lines.saturating_add(1);
    }

    pub fn finish(self) -> Parsed {
        self.parsed
    }
}
