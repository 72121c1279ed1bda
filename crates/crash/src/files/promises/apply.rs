//! What a call changes in the model.

use super::super::calls::{Action, Allocation, Call, Data, FileId, FilePath};
use super::super::found::{Contents, Part};
use super::super::history::{History, Span};
use super::super::tree::{Binding, Inode, Kind, Number, SECTOR_BYTES, Sector, Slot};
use super::Promises;

impl Promises {
    /// One more call.
    pub(super) fn apply(&mut self, number: usize, call: &Call) {
        let span = Span::of(call);
        match &call.action {
            Action::Write { file, offset_bytes, data, durability } => {
                let Some(file) = self.file(*file) else { return };
                self.write(file, *offset_bytes, data, call.has_succeeded(), span);
                if let (Some(durability), true) = (durability, call.has_succeeded()) {
                    self.written_durably(file, *offset_bytes, data.len_bytes(), *durability, number, call);
                }
            }
            Action::Unfollowed => self.lose(span.position),
            Action::Sync { .. } | Action::SyncAll => {
                if call.has_succeeded() {
                    self.synced(number, call);
                }
            }
            // What a mapping's pages are is not known, so nothing can be checked of what msync promises.
            Action::SyncMap { .. } | Action::SyncRange { .. } => {}
            // Who was killed in a call may have made it.
            _ if call.result.is_none() => self.lose(span.position),
            _ if !call.has_succeeded() => {}
            action => self.change(action, span),
        }
    }

    fn change(&mut self, action: &Action, span: Span) {
        match action {
            Action::Create { path: None, file } => {
                self.add(*file, Inode::new(Kind::File));
            }
            Action::Create { path: Some(path), file } => self.make(path, *file, Kind::File, span),
            Action::MakeFolder { path, file } => self.make(path, *file, Kind::Folder, span),
            Action::MakeNode { path, file } => self.make(path, *file, Kind::Other, span),
            Action::Symlink { path, file, target } => self.make(path, *file, Kind::Symlink(target.clone()), span),
            Action::Truncate { file, size_bytes } => {
                if let Some(inode) = self.inode_of(*file) {
                    inode.zero(*size_bytes..inode.size_bytes(), span);
                    inode.set_size(*size_bytes, span);
                }
            }
            Action::Allocate { file, offset_bytes, len_bytes, how } => {
                if let Some(inode) = self.inode_of(*file) {
                    inode.allocate(*offset_bytes, *len_bytes, *how, span);
                }
            }
            Action::Map { file, offset_bytes, len_bytes } => {
                if let Some(inode) = self.inode_of(*file) {
                    inode.forget(*offset_bytes..offset_bytes.saturating_add(*len_bytes), span.position);
                }
            }
            Action::Rename { from, to, exchange } => self.rename(from, to, *exchange, span),
            Action::Link { file, path } => match (self.file(*file), self.slot(path)) {
                (Some(file), Some(slot)) => {
                    self.bind(&slot, Binding { file: Some(file), ..Binding::default() }, span);
                }
                _ => self.lose(span.position),
            },
            Action::Unlink { path } => match self.slot(path) {
                Some(slot) => self.bind(&slot, Binding::default(), span),
                None => self.lose(span.position),
            },
            Action::Write { .. }
            | Action::Sync { .. }
            | Action::SyncMap { .. }
            | Action::SyncRange { .. }
            | Action::SyncAll
            | Action::Unfollowed => {}
        }
    }

    fn inode_of(&mut self, file: FileId) -> Option<&mut Inode> {
        let number = self.file(file)?;
        self.inodes.get_mut(number)
    }

    fn write(&mut self, file: Number, offset_bytes: u64, data: &Data, has_succeeded: bool, span: Span) {
        let Some(inode) = self.inodes.get_mut(file) else { return };
        let end = offset_bytes.saturating_add(data.len_bytes());
        match data {
            _ if data.len_bytes() == 0 => return,
            Data::Bytes(bytes) if has_succeeded => inode.put(offset_bytes, bytes, span),
            Data::Sectors(sectors) if has_succeeded => inode.put_sectors(offset_bytes, sectors, span),
            Data::Zeroes(_) if has_succeeded => inode.put_zeroes(offset_bytes..end, span),
            // How much of a failed one there is nobody knows.
            _ => inode.forget(offset_bytes..end, span.position),
        }
        let before = inode.size_bytes();
        if end > before {
            inode.set_size(end, span);
            if !has_succeeded {
                inode.set_size(before, span);
            }
        }
    }

    fn make(&mut self, path: &FilePath, id: FileId, kind: Kind, span: Span) {
        let Some(slot) = self.slot(path) else { return self.lose(span.position) };
        let number = self.add(id, Inode::new(kind));
        self.bind(&slot, Binding { file: Some(number), ..Binding::default() }, span);
    }

    /// A name stands for something else.
    fn bind(&mut self, slot: &Slot, binding: Binding, span: Span) {
        let before = self.bound(slot.folder, &slot.name);
        if let Some(inode) = before.and_then(|before| self.inodes.get_mut(before)) {
            inode.names.remove(slot);
            if binding.moved_to.is_some() {
                inode.left.push((slot.clone(), span.left));
            }
        }
        if let Some(after) = binding.file {
            self.name(after, slot.clone());
        }
        if let Some(folder) = self.inodes.get_mut(slot.folder) {
            folder.changed.insert(slot.name.clone());
            let history = folder.entries.entry(slot.name.clone());
            history.or_insert_with(|| History::new(Binding::default())).push(binding, span);
        }
    }

    fn rename(&mut self, from: &FilePath, to: &FilePath, exchange: bool, span: Span) {
        let (Some(from), Some(to)) = (self.slot(from), self.slot(to)) else { return self.lose(span.position) };
        let (moved, other) = (self.bound(from.folder, &from.name), self.bound(to.folder, &to.name));
        if moved.is_none() {
            return self.lose(span.position);
        }
        // Two names of one file stay both (rename(2)).
        if moved == other {
            return;
        }
        let returning = exchange.then_some(other).flatten();
        let back = exchange.then(|| from.clone());
        let gone = Binding { file: returning, moved_to: Some(to.clone()), moved_from: returning.map(|_| to.clone()) };
        let come = Binding { file: moved, moved_to: back, moved_from: Some(from.clone()) };
        self.bind(&from, gone, span);
        self.bind(&to, come, span);
    }
}

impl Inode {
    /// The bytes that are there before anything begins.
    pub(super) fn start_with(&mut self, contents: &Contents) {
        self.size = History::new(contents.size_bytes());
        for number in contents.sectors() {
            let sector = match contents.sector(number) {
                Some(Part::Bytes(bytes)) if bytes.iter().any(|byte| *byte != 0) => Sector::Bytes(bytes.into()),
                Some(Part::Digest(digest)) => Sector::Digest(digest),
                _ => continue,
            };
            self.sectors.insert(number, History::new(sector));
        }
    }

    fn allocate(&mut self, offset_bytes: u64, len_bytes: u64, how: Allocation, span: Span) {
        let end = offset_bytes.saturating_add(len_bytes);
        let size_bytes = self.size_bytes();
        match how {
            Allocation::KeepSize | Allocation::Extend => {}
            Allocation::PunchHole | Allocation::ZeroRange | Allocation::ZeroRangeKeepSize => {
                self.zero(offset_bytes..end, span);
            }
            // Rare, and not worth a history that moves.
            Allocation::Collapse | Allocation::Insert => {
                self.forget(offset_bytes..u64::MAX - SECTOR_BYTES, span.position);
            }
        }
        match how {
            Allocation::Extend | Allocation::ZeroRange if end > size_bytes => self.set_size(end, span),
            Allocation::Collapse => self.set_size(size_bytes.saturating_sub(len_bytes), span),
            Allocation::Insert => self.set_size(size_bytes.saturating_add(len_bytes), span),
            _ => {}
        }
    }
}
