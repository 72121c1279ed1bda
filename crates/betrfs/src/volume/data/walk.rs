//! Reading ahead in a directory: who lists it and then reads its files, or lists its directories, in that order finds the next ones in
//! memory, fetched together. Who reads files of a directory that nobody has listed costs nothing.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Moment, Volume};
use crate::operations::{Cookie, InodeNumber, Kind, Result};
use crate::schema::{self, Entry, GRANULE_BYTES, Inode, Place};

/// Directories that are followed at a time.
const WALKS_MAX: usize = 64;
/// Who leaves out fewer files than this goes on in order.
const NEAR: usize = 8;
/// Files or directories that are fetched first; four times as many each time, up to the most: what lies side by side is one
/// request, and of many files more do.
const COUNT_MIN: usize = 4;
const COUNT_GROWTH: usize = 4;
const COUNT_MAX: usize = 256;
/// What they may take, and entries that are looked at for them.
const BYTES_MAX: u64 = 2 << 20;
const ENTRIES_MAX: usize = 4 * COUNT_MAX;
/// What an entry of a directory takes, roughly.
const ENTRY_BYTES: u64 = 160;

/// What somebody goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::volume) enum Goal {
    /// Files that are read. Those whose bytes lie beside their names are not counted: they are there already.
    Files,
    /// Directories that are listed.
    Directories,
}

impl Goal {
    fn counts(self, inode: &Inode) -> bool {
        match self {
            Self::Files => {
                inode.attributes.kind == Kind::File && inode.attributes.size_bytes > 0 && inode.beside.is_none()
            }
            Self::Directories => inode.attributes.kind == Kind::Directory && inode.entries > 0,
        }
    }
}

/// Somebody who has listed a directory and goes through it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Walk {
    directory: InodeNumber,
    /// Where it was last.
    last: Cookie,
    /// The last that was fetched.
    fetched: Cookie,
}

/// Those who do, the latest last.
#[derive(Debug, Default)]
pub(in crate::volume) struct Walks {
    known: VecDeque<Walk>,
    /// How many were to be fetched last, in any directory: who goes through one is believed to do the same in the next.
    count: usize,
}

impl Walks {
    fn take(&mut self, directory: InodeNumber) -> Option<Walk> {
        let at = self.known.iter().position(|walk| walk.directory == directory)?;
        self.known.remove(at)
    }

    /// A directory is listed from its beginning.
    pub fn listed(&mut self, directory: InodeNumber) {
        self.take(directory);
        self.known.push_back(Walk { directory, last: Cookie::START, fetched: Cookie::START });
        if self.known.len() > WALKS_MAX {
            self.known.pop_front();
        }
    }

    /// The next step. Where it is behind all that was fetched: where the one before it was, and how many are to be fetched. Who turns back
    /// is followed no more.
    fn step(&mut self, directory: InodeNumber, cookie: Cookie) -> Option<(Cookie, usize)> {
        let walk = self.take(directory).filter(|walk| walk.last <= cookie)?;
        self.known.push_back(Walk { last: cookie, ..walk });
        let count = (COUNT_GROWTH * self.count).clamp(COUNT_MIN, COUNT_MAX);
        (walk.last < cookie && walk.fetched <= cookie).then_some((walk.last, count))
    }

    /// So many were to be fetched, up to this one; none where too many were left out.
    fn fetched(&mut self, directory: InodeNumber, fetched: Cookie, count: usize) {
        if let Some(walk) = self.known.iter_mut().find(|walk| walk.directory == directory) {
            walk.fetched = fetched;
            self.count = count;
        }
    }
}

impl Volume {
    /// A file is going to be read from its start, or a directory to be listed: its first bytes, and those of what will be next, come into
    /// memory, where its reader goes through the directory above it. What cannot be read there is not this reader's concern.
    pub(in crate::volume) fn walk(&self, goal: Goal, now: &Moment, inode: &Inode) {
        let _ = self.walk_now(goal, now, inode);
    }

    fn walk_now(&self, goal: Goal, now: &Moment, inode: &Inode) -> Result<()> {
        let Place::Entry { parent, name } = &inode.place else { return Ok(()) };
        if !goal.counts(inode) {
            return Ok(());
        }
        let own = schema::cookie(self.store.seed, name);
        let Some((before, count)) = self.walks(goal).step(*parent, own) else { return Ok(()) };
        let mut ahead = Ahead { volume: self, now, goal, keys: Vec::new(), ranges: Vec::new(), bytes: 0 };
        ahead.add(inode);
        let (mut last, mut found, mut passed) = (own, 0, 0);
        let of = self.store.schema;
        let entries = self.store.names_at(&now.at, &self.store.locality_at(&now.at, *parent)?, before);
        for entry in entries.take(ENTRIES_MAX) {
            let (key, value) = entry?;
            let cookie = schema::parse_entry_key(of, &key)?.1;
            let Entry::Embedded(next) = Entry::decode(of, &key, &value)? else { continue };
            if !goal.counts(&next) {
                continue;
            }
            if cookie <= own {
                passed += 1;
                if passed > NEAR {
                    break;
                }
                continue;
            }
            if found == count || ahead.bytes >= BYTES_MAX {
                break;
            }
            ahead.add(&next);
            (last, found) = (cookie, found + 1);
        }
        let goes_on = passed <= NEAR;
        self.walks(goal).fetched(*parent, last, if goes_on { count } else { 0 });
        if found == 0 {
            return Ok(());
        }
        now.at.read_ahead(&self.store.data, &ahead.keys)?;
        Ok(now.at.read_ahead_ranges(&self.store.entries, &ahead.ranges)?)
    }
}

/// What is fetched: first granules, and entries of directories.
struct Ahead<'a> {
    volume: &'a Volume,
    now: &'a Moment,
    goal: Goal,
    keys: Vec<schema::DataKey>,
    ranges: Vec<Range<Vec<u8>>>,
    bytes: u64,
}

impl Ahead<'_> {
    fn add(&mut self, inode: &Inode) {
        let number = inode.attributes.inode;
        match self.goal {
            Goal::Files if self.volume.recent().get((number, 0), self.now.changes).is_none() => {
                self.bytes += inode.attributes.size_bytes.min(GRANULE_BYTES);
                self.keys.push(inode.locality.data_key(0, 0));
            }
            Goal::Files => {}
            // More than that a list reads ahead by itself.
            Goal::Directories => {
                self.bytes += (inode.entries * ENTRY_BYTES).min(GRANULE_BYTES);
                self.ranges.extend(inode.locality.entries_after(Cookie::START));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_on_in_order_is_followed_and_who_turns_back_is_not() {
        let (mut walks, directory) = (Walks::default(), InodeNumber(7));
        let step = |walks: &mut Walks, at| walks.step(directory, Cookie(at)).map(|(before, files)| (before.0, files));
        assert_eq!(step(&mut walks, 10), None, "nobody has listed it");
        walks.listed(directory);
        assert_eq!(step(&mut walks, 10), Some((0, COUNT_MIN)));
        walks.fetched(directory, Cookie(50), COUNT_MIN);
        assert_eq!([10, 30, 40].map(|at| step(&mut walks, at)), [None; 3], "in memory");
        assert_eq!(step(&mut walks, 50), Some((40, COUNT_MIN * COUNT_GROWTH)));
        walks.fetched(directory, Cookie(60), 0);
        assert_eq!(step(&mut walks, 70), Some((50, COUNT_MIN)), "others were left out");
        assert_eq!([5, 6].map(|at| step(&mut walks, at)), [None; 2]);
        for other in 0..2 * WALKS_MAX as u64 {
            walks.listed(InodeNumber(100 + other));
        }
        assert_eq!(walks.known.len(), WALKS_MAX);
    }
}
