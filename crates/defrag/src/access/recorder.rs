//! What the sources have seen so far, in bounded memory.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::{ByteRange, IoKind};

/// Distinct accesses kept of one recording: some 1 GiB at most. Once they are
/// reached, further ones are counted as lost and known ones still are counted.
pub const MAX_DISTINCT: usize = 8 << 20;

/// A file as the kernel's events name it: the device of tracepoints is the superblock's,
/// which on Btrfs is not the one that `stat` gives; that of open files is the latter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RawFile {
    /// The device, encoded as `st_dev` is.
    pub device: u64,
    /// The inode's number.
    pub inode: u64,
}

/// What was done to the file, and which event says so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RawKind {
    /// As it is.
    Io(IoKind),
    /// A buffered read, reported again for each batch of pages: the later reports of
    /// one read have the same end and a later start.
    PagesRead,
    /// Pages that readahead asks for one by one, perhaps because it could not get
    /// them in the larger pages of a window that it has reported before.
    ReadaheadPages,
    /// A folio that was put into the page cache to be filled: by readahead, by a fault, or for a write.
    PagesAdded,
}

/// How often, and when first.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When first, in nanoseconds of a clock of the source's own; of sources that know no
    /// time, the number of the event.
    pub first: u64,
    /// How often.
    pub count: u64,
}

/// All of a recording.
#[derive(Default)]
pub struct Recorder {
    pub(super) seen: HashMap<(RawFile, RawKind, ByteRange), Seen>,
    pub(super) paths: HashMap<RawFile, PathBuf>,
    /// Accesses, equal ones counted each.
    pub events: u64,
    /// Accesses that were not recorded.
    pub lost: u64,
}

impl Recorder {
    /// `count` accesses, of which the first came at `first`.
    pub fn add(&mut self, file: RawFile, kind: RawKind, range: ByteRange, seen: Seen) {
        if range.is_empty() || seen.count == 0 {
            return;
        }
        self.events = self.events.saturating_add(seen.count);
        let key = (file, kind, range);
        if let Some(known) = self.seen.get_mut(&key) {
            known.count = known.count.saturating_add(seen.count);
            known.first = known.first.min(seen.first);
        } else if self.seen.len() < MAX_DISTINCT {
            self.seen.insert(key, seen);
        } else {
            self.lost = self.lost.saturating_add(seen.count);
        }
    }

    /// What the file is called, from a source that knows.
    pub fn name(&mut self, file: RawFile, path: PathBuf) {
        if self.paths.len() < MAX_DISTINCT {
            self.paths.insert(file, path);
        }
    }

    /// Whether that is known.
    pub fn is_named(&self, file: RawFile) -> bool {
        self.paths.contains_key(&file)
    }

    /// Adds all of another one.
    pub fn absorb(&mut self, other: Self) {
        self.lost = self.lost.saturating_add(other.lost);
        for ((file, kind, range), seen) in other.seen {
            self.add(file, kind, range, seen);
        }
        for (file, path) in other.paths {
            self.name(file, path);
        }
    }

    /// Distinct accesses so far.
    pub fn distinct(&self) -> usize {
        self.seen.len()
    }
}
