//! The files of the model, with all that they were.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::calls::FilePath;
use super::history::{History, PromiseList, Span};

/// The unit in which bytes of a write may be there or not: no device writes less than this whole.
pub(super) const SECTOR_BYTES: u64 = 512;

/// The place of a file in the list of all.
pub(super) type Number = usize;

/// A name in a folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Slot {
    pub(super) folder: Number,
    pub(super) name: Vec<u8>,
}

/// What a name stood for.
#[derive(Clone, Debug, Default)]
pub(super) struct Binding {
    pub(super) file: Option<Number>,
    /// The name to which what was here before was moved by the same call.
    pub(super) moved_to: Option<Slot>,
    /// The name that this file had before the same call.
    pub(super) moved_from: Option<Slot>,
}

/// The bytes of a sector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Sector {
    Zeroes,
    Bytes(Arc<[u8]>),
    /// Any: they were changed in a way that nobody saw, or in an order that nobody knows.
    Unknown,
}

impl Sector {
    fn of(bytes: &[u8]) -> Self {
        if bytes.iter().all(|byte| *byte == 0) { Self::Zeroes } else { Self::Bytes(bytes.into()) }
    }

    /// With other bytes from `from` on.
    fn with(&self, from: usize, bytes: &[u8]) -> Self {
        let mut all = match self {
            Self::Unknown if bytes.len() < SECTOR_BYTES as usize => return Self::Unknown,
            Self::Bytes(old) => old.to_vec(),
            Self::Zeroes | Self::Unknown => vec![0; SECTOR_BYTES as usize],
        };
        if let Some(part) = all.get_mut(from..from + bytes.len()) {
            part.copy_from_slice(bytes);
        }
        Self::of(&all)
    }

    /// Whether these first bytes of a sector, `None` for zeroes, are this one's.
    pub(super) fn begins_with(&self, found: Option<&[u8]>, len: usize) -> bool {
        match (self, found) {
            (Self::Unknown, _) => true,
            (Self::Zeroes, None) => true,
            (Self::Zeroes, Some(found)) => found.iter().take(len).all(|byte| *byte == 0),
            (Self::Bytes(bytes), None) => bytes.iter().take(len).all(|byte| *byte == 0),
            (Self::Bytes(bytes), Some(found)) => bytes.get(..len) == found.get(..len),
        }
    }
}

/// What a file is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    File,
    Folder,
    Symlink(FilePath),
    Other,
}

/// A file of any kind.
#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) kind: Kind,
    pub(super) size: History<u64>,
    /// Those that were ever written; others are zeroes.
    pub(super) sectors: BTreeMap<u64, History<Sector>>,
    /// Sectors that can be anything from a position of the log on.
    pub(super) unknown: Vec<(Range<u64>, u64)>,
    /// Promises of all of its bytes and its size.
    pub(super) data: PromiseList,
    /// Calls that would have promised the same, had it had a name.
    pub(super) unnamed: PromiseList,
    /// Of a folder.
    pub(super) entries: BTreeMap<Vec<u8>, History<Binding>>,
    /// Names in it that changed since they were last promised all together.
    pub(super) changed: BTreeSet<Vec<u8>>,
    /// Its own names.
    pub(super) names: BTreeSet<Slot>,
    /// Names that it had before it was moved, with the order of that.
    pub(super) left: Vec<(Slot, u64)>,
    /// It once had two names at a time.
    pub(super) had_links: bool,
}

impl Inode {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            size: History::new(0),
            sectors: BTreeMap::new(),
            unknown: Vec::new(),
            data: PromiseList::default(),
            unnamed: PromiseList::default(),
            entries: BTreeMap::new(),
            changed: BTreeSet::new(),
            names: BTreeSet::new(),
            left: Vec::new(),
            had_links: false,
        }
    }

    /// Its size now.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size.last().value
    }

    pub(super) fn set_size(&mut self, size_bytes: u64, span: Span) {
        self.size.push(size_bytes, span);
    }

    /// Changes one sector; whether what is in it is known afterwards depends on what else was under way.
    fn change(&mut self, number: u64, span: Span, change: impl FnOnce(&Sector) -> Sector) {
        let history = self.sectors.entry(number).or_insert_with(|| History::new(Sector::Zeroes));
        let overlaps = history.overlaps(span);
        let changed = if overlaps { Sector::Unknown } else { change(&history.last().value) };
        history.push(changed, span);
    }

    /// Other bytes from `offset_bytes` on.
    pub(super) fn put(&mut self, offset_bytes: u64, bytes: &[u8], span: Span) {
        let mut rest = bytes;
        let mut at = offset_bytes;
        while !rest.is_empty() {
            let inside = at % SECTOR_BYTES;
            let (now, later) = rest.split_at(rest.len().min((SECTOR_BYTES - inside) as usize));
            self.change(at / SECTOR_BYTES, span, |old| old.with(inside as usize, now));
            at += now.len() as u64;
            rest = later;
        }
    }

    /// Nobody knows what is in the range any more.
    pub(super) fn forget(&mut self, range: Range<u64>, position: u64) {
        let range = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        let is_known = self.unknown.iter().any(|(known, _)| known.start <= range.start && known.end >= range.end);
        if !range.is_empty() && !is_known {
            self.unknown.push((range, position));
        }
    }

    /// Zeroes in the range.
    pub(super) fn zero(&mut self, range: Range<u64>, span: Span) {
        if range.is_empty() {
            return;
        }
        // What was never written is zeroes already.
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        let numbers: Vec<u64> = self.sectors.range(sectors).map(|(number, _)| *number).collect();
        for number in numbers {
            let first = number * SECTOR_BYTES;
            let (from, to) = (range.start.max(first) - first, range.end.min(first + SECTOR_BYTES) - first);
            let zeroes = [0; SECTOR_BYTES as usize];
            let zeroes = zeroes.get(..(to - from) as usize).unwrap_or_default();
            self.change(number, span, |old| old.with(from as usize, zeroes));
        }
    }

    /// Whether a sector can be anything at a position of the log.
    pub(super) fn is_unknown(&self, number: u64, until: u64) -> bool {
        self.unknown.iter().any(|(range, position)| *position <= until && range.contains(&number))
    }
}
