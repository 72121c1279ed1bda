//! What a program had changed, and not made durable, when it said that something holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::calls::{FileId, FilePath};
use super::history::{History, PromiseList};
use super::promises::{Promises, ROOT};
use super::tree::{Inode, Number, SECTOR_BYTES};

/// What was changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Bytes between these two places.
    Bytes {
        /// The first sector of them.
        from_bytes: u64,
        /// The end of the last.
        to_bytes: u64,
    },
    /// Only the size.
    Size,
    /// A name is there, or was taken away.
    Name {
        /// Whether it is there.
        is_there: bool,
    },
}

/// A change that was over and that no durability call covered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unsynced {
    /// Of this file, or this name.
    pub path: FilePath,
    /// The file whose bytes they are.
    pub file: Option<FileId>,
    /// What.
    pub change: Change,
    /// When the newest call that did it began ([`Call::entered`](super::Call::entered)).
    pub entered: u64,
    /// The file was synchronised while it had no name, and its file system leaves out such files.
    pub was_synced_without_a_name: bool,
}

impl Promises {
    /// What was changed by calls that were over before the moment of this order and that none of the first `calls` calls made
    /// durable. Where one of them is lost after that moment, the program had not asked for it to be kept.
    pub fn unsynced(&self, order: u64, calls: usize) -> Vec<Unsynced> {
        let ids: BTreeMap<Number, FileId> = self.by_id.iter().map(|(id, number)| (*number, *id)).collect();
        let mut found = Vec::new();
        for (number, inode) in self.inodes.iter().enumerate() {
            let is_covered = |own: &PromiseList, left: u64| {
                [own, &inode.data, &self.all].iter().any(|promises| promises.covers(left, calls))
            };
            if let Some(path) = self.path_of(number) {
                let file = ids.get(&number).copied();
                found.extend(self.unsynced_bytes(inode, order, calls, &is_covered).map(|(change, entered, was)| {
                    Unsynced { path: path.clone(), file, change, entered, was_synced_without_a_name: was }
                }));
            }
            let Some(folder) = self.path_of(number) else { continue };
            for (name, history) in &inode.entries {
                let is_covered = |left: u64| [&history.promises, &self.all].iter().any(|list| list.covers(left, calls));
                let over = || history.versions().iter().filter(|version| version.span.left < order);
                let (Some(last), kept) = (
                    over().next_back(),
                    over().rfind(|version| version.span.entered == 0 || is_covered(version.span.left)),
                ) else {
                    continue;
                };
                // What was made and taken away again was never there to be kept.
                let is_same = kept.is_none_or(|kept| kept.value.file == last.value.file);
                if last.span.entered > 0 && !is_covered(last.span.left) && !is_same {
                    found.push(Unsynced {
                        path: folder.join(name),
                        file: None,
                        change: Change::Name { is_there: last.value.file.is_some() },
                        entered: last.span.entered,
                        was_synced_without_a_name: false,
                    });
                }
            }
        }
        found.sort_by_key(|unsynced| unsynced.entered);
        found
    }

    /// Bytes or a size of a file; whether it was synchronised without a name.
    fn unsynced_bytes(
        &self,
        inode: &Inode,
        order: u64,
        calls: usize,
        is_covered: &impl Fn(&PromiseList, u64) -> bool,
    ) -> Option<(Change, u64, bool)> {
        let mut bytes: Option<(u64, u64, u64, u64)> = None;
        for (sector, history) in &inode.sectors {
            let Some((entered, left)) = newest(history, order) else { continue };
            if !is_covered(&history.promises, left) {
                let (from, to, newest, last) = bytes.unwrap_or((sector * SECTOR_BYTES, 0, 0, 0));
                bytes = Some((from, to.max((sector + 1) * SECTOR_BYTES), newest.max(entered), last.max(left)));
            }
        }
        if let Some((from_bytes, to_bytes, entered, left)) = bytes {
            return Some((Change::Bytes { from_bytes, to_bytes }, entered, inode.unnamed.covers(left, calls)));
        }
        let (entered, left) = newest(&inode.size, order)?;
        (!is_covered(&inode.size.promises, left)).then(|| (Change::Size, entered, inode.unnamed.covers(left, calls)))
    }

    /// A path to a file by one of its names.
    fn path_of(&self, number: Number) -> Option<FilePath> {
        const FOLDERS_MAX: usize = 4096;
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = number;
        while at != ROOT {
            let slot = self.inodes.get(at)?.names.first()?;
            names.push(&slot.name);
            at = slot.folder;
            if names.len() > FOLDERS_MAX {
                return None;
            }
        }
        Some(names.iter().rev().fold(FilePath::default(), |path, name| path.join(name)))
    }
}

/// When the newest change that was over began and ended; none if it is as it was at first.
fn newest<T>(history: &History<T>, order: u64) -> Option<(u64, u64)> {
    let over = history.versions().iter().rfind(|version| version.span.left < order)?;
    (over.span.entered > 0).then_some((over.span.entered, over.span.left))
}
