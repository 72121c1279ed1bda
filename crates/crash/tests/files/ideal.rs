//! An ideal file system in memory: names in a journal, of which a power cut leaves any beginning that is long enough; bytes and
//! sizes of which it leaves any version that is new enough. It knows nothing of the crate's own model. A [`Defect`] breaks it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crash::files::{
    Action, Call, Contents, Data, Durability, Entry, FILE_BLOCK_BYTES, FileId, FilePath, Found, Moment, Node,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub const SECTOR: usize = 512;

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    FsyncForgetsSize,
    FsyncForgetsData,
    FsyncForgetsName,
    FdatasyncForgetsSize,
    FdatasyncForgetsData,
    SynchronousWriteForgetsData,
    FolderFsyncForgetsNames,
    SyncForgetsOneFile,
    SyncForgetsNames,
    RenameLosesBoth,
    RenameLeavesBoth,
    ReplacedNameIsMissing,
    OldNameStaysAfterFsync,
    StaleBytesInHoles,
    TornInsideSectors,
    SymlinkIsEmpty,
    CoversTooLittle,
}

pub const DEFECTS: [Defect; 17] = [
    Defect::FsyncForgetsSize,
    Defect::FsyncForgetsData,
    Defect::FsyncForgetsName,
    Defect::FdatasyncForgetsSize,
    Defect::FdatasyncForgetsData,
    Defect::SynchronousWriteForgetsData,
    Defect::FolderFsyncForgetsNames,
    Defect::SyncForgetsOneFile,
    Defect::SyncForgetsNames,
    Defect::RenameLosesBoth,
    Defect::RenameLeavesBoth,
    Defect::ReplacedNameIsMissing,
    Defect::OldNameStaysAfterFsync,
    Defect::StaleBytesInHoles,
    Defect::TornInsideSectors,
    Defect::SymlinkIsEmpty,
    Defect::CoversTooLittle,
];

/// A step of a program; numbers choose among few names, places and sizes.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub what: u8,
    pub one: u8,
    pub other: u8,
    pub size: u16,
    /// How far the log goes on before and during the call.
    pub wait: (u8, u8),
}

/// Some more often, so that more happens to one file.
const NAMES: [&str; 12] = ["a", "a", "a", "a", "b", "b", "c", "d", "e", "d/a", "d/b", "e/a"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    File,
    Folder,
    Symlink,
}

struct Inode {
    kind: Kind,
    /// Its bytes after so many calls.
    versions: Vec<(usize, Vec<u8>)>,
}

/// What a synchronisation covers.
enum Covered {
    All,
    /// A file or folder.
    One {
        inode: usize,
        data_only: bool,
    },
    /// Bytes of a write.
    Range {
        inode: usize,
        from: usize,
        to: usize,
    },
}

struct Sync {
    covered: Covered,
    /// So many calls were over when it began.
    calls: usize,
    position: u64,
}

type Tree = BTreeMap<String, usize>;

/// The file system, and what was done to it.
pub struct Ideal {
    pub calls: Vec<Call>,
    inodes: Vec<Inode>,
    /// The names after so many calls.
    trees: Vec<(usize, Tree)>,
    syncs: Vec<Sync>,
    renames: Vec<(usize, String, String)>,
    order: u64,
    position: u64,
}

fn id(inode: usize) -> FileId {
    FileId { device: 1, inode: inode as u64 }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Ideal {
    pub fn run(steps: &[Step]) -> Self {
        let mut ideal = Self {
            calls: Vec::new(),
            inodes: vec![Inode { kind: Kind::Folder, versions: Vec::new() }],
            trees: vec![(0, Tree::from([(String::new(), 0)]))],
            syncs: Vec::new(),
            renames: Vec::new(),
            order: 0,
            position: 0,
        };
        for step in steps {
            ideal.step(*step);
        }
        ideal
    }

    /// Of nothing.
    pub fn initial() -> Found {
        Found::new(id(0))
    }

    pub fn positions(&self) -> u64 {
        self.position
    }

    fn tree(&self) -> &Tree {
        &self.trees.last().unwrap().1
    }

    fn moment(&mut self, wait: u8) -> Moment {
        self.order += 1;
        self.position += u64::from(wait % 3);
        Moment { order: self.order, position: self.position }
    }

    fn call(&mut self, name: &str, step: Step, action: Action) {
        let entered = self.moment(step.wait.0);
        let left = self.moment(step.wait.1);
        self.push(name, entered, left, action);
    }

    fn push(&mut self, name: &str, entered: Moment, left: Moment, action: Action) {
        self.calls.push(Call { thread: 0, name: name.to_owned(), entered, left, result: Some(0), action });
    }

    fn new_inode(&mut self, kind: Kind) -> usize {
        self.inodes.push(Inode { kind, versions: vec![(self.calls.len() + 1, Vec::new())] });
        self.inodes.len() - 1
    }

    /// After the call that is about to be listed.
    fn set_tree(&mut self, tree: Tree) {
        self.trees.push((self.calls.len() + 1, tree));
    }

    fn bytes(&self, inode: usize) -> Vec<u8> {
        self.inodes[inode].versions.last().unwrap().1.clone()
    }

    fn set_bytes(&mut self, inode: usize, bytes: Vec<u8>) {
        let after = self.calls.len() + 1;
        self.inodes[inode].versions.push((after, bytes));
    }

    fn step(&mut self, step: Step) {
        let one = NAMES[usize::from(step.one) % NAMES.len()];
        let other = NAMES[usize::from(step.other) % NAMES.len()];
        let mut tree = self.tree().clone();
        let at = tree.get(one).copied();
        let has_folder = |path: &str, tree: &Tree| {
            tree.get(split(path).0).is_some_and(|folder| self.inodes[*folder].kind == Kind::Folder)
        };
        let is_empty = |path: &str, tree: &Tree| !tree.keys().any(|it| it.starts_with(&format!("{path}/")));
        let kind = at.map(|at| self.inodes[at].kind);
        match (step.what % 20, at, kind) {
            (0..=2, None, _) if has_folder(one, &tree) => {
                let (kind, made) = match (step.what % 20, one) {
                    (_, "d" | "e") => (Kind::Folder, "mkdir"),
                    (2, _) => (Kind::Symlink, "symlink"),
                    _ => (Kind::File, "open"),
                };
                let file = self.new_inode(kind);
                tree.insert(one.to_owned(), file);
                self.set_tree(tree);
                let (path, file) = (FilePath::from(one), id(file));
                let action = match kind {
                    Kind::Folder => Action::MakeFolder { path, file },
                    Kind::Symlink => Action::Symlink { path, file, target: FilePath::from("where") },
                    Kind::File => Action::Create { path: Some(path), file },
                };
                self.call(made, step, action);
            }
            (3..=6, Some(file), Some(Kind::File)) => self.write(file, step),
            (7, Some(file), Some(Kind::File)) => {
                let size = usize::from(step.size) % 9000;
                let mut bytes = self.bytes(file);
                bytes.resize(size, 0);
                self.set_bytes(file, bytes);
                self.call("ftruncate", step, Action::Truncate { file: id(file), size_bytes: size as u64 });
            }
            (8 | 9, Some(file), Some(moved)) => {
                let target = tree.get(other).copied();
                let replaces = target.is_none_or(|target| {
                    (self.inodes[target].kind == Kind::Folder) == (moved == Kind::Folder)
                        && (moved != Kind::Folder || is_empty(other, &tree))
                });
                let below = other.starts_with(&format!("{one}/"));
                if target == Some(file) || !replaces || below || !has_folder(other, &tree) {
                    return;
                }
                let prefix = format!("{one}/");
                let mut renamed = Tree::new();
                for (path, inode) in &tree {
                    if path == one {
                        renamed.insert(other.to_owned(), *inode);
                    } else if let Some(below) = path.strip_prefix(&prefix) {
                        renamed.insert(format!("{other}/{below}"), *inode);
                    } else if path != other {
                        renamed.insert(path.clone(), *inode);
                    }
                }
                self.renames.push((self.calls.len(), one.to_owned(), other.to_owned()));
                self.set_tree(renamed);
                let (from, to) = (FilePath::from(one), FilePath::from(other));
                self.call("rename", step, Action::Rename { from, to, exchange: false });
            }
            (10, Some(file), Some(Kind::File)) if !tree.contains_key(other) && has_folder(other, &tree) => {
                tree.insert(other.to_owned(), file);
                self.set_tree(tree);
                self.call("link", step, Action::Link { file: id(file), path: FilePath::from(other) });
            }
            (11, Some(_), Some(_)) if is_empty(one, &tree) => {
                tree.remove(one);
                self.set_tree(tree);
                self.call("unlink", step, Action::Unlink { path: FilePath::from(one) });
            }
            (12 | 13, Some(inode), Some(Kind::File | Kind::Folder)) => self.sync(Some((inode, false)), step),
            (14, Some(inode), Some(Kind::File)) => self.sync(Some((inode, true)), step),
            (15, ..) => self.sync(Some((0, false)), step),
            (16, ..) => self.sync(None, step),
            // Something else happens while a synchronisation is under way.
            (17 | 18, Some(inode), Some(Kind::File)) => {
                let calls = self.calls.len();
                let entered = self.moment(step.wait.0);
                self.write(inode, step);
                let left = self.moment(step.wait.1);
                let covered = Covered::One { inode, data_only: false };
                self.syncs.push(Sync { covered, calls, position: left.position });
                self.push("fsync", entered, left, Action::Sync { file: id(inode), data_only: false });
            }
            _ => {}
        }
    }

    fn write(&mut self, file: usize, step: Step) {
        let from = usize::from(step.size) % 8500;
        let to = from + 1 + usize::from(step.other) * 5;
        let fill = (self.calls.len() % 250) as u8 + 1;
        let mut bytes = self.bytes(file);
        bytes.resize(bytes.len().max(to), 0);
        bytes[from..to].fill(fill);
        self.set_bytes(file, bytes);
        let durability = (step.what % 20 == 6).then_some(Durability::Data);
        let data = Data::Bytes(vec![fill; to - from]);
        // Of some only digests are known.
        let data = if self.calls.len() % 3 == 1 { data.by_sectors(from as u64) } else { data };
        self.call("pwrite64", step, Action::Write { file: id(file), offset_bytes: from as u64, data, durability });
        if durability.is_some() {
            let covered = Covered::Range { inode: file, from, to };
            self.syncs.push(Sync { covered, calls: self.calls.len(), position: self.position });
        }
    }

    fn sync(&mut self, what: Option<(usize, bool)>, step: Step) {
        let calls = self.calls.len();
        let (name, action, covered) = match what {
            None => ("sync", Action::SyncAll, Covered::All),
            Some((inode, data_only)) => {
                let name = if data_only { "fdatasync" } else { "fsync" };
                (name, Action::Sync { file: id(inode), data_only }, Covered::One { inode, data_only })
            }
        };
        self.call(name, step, action);
        self.syncs.push(Sync { covered, calls, position: self.position });
    }

    /// The names after so many calls.
    fn tree_at(&self, calls: usize) -> &Tree {
        let after = self.trees.partition_point(|(at, _)| *at <= calls);
        &self.trees[after - 1].1
    }

    fn bytes_at(&self, inode: usize, calls: usize) -> &[u8] {
        let versions = &self.inodes[inode].versions;
        let after = versions.partition_point(|(at, _)| *at <= calls);
        &versions[after.max(1) - 1].1
    }

    /// What a power cut at a position leaves, by lot. Blocks have names.
    pub fn cut(&self, until: u64, seed: u64, defect: Option<Defect>) -> Found {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let has = |one: Defect| defect == Some(one);
        // Calls that had begun; a synchronisation changes nothing.
        let changes = |call: &Call| !matches!(call.action, Action::Sync { .. } | Action::SyncAll);
        let begun = self.calls.iter().rposition(|call| changes(call) && call.entered.position <= until);
        let newest = begun.map_or(0, |last| last + 1);
        let forgotten = random.random_range(0..self.inodes.len());
        let covers = |sync: &Sync| if has(Defect::CoversTooLittle) { sync.calls.saturating_sub(1) } else { sync.calls };
        let done = || self.syncs.iter().filter(|sync| sync.position <= until);
        // Any synchronisation writes the journal, as ext4's does.
        let of_names = done().filter(|sync| match sync.covered {
            Covered::All => !has(Defect::SyncForgetsNames),
            Covered::One { inode, .. } if self.inodes[inode].kind == Kind::Folder => {
                !has(Defect::FolderFsyncForgetsNames)
            }
            Covered::One { .. } => !has(Defect::FsyncForgetsName),
            Covered::Range { .. } => false,
        });
        let names_from = of_names.map(covers).max().unwrap_or(0);
        let names_to = newest.max(names_from);
        let at = random.random_range(names_from..=names_to);
        let mut tree = self.tree_at(at).clone();
        for (call, from, to) in &self.renames {
            let is_undecided = (names_from..names_to).contains(call);
            let is_promised = *call < names_from;
            // The one that was moved is what the name stands for still; it is no folder, and in none that may be another now.
            let is_moved = tree.get(to).is_some_and(|moved| {
                let is_folder = self.inodes[*moved].kind == Kind::Folder;
                self.tree_at(*call).get(from) == Some(moved) && !is_folder && !from.contains('/')
            });
            match defect {
                Some(Defect::RenameLosesBoth) if is_undecided => {
                    tree.remove(from);
                    tree.remove(to);
                }
                Some(Defect::RenameLeavesBoth) if is_undecided && is_moved && !tree.contains_key(from) => {
                    if let Some(inode) = tree.get(to).copied() {
                        tree.insert(from.clone(), inode);
                    }
                }
                Some(Defect::ReplacedNameIsMissing) if is_undecided => {
                    tree.remove(to);
                }
                Some(Defect::OldNameStaysAfterFsync) if is_promised && is_moved && !tree.contains_key(from) => {
                    if let Some(inode) = tree.get(to).copied() {
                        tree.insert(from.clone(), inode);
                    }
                }
                _ => {}
            }
        }
        // A defect may have taken a folder.
        let complete = tree.clone();
        tree.retain(|path, _| complete.contains_key(split(path).0));
        let mut found = Found::new(id(0));
        for (path, inode) in tree.iter().filter(|(path, _)| !path.is_empty()) {
            let node = match self.inodes[*inode].kind {
                Kind::Folder => Node::Folder,
                Kind::Symlink if has(Defect::SymlinkIsEmpty) => Node::Symlink(FilePath::default()),
                Kind::Symlink => Node::Symlink(FilePath::from("where")),
                Kind::File => {
                    // Names of one file show the same bytes.
                    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ *inode as u64);
                    let oldest = |size: bool, sector: usize| {
                        let mine = done().filter(|sync| match &sync.covered {
                            Covered::All => !(has(Defect::SyncForgetsOneFile) && *inode == forgotten),
                            Covered::One { inode: other, data_only } => {
                                let forgets = match (data_only, size) {
                                    (false, true) => has(Defect::FsyncForgetsSize),
                                    (false, false) => has(Defect::FsyncForgetsData),
                                    (true, true) => has(Defect::FdatasyncForgetsSize),
                                    (true, false) => has(Defect::FdatasyncForgetsData),
                                };
                                other == inode && !forgets
                            }
                            Covered::Range { inode: other, from, to } => {
                                let inside = (from / SECTOR..to.div_ceil(SECTOR)).contains(&sector);
                                let is_end = self.bytes_at(*other, sync.calls).len() == *to;
                                other == inode
                                    && (if size { is_end } else { inside })
                                    && !has(Defect::SynchronousWriteForgetsData)
                            }
                        });
                        mine.map(covers).max().unwrap_or(0)
                    };
                    let mut pick = |from: usize| random.random_range(from..=newest.max(from));
                    let size = self.bytes_at(*inode, pick(oldest(true, 0))).len();
                    let mut contents = vec![0; size];
                    for (sector, place) in contents.chunks_mut(SECTOR).enumerate() {
                        let first = sector * SECTOR;
                        let from = pick(oldest(false, sector));
                        let version = self.bytes_at(*inode, from).get(first..).unwrap_or_default();
                        let len = place.len().min(version.len());
                        place[..len].copy_from_slice(&version[..len]);
                        if has(Defect::StaleBytesInHoles) && version.iter().take(len).all(|byte| *byte == 0) {
                            place.fill(0xfe);
                        }
                        if has(Defect::TornInsideSectors) && len > 8 {
                            let old = self.bytes_at(*inode, from.saturating_sub(1)).get(first..first + 8);
                            place[..8].copy_from_slice(old.unwrap_or(&[0xfd; 8]));
                        }
                    }
                    Node::File(named(&contents))
                }
            };
            found.insert(FilePath::from(path.as_str()), Entry { file: id(*inode), node });
        }
        found
    }
}

/// Contents whose whole blocks are named by their bytes.
fn named(bytes: &[u8]) -> Contents {
    let mut contents = Contents::zeroes(bytes.len() as u64);
    for (number, block) in (0..).zip(bytes.chunks(FILE_BLOCK_BYTES as usize)) {
        let mut hasher = DefaultHasher::new();
        block.hash(&mut hasher);
        contents.put_named(number * FILE_BLOCK_BYTES, &Arc::from(block), hasher.finish());
    }
    contents
}
