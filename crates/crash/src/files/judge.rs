//! What is there, judged by what must and may be.

mod contents;
mod renames;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::calls::FilePath;
use super::found::{Entry, Found, Node};
use super::history::{Allowed, Promise, stronger};
use super::promises::{Promises, ROOT};
use super::tree::{Binding, Inode, Kind, Number};
use super::violation::{Fault, PromisedBy, Violation};

/// What must and what may be there after a power cut at one position.
#[derive(Clone, Copy, Debug)]
pub struct Expectation<'a> {
    pub(super) promises: &'a Promises,
    pub(super) until: u64,
}

impl Promises {
    /// What must and what may be there after a power cut at the position `until` of the log.
    pub fn promised(&self, until: u64) -> Expectation<'_> {
        Expectation { promises: self, until }
    }
}

/// Blocks of files that are as they should be, by the names that somebody gave their bytes ([`Contents::put_named`]): of many states
/// that have most blocks in common each is looked at once. It is of one expectation; for another it must be empty.
///
/// [`Contents::put_named`]: super::Contents::put_named
#[derive(Debug, Default)]
pub struct Known(RefCell<BTreeSet<KnownBlock>>);

/// A file, a block of it, the name of its bytes, and how many of them count.
type KnownBlock = (Number, u64, u64, u64);

impl Known {
    fn has(&self, block: KnownBlock) -> bool {
        self.0.borrow().contains(&block)
    }

    fn put(&self, block: KnownBlock) {
        self.0.borrow_mut().insert(block);
    }
}

/// Everything about `found` that breaks a promise; nothing where the files are not known ([`Promises::knows`]).
pub fn judge(expectation: &Expectation<'_>, found: &Found) -> Vec<Violation> {
    judge_beside(expectation, found, &Known::default())
}

/// The same, with what is known of its blocks from other states.
pub fn judge_beside(expectation: &Expectation<'_>, found: &Found, known: &Known) -> Vec<Violation> {
    if !expectation.promises.knows(expectation.until) {
        return Vec::new();
    }
    let mut names: BTreeMap<FilePath, BTreeSet<&[u8]>> = BTreeMap::new();
    for (path, _) in found.entries() {
        if let Some((folder, name)) = path.split() {
            names.entry(folder).or_default().insert(name);
        }
    }
    let judge = Judge { promises: expectation.promises, until: expectation.until, found, names, known };
    let mut seen = Seen::default();
    judge.folder(ROOT, &FilePath::default(), &mut seen);
    judge.renames(&mut seen);
    seen.violations
}

struct Judge<'a> {
    promises: &'a Promises,
    until: u64,
    found: &'a Found,
    /// The names in each folder that was found.
    names: BTreeMap<FilePath, BTreeSet<&'a [u8]>>,
    known: &'a Known,
}

/// What a look at a part of the files gave.
#[derive(Default)]
struct Seen {
    violations: Vec<Violation>,
    /// Where each of the model's folders is.
    folders: BTreeMap<Number, Vec<FilePath>>,
}

impl Judge<'_> {
    /// A folder of the model at a path where one was found.
    fn folder(&self, number: Number, path: &FilePath, seen: &mut Seen) {
        let Some(folder) = self.promises.inodes.get(number) else { return };
        seen.folders.entry(number).or_default().push(path.clone());
        for name in folder.entries.keys() {
            self.name(folder, name, &path.join(name), seen);
        }
        for name in self.names.get(path).into_iter().flatten() {
            // Made by mkfs or fsck.
            let is_own = number == ROOT && *name == b"lost+found";
            if !folder.entries.contains_key(*name) && !is_own {
                seen.violations.push(self.violation(&path.join(name), Fault::NeverMade, None));
            }
        }
    }

    /// What a name may stand for.
    fn allowed<'b>(&self, folder: &'b Inode, name: &[u8]) -> Option<Allowed<'b, Binding>> {
        let also = self.promises.all.at(self.until);
        folder.entries.get(name).map(|history| history.allowed(self.until, also))
    }

    fn name(&self, folder: &Inode, name: &[u8], path: &FilePath, seen: &mut Seen) {
        let Some(allowed) = self.allowed(folder, name) else { return };
        let mut candidates: Vec<Option<Number>> = Vec::new();
        let mut may_tear = false;
        for version in allowed.versions() {
            let (moved_to, moved_from) = (&version.value.moved_to, &version.value.moved_from);
            may_tear |= moved_to.is_some() || moved_from.is_some();
            if !candidates.contains(&version.value.file) {
                candidates.push(version.value.file);
            }
        }
        // Where a rename is several steps, any of them may be the last.
        if may_tear && candidates.len() > 1 && !self.promises.rules.rename_is_atomic && !candidates.contains(&None) {
            candidates.push(None);
        }
        let Some(entry) = self.found.get(path) else {
            if !candidates.contains(&None) {
                seen.violations.push(self.violation(path, Fault::Missing, allowed.promise));
            }
            return;
        };
        // The newest first: of several with faults it says most.
        let mut best: Option<Seen> = None;
        for number in candidates.iter().rev().flatten() {
            let mut one = Seen::default();
            self.file(*number, path, entry, allowed.promise, &mut one);
            let is_better = best.as_ref().is_none_or(|best| one.violations.len() < best.violations.len());
            if is_better {
                let is_perfect = one.violations.is_empty();
                best = Some(one);
                if is_perfect {
                    break;
                }
            }
        }
        match best {
            None => seen.violations.push(self.violation(path, Fault::StillThere, allowed.promise)),
            Some(best) => {
                let is_older = || {
                    let older: Vec<Number> = allowed.superseded().filter_map(|version| version.value.file).collect();
                    older.iter().any(|older| !candidates.contains(&Some(*older)) && self.is(*older, path, entry))
                };
                if best.violations.is_empty() || !is_older() {
                    seen.violations.extend(best.violations);
                    for (number, paths) in best.folders {
                        seen.folders.entry(number).or_default().extend(paths);
                    }
                } else {
                    seen.violations.push(self.violation(path, Fault::StillThere, allowed.promise));
                }
            }
        }
    }

    /// Whether what was found can be this file.
    fn is(&self, number: Number, path: &FilePath, entry: &Entry) -> bool {
        let mut seen = Seen::default();
        self.file(number, path, entry, None, &mut seen);
        seen.violations.is_empty()
    }

    /// What was found, as this file.
    fn file(&self, number: Number, path: &FilePath, entry: &Entry, by: Option<Promise>, seen: &mut Seen) {
        let Some(inode) = self.promises.inodes.get(number) else { return };
        match (&inode.kind, &entry.node) {
            (Kind::File, Node::File(contents)) => {
                self.contents(number, inode, path, contents, &mut seen.violations);
            }
            (Kind::Folder, Node::Folder) => self.folder(number, path, seen),
            (Kind::Symlink(expected), Node::Symlink(found)) => {
                if expected != found {
                    let fault = Fault::WrongTarget { expected: expected.clone(), found: found.clone() };
                    seen.violations.push(self.violation(path, fault, by));
                }
            }
            (Kind::Other, Node::Other) => {}
            _ => seen.violations.push(self.violation(path, Fault::WrongKind, by)),
        }
    }

    /// What was promised of all bytes of a file.
    fn of_data(&self, inode: &Inode) -> Option<Promise> {
        stronger(self.promises.all.at(self.until), inode.data.at(self.until))
    }

    fn violation(&self, path: &FilePath, fault: Fault, by: Option<Promise>) -> Violation {
        let promised_by = by.map(|promise| PromisedBy {
            call: promise.call,
            name: self.promises.names.get(&promise.call).cloned().unwrap_or_default(),
            position: promise.position,
        });
        Violation { path: path.clone(), fault, promised_by }
    }
}
