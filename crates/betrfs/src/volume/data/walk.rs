//! Reading ahead in a directory: who reads its files in the order in which they are listed finds the next ones in memory, fetched together.

use std::collections::VecDeque;

use super::{Moment, Volume};
use crate::operations::{Cookie, InodeNumber, Kind, Result};
use crate::schema::{self, Entry, GRANULE_BYTES, Inode, Place};

/// Directories that are followed at a time.
const WALKS_MAX: usize = 16;
/// Who leaves out fewer files than this goes on in order.
const NEAR: usize = 8;
/// Files that are fetched first; four times as many each time, up to the most: what lies side by side is one request, and of many files
/// more do.
const FILES_MIN: usize = 4;
const FILES_GROWTH: usize = 4;
const FILES_MAX: usize = 256;
/// What they may take, and entries that are looked at for them.
const BYTES_MAX: u64 = 2 << 20;
const ENTRIES_MAX: usize = 4 * FILES_MAX;

/// Somebody who reads the files of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Walk {
    directory: InodeNumber,
    /// The file that was read last.
    last: Cookie,
    /// The last file that was fetched, or `last`.
    fetched: Cookie,
    /// How many were to be fetched last.
    files: usize,
}

/// Those who do, the latest last.
#[derive(Debug, Default)]
pub(in crate::volume) struct Walks(VecDeque<Walk>);

impl Walks {
    /// A file is read. Where it is behind all that was fetched: the walk as it was before. Who has gone through another directory is believed
    /// to do the same in this one.
    fn step(&mut self, directory: InodeNumber, cookie: Cookie) -> Option<Walk> {
        let known = self.0.iter().position(|walk| walk.directory == directory);
        let files = self.0.back().map_or(0, |walk| walk.files);
        let begins = Walk { directory, last: Cookie::START, fetched: Cookie::START, files };
        let before = known.and_then(|at| self.0.remove(at)).or((files > 0).then_some(begins));
        let anew = Walk { directory, last: cookie, fetched: cookie, files: 0 };
        let now = before.filter(|walk| walk.last <= cookie).map_or(anew, |walk| Walk { last: cookie, ..walk });
        self.0.push_back(now);
        if self.0.len() > WALKS_MAX {
            self.0.pop_front();
        }
        before.filter(|walk| walk.last < cookie && walk.fetched <= cookie)
    }

    /// So many files were to be fetched, up to this one; none where the walk is none.
    fn fetched(&mut self, directory: InodeNumber, fetched: Cookie, files: usize) {
        if let Some(walk) = self.0.iter_mut().find(|walk| walk.directory == directory) {
            (walk.fetched, walk.files) = (fetched, files);
        }
    }
}

impl Volume {
    /// A file is going to be read from its start: the first granules of it and of those that will be read next come into memory, where
    /// its reader goes through its directory. Files whose bytes lie beside their names are not counted: they are there already.
    /// What cannot be read there is not this reader's concern.
    pub(super) fn walk(&self, now: &Moment, inode: &Inode) {
        let _ = self.walk_now(now, inode);
    }

    fn walk_now(&self, now: &Moment, inode: &Inode) -> Result<()> {
        let Place::Entry { parent, name } = &inode.place else { return Ok(()) };
        if inode.beside.is_some() {
            return Ok(());
        }
        let own = schema::cookie(self.store.seed, name);
        let Some(before) = self.walks().step(*parent, own) else { return Ok(()) };
        let mut ahead = Ahead { volume: self, now, keys: Vec::new(), bytes: 0 };
        ahead.add(inode);
        let files = (FILES_GROWTH * before.files).clamp(FILES_MIN, FILES_MAX);
        let (mut last, mut found, mut passed) = (own, 0, 0);
        let entries = schema::names(now.at.range(&self.store.entries, schema::entries_after(*parent, before.last)));
        for entry in entries.take(ENTRIES_MAX) {
            let (key, value) = entry?;
            let (_, cookie, name) = schema::parse_entry_key(&key)?;
            let Entry::Embedded(next) = Entry::decode(*parent, name, &value)? else { continue };
            if next.attributes.kind != Kind::File || next.attributes.size_bytes == 0 || next.beside.is_some() {
                continue;
            }
            if cookie <= own {
                passed += 1;
                if passed > NEAR {
                    break;
                }
                continue;
            }
            if found == files || ahead.bytes >= BYTES_MAX {
                break;
            }
            ahead.add(&next);
            (last, found) = (cookie, found + 1);
        }
        let goes_on = passed <= NEAR;
        self.walks().fetched(*parent, last, if goes_on { files } else { 0 });
        if found > 0 {
            now.at.read_ahead(&self.store.data, &ahead.keys)?;
        }
        Ok(())
    }
}

/// First granules that are fetched.
struct Ahead<'a> {
    volume: &'a Volume,
    now: &'a Moment,
    keys: Vec<schema::DataKey>,
    bytes: u64,
}

impl Ahead<'_> {
    fn add(&mut self, inode: &Inode) {
        let number = inode.attributes.inode;
        if self.volume.recent().get((number, 0), self.now.changes).is_none() {
            self.bytes += inode.attributes.size_bytes.min(GRANULE_BYTES);
            self.keys.push(schema::data_key(number, 0, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_on_in_order_is_followed_and_who_turns_begins_anew() {
        let (mut walks, directory) = (Walks::default(), InodeNumber(7));
        let step = |walks: &mut Walks, at| walks.step(directory, Cookie(at)).map(|walk| (walk.last.0, walk.files));
        assert_eq!(step(&mut walks, 10), None);
        assert_eq!(step(&mut walks, 10), None, "the same again");
        assert_eq!(step(&mut walks, 20), Some((10, 0)));
        walks.fetched(directory, Cookie(50), 3);
        assert_eq!([30, 40].map(|at| step(&mut walks, at)), [None; 2], "in memory");
        assert_eq!(step(&mut walks, 50), Some((40, 3)));
        assert_eq!(step(&mut walks, 5), None);
        assert_eq!(step(&mut walks, 6), Some((5, 0)));
        walks.fetched(directory, Cookie(90), 20);
        let other = walks.step(InodeNumber(8), Cookie(5)).map(|walk| (walk.last, walk.fetched, walk.files));
        assert_eq!(other, Some((Cookie::START, Cookie::START, 20)), "as in the directory before");
        walks.fetched(InodeNumber(8), Cookie(5), 0);
        for other in 0..WALKS_MAX as u64 {
            walks.step(InodeNumber(100 + other), Cookie(1));
        }
        assert_eq!((step(&mut walks, 7), walks.0.len()), (None, WALKS_MAX));
    }
}
