//! The files of the model, with all that they were.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::calls::{FilePath, Sectors};
use super::found::Part;
use super::history::{History, PromiseList, Span};
use crate::log::digest;

/// The unit in which bytes of a write may be there or not: no device writes less than this whole.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Writes of zeroes that are remembered: as many as can be under way at once.
const ZEROED_MAX: usize = 64;

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
    /// Those with this digest.
    Digest(u64),
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
            Self::Unknown | Self::Digest(_) if bytes.len() < SECTOR_BYTES as usize => return Self::Unknown,
            Self::Bytes(old) => old.to_vec(),
            Self::Zeroes | Self::Digest(_) | Self::Unknown => vec![0; SECTOR_BYTES as usize],
        };
        if let Some(part) = all.get_mut(from..from + bytes.len()) {
            part.copy_from_slice(bytes);
        }
        Self::of(&all)
    }

    /// Whether these first bytes of a sector, `None` for zeroes, are this one's.
    pub(super) fn begins_with(&self, found: Option<Part<'_>>, len: usize) -> bool {
        match (self, found) {
            (Self::Unknown, _) => true,
            (Self::Zeroes, None) => true,
            (Self::Zeroes, Some(Part::Bytes(found))) => found.iter().take(len).all(|byte| *byte == 0),
            (Self::Bytes(bytes), None) => bytes.iter().take(len).all(|byte| *byte == 0),
            (Self::Bytes(bytes), Some(Part::Bytes(found))) => bytes.get(..len) == found.get(..len),
            // Of a sector that is not there as a whole, a digest says nothing.
            _ if len < SECTOR_BYTES as usize => true,
            (Self::Digest(_), None) => false,
            (Self::Zeroes, Some(Part::Digest(_))) => false,
            (Self::Bytes(bytes), Some(Part::Digest(found))) => digest(bytes) == found,
            (Self::Digest(own), Some(Part::Bytes(found))) => *own == digest(found),
            (Self::Digest(own), Some(Part::Digest(found))) => *own == found,
        }
    }

    /// Whether each of these first bytes is that of one of several versions: a page that is changed while it is being written can get
    /// to the device in parts of both. Where bytes are known by digests nobody can tell, and it is taken for that.
    pub(super) fn is_mixed_of(versions: &[&Self], found: Option<Part<'_>>, len: usize) -> bool {
        let has_bytes = versions.iter().all(|version| matches!(version, Self::Zeroes | Self::Bytes(_)));
        let byte = |version: &Self, at: usize| match version {
            Self::Bytes(bytes) => bytes.get(at).copied(),
            _ => Some(0),
        };
        match found {
            Some(Part::Bytes(found)) if has_bytes => (0..len.min(found.len()))
                .all(|at| versions.iter().any(|version| byte(version, at) == found.get(at).copied())),
            None if has_bytes => (0..len).all(|at| versions.iter().any(|version| byte(version, at) == Some(0))),
            None => false,
            Some(_) => {
                let mut written = versions.iter().filter(|version| ***version != Self::Zeroes);
                let first = written.next();
                written.any(|version| Some(version) != first)
            }
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
    /// Sectors to which zeroes were written last.
    zeroed: VecDeque<(Range<u64>, Span)>,
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
            zeroed: VecDeque::new(),
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
        let zeroed = &self.zeroed;
        let history = self.sectors.entry(number).or_insert_with(|| {
            // Zeroes that were written where nothing had been are no change, unless something else was under way.
            let mut history = History::new(Sector::Zeroes);
            for (_, span) in zeroed.iter().filter(|(range, _)| range.contains(&number)) {
                history.push(Sector::Zeroes, *span);
            }
            history
        });
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

    /// The same of many.
    pub(super) fn put_sectors(&mut self, offset_bytes: u64, sectors: &Sectors, span: Span) {
        self.put(offset_bytes, &sectors.head, span);
        let mut at = offset_bytes + sectors.head.len() as u64;
        for digest in &sectors.digests {
            let sector = if *digest == 0 { Sector::Zeroes } else { Sector::Digest(*digest) };
            self.change(at / SECTOR_BYTES, span, |_| sector);
            at += SECTOR_BYTES;
        }
        self.put(at, &sectors.tail, span);
    }

    /// Zeroes are written.
    pub(super) fn put_zeroes(&mut self, range: Range<u64>, span: Span) {
        self.zero(range.clone(), span);
        if self.zeroed.len() == ZEROED_MAX {
            self.zeroed.pop_front();
        }
        self.zeroed.push_back((range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES), span));
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
