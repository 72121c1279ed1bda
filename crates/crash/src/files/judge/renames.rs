//! A file that is moved has a name all the time.

use super::super::calls::FilePath;
use super::super::found::Entry;
use super::super::tree::{Number, Slot};
use super::super::violation::Fault;
use super::{Judge, Seen};

/// More renames of a file than this between a promise and a power cut are not followed.
const MOVES_MAX: usize = 10_000;

impl Judge<'_> {
    /// After a look at all folders that were found.
    pub(super) fn renames(&self, seen: &mut Seen) {
        if !self.promises.rules.rename_is_atomic {
            return;
        }
        let folders: Vec<Number> = seen.folders.keys().copied().collect();
        for folder in folders {
            let Some(inode) = self.promises.inodes.get(folder) else { continue };
            for name in inode.entries.keys() {
                self.moved(Slot { folder, name: name.clone() }, seen);
            }
        }
    }

    /// A file whose name was promised, and which was moved since: it is under one of the names.
    fn moved(&self, start: Slot, seen: &mut Seen) {
        let Some((file, chain)) = self.chain(start) else { return };
        let Some(inode) = self.promises.inodes.get(file) else { return };
        let mut names = Vec::new();
        let mut found: Vec<(FilePath, &Entry)> = Vec::new();
        for slot in &chain {
            for folder in seen.folders.get(&slot.folder).into_iter().flatten() {
                let path = folder.join(&slot.name);
                if let Some(entry) = self.found.get(&path)
                    && self.is(file, &path, entry)
                {
                    found.push((path.clone(), entry));
                }
                names.push(path);
            }
        }
        let promise = chain.first().and_then(|slot| {
            let folder = self.promises.inodes.get(slot.folder)?;
            self.allowed(folder, &slot.name)?.promise
        });
        match (found.as_slice(), names.first()) {
            ([], Some(path)) => {
                let path = path.clone();
                seen.violations.push(self.violation(&path, Fault::Lost { names }, promise));
            }
            ([(path, first), (other, second), ..], _)
                if self.promises.rules.rename_leaves_one_name
                    && !inode.had_links
                    && path != other
                    && first.file == second.file =>
            {
                let fault = Fault::TwoNames { other: other.clone() };
                seen.violations.push(self.violation(path, fault, promise));
            }
            _ => {}
        }
    }

    /// The file that a name surely stood for, and the names to which it was moved one after the other; `None` if it was not moved,
    /// or is under none of them now.
    fn chain(&self, start: Slot) -> Option<(Number, Vec<Slot>)> {
        let history = |slot: &Slot| self.promises.inodes.get(slot.folder)?.entries.get(&slot.name);
        let folder = self.promises.inodes.get(start.folder)?;
        let mut at = self.allowed(folder, &start.name)?.anchor();
        let file = history(&start)?.versions().get(at)?.value.file?;
        let mut chain = vec![start];
        while chain.len() < MOVES_MAX {
            let versions = history(chain.last()?)?.versions();
            let next = versions.get(at + 1).filter(|next| next.span.position <= self.until);
            let Some(next) = next else { break };
            let to = next.value.moved_to.clone()?;
            at = history(&to)?.versions().iter().rposition(|version| version.span.entered == next.span.entered)?;
            chain.push(to);
        }
        (chain.len() > 1).then_some((file, chain))
    }
}
