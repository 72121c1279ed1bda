//! The calls replayed: what each durability call has promised.

mod apply;
mod durability;

use std::collections::BTreeMap;

use super::calls::{Call, FileId, FilePath};
use super::found::{Found, Node};
use super::history::{History, PromiseList};
use super::rules::Rules;
use super::tree::{Binding, Inode, Kind, Number, Slot};

/// The folder that is looked at.
pub(super) const ROOT: Number = 0;

/// A model of the files with everything that they were, and what was promised of it.
#[derive(Clone, Debug)]
pub struct Promises {
    pub(super) rules: Rules,
    pub(super) inodes: Vec<Inode>,
    pub(super) by_id: BTreeMap<FileId, Number>,
    /// By `sync`: of everything.
    pub(super) all: PromiseList,
    /// The names of the calls that promise something, by their numbers, for messages.
    pub(super) names: BTreeMap<usize, String>,
    /// From this position on the model does not know the files.
    lost_at: Option<u64>,
}

impl Promises {
    /// What `calls`, in the order in which they ended, promise. `initial` are the files before them: they are durable, and were
    /// read while the same mount was there, since files are known by their numbers.
    pub fn new(rules: Rules, initial: &Found, calls: &[Call]) -> Self {
        let mut promises = Self {
            rules,
            inodes: vec![Inode::new(Kind::Folder)],
            by_id: BTreeMap::from([(initial.folder(), ROOT)]),
            all: PromiseList::default(),
            names: BTreeMap::new(),
            lost_at: None,
        };
        for (path, entry) in initial.entries() {
            promises.start_with(path, entry.file, &entry.node);
        }
        for (number, call) in calls.iter().enumerate() {
            promises.apply(number, call);
        }
        promises
    }

    /// Whether the files are known at a position: not after a call of a kind that is not followed, or that was killed while it
    /// changed names.
    pub fn knows(&self, until: u64) -> bool {
        self.lost_at.is_none_or(|lost_at| until < lost_at)
    }

    /// A file that was there before.
    fn start_with(&mut self, path: &FilePath, id: FileId, node: &Node) {
        let Some((folder, name)) = path.split() else { return };
        let Some(folder) = self.find(&folder) else { return };
        let number = match self.by_id.get(&id) {
            // One more name of a file.
            Some(number) => *number,
            None => {
                let mut inode = Inode::new(match node {
                    Node::File(_) => Kind::File,
                    Node::Folder => Kind::Folder,
                    Node::Symlink(target) => Kind::Symlink(target.clone()),
                    Node::Other => Kind::Other,
                });
                if let Node::File(contents) = node {
                    inode.start_with(contents);
                }
                self.add(id, inode)
            }
        };
        let slot = Slot { folder, name: name.to_vec() };
        let binding = Binding { file: Some(number), ..Binding::default() };
        if let Some(folder) = self.inodes.get_mut(folder) {
            folder.entries.insert(slot.name.clone(), History::new(binding));
        }
        self.name(number, slot);
    }

    fn add(&mut self, id: FileId, inode: Inode) -> Number {
        let number = self.inodes.len();
        self.inodes.push(inode);
        self.by_id.insert(id, number);
        number
    }

    /// One more name of a file.
    fn name(&mut self, number: Number, slot: Slot) {
        if let Some(inode) = self.inodes.get_mut(number) {
            inode.names.insert(slot);
            inode.had_links |= inode.names.len() > 1;
        }
    }

    fn file(&self, id: FileId) -> Option<Number> {
        self.by_id.get(&id).copied()
    }

    fn lose(&mut self, position: u64) {
        self.lost_at.get_or_insert(position);
    }

    /// What is at a path now.
    fn find(&self, path: &FilePath) -> Option<Number> {
        path.names().try_fold(ROOT, |folder, name| self.bound(folder, name))
    }

    /// What a name stands for now.
    fn bound(&self, folder: Number, name: &[u8]) -> Option<Number> {
        self.inodes.get(folder)?.entries.get(name)?.last().value.file
    }

    /// The name at a path; its folder is there.
    fn slot(&self, path: &FilePath) -> Option<Slot> {
        let (folder, name) = path.split()?;
        Some(Slot { folder: self.find(&folder)?, name: name.to_vec() })
    }
}
