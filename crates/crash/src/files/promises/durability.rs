//! What a durability call promises.

use super::super::calls::{Action, Call, Durability};
use super::super::history::Promise;
use super::super::tree::{Kind, Number, SECTOR_BYTES, Slot};
use super::Promises;

impl Promises {
    /// A synchronisation is over: it covers all that was over when it began.
    pub(super) fn synced(&mut self, number: usize, call: &Call) {
        let promise = Promise { covers: call.entered.order, position: call.left.position, call: number };
        self.names.insert(number, call.name.clone());
        match &call.action {
            Action::SyncAll if self.rules.hears_sync => self.all.push(promise),
            Action::Sync { file, data_only } => {
                let Some(file) = self.file(*file) else { return };
                self.sync(file, *data_only, promise);
            }
            _ => {}
        }
    }

    fn sync(&mut self, file: Number, data_only: bool, promise: Promise) {
        let Some(inode) = self.inodes.get_mut(file) else { return };
        if inode.kind == Kind::Folder {
            // What was changed later stays to be promised.
            let changed = std::mem::take(&mut inode.changed);
            let folder = file;
            for name in changed {
                let slot = Slot { folder, name };
                let is_covered = self.last_change(&slot).is_some_and(|left| left < promise.covers);
                self.promise_slot(&slot, promise);
                if let (false, Some(inode)) = (is_covered, self.inodes.get_mut(file)) {
                    inode.changed.insert(slot.name);
                }
            }
        } else if self.rules.syncs_unnamed_files || !inode.names.is_empty() {
            inode.data.push(promise);
        } else {
            inode.unnamed.push(promise);
        }
        // What fdatasync means for names has no source.
        if self.rules.fsync_keeps_names && !data_only {
            self.promise_names(file, promise);
        }
    }

    fn last_change(&self, slot: &Slot) -> Option<u64> {
        Some(self.inodes.get(slot.folder)?.entries.get(&slot.name)?.last().span.left)
    }

    /// The names of a file, and those on the way to it.
    fn promise_names(&mut self, file: Number, promise: Promise) {
        let mut open = vec![file];
        let mut known = Vec::new();
        while let Some(file) = open.pop() {
            let Some(inode) = self.inodes.get_mut(file) else { continue };
            known.push(file);
            let names: Vec<Slot> = inode.names.iter().cloned().collect();
            if self.rules.fsync_takes_old_names {
                let old = inode.left.extract_if(.., |(_, left)| *left < promise.covers);
                for (slot, left) in old.collect::<Vec<_>>() {
                    self.promise_slot(&slot, Promise { covers: left + 1, ..promise });
                }
            }
            for slot in names {
                self.promise_slot(&slot, promise);
                if !known.contains(&slot.folder) {
                    open.push(slot.folder);
                }
            }
        }
    }

    /// A name, and what the rules have go with it.
    fn promise_slot(&mut self, slot: &Slot, promise: Promise) {
        let mut open = vec![(slot.clone(), promise.covers)];
        while let Some((slot, covers)) = open.pop() {
            let Some(history) = self.inodes.get_mut(slot.folder).and_then(|folder| folder.entries.get_mut(&slot.name))
            else {
                continue;
            };
            // What an older promise covers has been followed then.
            let before = history.promises.at(u64::MAX).map_or(0, |before| before.covers);
            if covers <= before {
                continue;
            }
            history.promises.push(Promise { covers, ..promise });
            for version in history.versions().iter().rev() {
                let left = version.span.left;
                if left < before {
                    break;
                }
                if left < covers {
                    let moved = version.value.moved_to.as_ref().filter(|_| self.rules.keeps_moved_files);
                    let came = version.value.moved_from.as_ref().filter(|_| self.rules.rename_leaves_one_name);
                    open.extend(moved.into_iter().chain(came).map(|other| (other.clone(), left + 1)));
                }
            }
        }
    }

    /// A write is over that is durable by itself.
    pub(super) fn written_durably(
        &mut self,
        file: Number,
        offset_bytes: u64,
        len_bytes: u64,
        durability: Durability,
        number: usize,
        call: &Call,
    ) {
        self.names.insert(number, call.name.clone());
        let Some(inode) = self.inodes.get_mut(file) else { return };
        // Unlike a synchronisation it covers itself.
        let promise = Promise { covers: call.left.order + 1, position: call.left.position, call: number };
        let end = offset_bytes.saturating_add(len_bytes);
        for (_, history) in inode.sectors.range_mut(offset_bytes / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES)) {
            history.promises.push(promise);
        }
        // Only where it is the last byte: the kernel syncs the range alone.
        if end == inode.size_bytes() && len_bytes > 0 {
            inode.size.promises.push(promise);
        }
        if durability == Durability::File && self.rules.fsync_keeps_names {
            self.promise_names(file, Promise { covers: call.entered.order, ..promise });
        }
    }
}
