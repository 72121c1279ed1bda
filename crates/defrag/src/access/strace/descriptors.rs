//! Where each descriptor of each process stands: dup(2), clone(2) and lseek(2).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Tables of descriptors that are remembered.
const MAX_TABLES: usize = 1 << 16;
/// Open files that are remembered.
const MAX_OPEN: usize = 1 << 20;

/// Where the next read or write is without an offset of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// At this byte.
    At(u64),
    /// Writes go to the end, wherever that is.
    Appending,
}

/// An open file ("open file description" of open(2)): shared by duplicates and children.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    path: PathBuf,
    /// Where it stands.
    pub position: Position,
    /// Whether it was opened with `O_DIRECT`.
    pub is_direct: bool,
}

#[derive(Default)]
pub struct Descriptors {
    open: Vec<Open>,
    tables: Vec<HashMap<u64, usize>>,
    of_thread: HashMap<u32, usize>,
    /// Threads that are just starting another one, and whether that shares their table.
    starting: HashMap<u32, bool>,
}

impl Descriptors {
    /// A call begins that has not ended yet: if it starts a thread, that thread's own
    /// lines may come before its number is known.
    pub fn begins(&mut self, thread: u32, call: &str) {
        if ["clone(", "clone3(", "fork(", "vfork("].iter().any(|name| call.starts_with(name))
            && self.starting.len() < MAX_TABLES
        {
            self.starting.insert(thread, call.contains("CLONE_FILES"));
        }
    }

    /// The thread's call has ended.
    pub fn ends(&mut self, thread: u32) {
        self.starting.remove(&thread);
    }

    pub fn exited(&mut self, thread: u32) {
        self.of_thread.remove(&thread);
    }

    fn table(&mut self, thread: u32) -> &mut HashMap<u64, usize> {
        let at = match self.of_thread.get(&thread) {
            Some(&at) => at,
            None => {
                let parent = self.starting.iter().next().map(|(&parent, &shares)| (parent, shares));
                let at = match parent.filter(|(parent, _)| self.of_thread.contains_key(parent)) {
                    Some((parent, shares)) => self.inherited(parent, shares),
                    None => self.add(HashMap::new()),
                };
                self.of_thread.insert(thread, at);
                at
            }
        };
        // `add` gives places that are there; a lost one would be empty, as for a new thread.
        if at >= self.tables.len() {
            self.tables.resize_with(at + 1, HashMap::new);
        }
        &mut self.tables[at]
    }

    fn add(&mut self, table: HashMap<u64, usize>) -> usize {
        if self.tables.len() >= MAX_TABLES {
            self.forget();
        }
        self.tables.push(table);
        self.tables.len() - 1
    }

    fn inherited(&mut self, parent: u32, shares: bool) -> usize {
        let copy = self.table(parent).clone();
        match self.of_thread.get(&parent) {
            Some(&at) if shares => at,
            _ => self.add(copy),
        }
    }

    pub fn fork(&mut self, parent: u32, child: u32, shares: bool) {
        if !self.of_thread.contains_key(&child) {
            let at = self.inherited(parent, shares);
            self.of_thread.insert(child, at);
        }
    }

    pub fn open(&mut self, thread: u32, descriptor: u64, path: PathBuf, is_direct: bool, appends: bool) {
        let position = if appends { Position::Appending } else { Position::At(0) };
        self.insert(thread, descriptor, Open { path, position, is_direct });
    }

    /// The place in `open` of what is inserted.
    fn insert(&mut self, thread: u32, descriptor: u64, open: Open) -> usize {
        if self.open.len() >= MAX_OPEN {
            self.forget();
        }
        self.table(thread);
        let at = self.open.len();
        self.open.push(open);
        self.table(thread).insert(descriptor, at);
        at
    }

    /// So many have come that most are gone: begins again.
    fn forget(&mut self) {
        self.tables.clear();
        self.of_thread.clear();
        self.open.clear();
    }

    pub fn duplicate(&mut self, thread: u32, from: u64, to: u64) {
        let table = self.table(thread);
        match table.get(&from).copied() {
            Some(at) => drop(table.insert(to, at)),
            None => drop(table.remove(&to)),
        }
    }

    pub fn close(&mut self, thread: u32, descriptor: u64) {
        self.table(thread).remove(&descriptor);
    }

    fn known(&mut self, thread: u32, descriptor: u64) -> Option<&mut Open> {
        let at = self.table(thread).get(&descriptor).copied()?;
        self.open.get_mut(at)
    }

    pub fn set_direct(&mut self, thread: u32, descriptor: u64, is_direct: bool) {
        if let Some(open) = self.known(thread, descriptor) {
            open.is_direct = is_direct;
        }
    }

    /// `argument` is the descriptor with its path.
    pub fn seek(&mut self, thread: u32, argument: &str, position: u64) {
        if let Some((descriptor, Some(path))) = super::call::descriptor(argument) {
            let open = self.used(thread, descriptor, &path);
            if open.position != Position::Appending {
                open.position = Position::At(position);
            }
        }
    }

    /// The open file of a descriptor that is used and was printed with this path. If its
    /// opening was not seen it stands at its beginning.
    pub fn used(&mut self, thread: u32, descriptor: u64, path: &Path) -> &mut Open {
        let known = self.table(thread).get(&descriptor).copied();
        let at = match known {
            Some(at) if self.open.get(at).is_some_and(|open| open.path == path) => at,
            _ => {
                let open = Open { path: path.to_owned(), position: Position::At(0), is_direct: false };
                self.insert(thread, descriptor, open)
            }
        };
        &mut self.open[at]
    }
}
