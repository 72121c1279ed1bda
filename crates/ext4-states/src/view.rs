//! The files of a recovered state, read once for each distinct metadata; a state with the same metadata and other data is read by
//! looking where contents are.
//!
//! Two readers must agree: the one here, and `ext4-view`, code that is not ours. Blocks of data are stamped with their own numbers
//! for it, so what it says of a file's contents is where they are. It knows neither unwritten extents, which it takes for data, nor
//! contents in inodes, nor inodes of 128 bytes: there only the one here reads, and it is held against e2fsck's replay and against
//! what the kernel mounts. It panics on some damage (the root of a tree of names that says it has more entries than a block holds),
//! which is one more way of not being able to read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crash::files::{Contents, Entry, FileId, FilePath, Found, Node};
use ext4_view::{Ext4, Ext4Error, Ext4Read};

use crate::disk::{BLOCK_BYTES_MAX, Bytes, Class, Disk, Id};
use crate::error::Unreadable;
use crate::inode::{Attributes, Contents as Places, Inode, Mapped, Type};
use crate::journal::emptied;
use crate::layout::{Blocks, Layout};

/// Most bytes of files that are read of one state.
const FILES_BYTES_MAX: u64 = 1 << 30;
/// More names than this are damage.
const NAMES_MAX: usize = 1 << 20;
const STAMP: u64 = 0x5eed_b10c << 32;
const STAMP_BYTES: usize = 8;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn stamp(block: u32) -> [u8; STAMP_BYTES] {
    (STAMP | u64::from(block)).to_le_bytes()
}

/// A recovered state with stamps in place of data.
pub(crate) struct Stamped {
    blocks: u32,
    block_bytes: usize,
    metadata: BTreeMap<u32, Bytes>,
    is_data: Vec<bool>,
}

impl Stamped {
    /// Takes the metadata of a recovered state. The journal stays behind, but for its super block: it is replayed.
    pub(crate) fn new(recovered: &impl Blocks, disk: &Disk, layout: &Layout) -> Self {
        let mut metadata = BTreeMap::new();
        for block in (0..disk.blocks()).filter(|block| disk.class(*block) == Class::Metadata) {
            let bytes = recovered.block(block);
            if bytes.iter().any(|byte| *byte != 0) {
                metadata.insert(block, Bytes::from(bytes));
            }
        }
        if let Some(journal) = layout.journal.first() {
            metadata.insert(*journal, Bytes::from(emptied(recovered.block(*journal))));
        }
        let is_data = (0..disk.blocks()).map(|block| disk.class(block) == Class::Data).collect();
        Self { blocks: disk.blocks(), block_bytes: disk.block_bytes(), metadata, is_data }
    }

    /// Takes the metadata from an image.
    pub(crate) fn of_image(image: &File, disk: &Disk, layout: &Layout) -> std::io::Result<Self> {
        let mut stamped = Self::new(disk, disk, layout);
        stamped.metadata.clear();
        let journal = layout.journal.first().copied();
        let block_bytes = disk.block_bytes();
        let mut bytes = vec![0; block_bytes];
        for block in 0..disk.blocks() {
            let is_metadata = disk.class(block) == Class::Metadata || Some(block) == journal;
            if is_metadata || disk.class(block) == Class::Data {
                image.read_exact_at(&mut bytes, u64::from(block) * block_bytes as u64)?;
                // e2fsck writes no data: what it changed there is a tree of extents that it had to put somewhere.
                if !is_metadata && bytes == disk.bytes(disk.id(block))[..] {
                    continue;
                }
                if Some(block) == journal {
                    bytes = emptied(&bytes);
                }
                if bytes.iter().any(|byte| *byte != 0) {
                    stamped.metadata.insert(block, Bytes::from(bytes.as_slice()));
                }
            }
        }
        Ok(stamped)
    }
}

const ZEROES: [u8; BLOCK_BYTES_MAX] = [0; BLOCK_BYTES_MAX];

impl Blocks for Stamped {
    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn block(&self, number: u32) -> &[u8] {
        let zeroes = ZEROES.get(..self.block_bytes).unwrap_or(&ZEROES);
        self.metadata.get(&number).map_or(zeroes, |bytes| bytes)
    }
}

/// What `ext4-view` reads: the same, and stamps.
struct Reader(std::rc::Rc<Stamped>);

impl Ext4Read for Reader {
    fn read(&mut self, start_byte: u64, to: &mut [u8]) -> Result<(), Failure> {
        let block_bytes = self.0.block_bytes;
        let end = start_byte.checked_add(to.len() as u64).ok_or("beyond the end")?;
        if end > u64::from(self.0.blocks) * block_bytes as u64 {
            return Err("beyond the end".into());
        }
        let (mut at, mut rest) = (start_byte, to);
        while !rest.is_empty() {
            let (number, within) = ((at / block_bytes as u64) as u32, (at % block_bytes as u64) as usize);
            let (now, later) = rest.split_at_mut(rest.len().min(block_bytes - within));
            if self.0.is_data.get(number as usize).copied().unwrap_or(false) {
                let stamp = stamp(number);
                for (to, from) in now.iter_mut().zip(stamp.iter().cycle().skip(within % STAMP_BYTES)) {
                    *to = *from;
                }
            } else if let Some(bytes) = self.0.block(number).get(within..within + now.len()) {
                now.copy_from_slice(bytes);
            }
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }
}

/// What a block of a file holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Chunk {
    /// What this block of the device holds.
    At(u32),
    /// These bytes, which are in metadata.
    Bytes(Box<[u8]>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    File { size_bytes: u64, chunks: Vec<(u64, Chunk)> },
    Folder,
    Symlink(Vec<u8>),
    Other,
}

/// A name, and what it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    pub(crate) path: Vec<u8>,
    pub(crate) inode: u32,
    pub(crate) attributes: Attributes,
    pub(crate) kind: Kind,
}

/// The files, and where their contents are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tree {
    /// Of the folder above all others.
    pub(crate) root: Option<Attributes>,
    /// In order of their paths: a folder is before what is in it.
    pub(crate) entries: Vec<Named>,
    pub(crate) block_bytes: usize,
    /// Where data of files is.
    pub(crate) data: Vec<u32>,
}

impl Tree {
    /// Reads all names and where everything is.
    pub(crate) fn read(stamped: Stamped, layout: &Layout) -> Result<Self, Unreadable> {
        let shared = std::rc::Rc::new(stamped);
        let other = if layout.is_read_here_only { None } else { Some(Other::open(shared.clone())?) };
        let root = Some(layout.file(&*shared, Layout::ROOT)?.attributes);
        let mut tree = Self { root, block_bytes: shared.block_bytes, ..Self::default() };
        let mut read_bytes = 0;
        let mut open = vec![(Vec::new(), Layout::ROOT)];
        while let Some((folder, number)) = open.pop() {
            let names = layout.folder(&*shared, number)?;
            if let Some(other) = &other {
                guarded(|| other.check_names(&folder, names.keys()))?;
            }
            for (name, number) in names.into_iter().map(|(name, found)| (name, found.inode)) {
                let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
                let path = [&folder, slash, &name].concat();
                let inode = layout.file(&*shared, number)?;
                let attributes = inode.attributes;
                let has_unwritten = matches!(&inode.contents, Places::Blocks(mapped)
                    if mapped.iter().any(|mapped| mapped.is_unwritten));
                let kind = match inode.kind {
                    Type::Folder => {
                        open.push((path.clone(), number));
                        Kind::Folder
                    }
                    Type::File => {
                        read_bytes += inode.size_bytes;
                        if read_bytes > FILES_BYTES_MAX {
                            return Err(Unreadable(format!("its files have more than {FILES_BYTES_MAX} bytes")));
                        }
                        Kind::File { size_bytes: inode.size_bytes, chunks: tree.chunks(inode, &shared) }
                    }
                    Type::Symlink => Kind::Symlink(target(inode, &shared)),
                    Type::Other => Kind::Other,
                };
                if let Some(other) = &other {
                    guarded(|| other.check(&path, &kind, has_unwritten, shared.block_bytes))?;
                }
                tree.entries.push(Named { path, inode: number, attributes, kind });
                if tree.entries.len() > NAMES_MAX {
                    return Err(Unreadable(format!("it has more than {NAMES_MAX} names")));
                }
            }
        }
        tree.entries.sort_by(|one, other| one.path.cmp(&other.path));
        tree.data.sort_unstable();
        tree.data.dedup();
        Ok(tree)
    }

    /// Where the blocks of a file are that do not read as zeroes.
    fn chunks(&mut self, inode: Inode, stamped: &Stamped) -> Vec<(u64, Chunk)> {
        let mapped = match inode.contents {
            Places::Blocks(mapped) => mapped,
            Places::Inline(bytes) => return vec![(0, Chunk::Bytes(bytes.into()))],
        };
        let is_read = |mapped: &&Mapped| {
            !mapped.is_unwritten && u64::from(mapped.within) * (self.block_bytes as u64) < inode.size_bytes
        };
        let mut chunks = Vec::new();
        for mapped in mapped.iter().filter(is_read) {
            let at = u64::from(mapped.within);
            if stamped.is_data.get(mapped.block as usize).copied().unwrap_or(false) {
                self.data.push(mapped.block);
                chunks.push((at, Chunk::At(mapped.block)));
            } else {
                chunks.push((at, Chunk::Bytes(stamped.block(mapped.block).into())));
            }
        }
        chunks
    }

    /// The first of what another tree has otherwise.
    pub(crate) fn difference(&self, other: &Self) -> String {
        fn all(tree: &Tree) -> BTreeMap<&[u8], &Named> {
            tree.entries.iter().map(|named| (named.path.as_slice(), named)).collect()
        }
        let (here, there) = (all(self), all(other));
        let paths = here.keys().chain(there.keys());
        let first = paths.filter(|path| here.get(*path) != there.get(*path)).min();
        let path = String::from_utf8_lossy(first.copied().unwrap_or_default()).into_owned();
        format!("e2fsck's replay leaves other files, of which the first is {path:?}")
    }

    /// A hash of the data of this state.
    pub(crate) fn data_of(&self, disk: &Disk) -> u64 {
        self.data.iter().fold(0, |sum, block| sum ^ disk.term(*block, disk.id(*block)))
    }

    /// The files of this state, as if a command had seen them on this device.
    pub(crate) fn found(&self, disk: &Disk, device: u64) -> Found {
        let file = |inode: u32| FileId { device, inode: u64::from(inode) };
        let mut found = Found::new(file(Layout::ROOT));
        for Named { path, inode, kind, .. } in &self.entries {
            let node = match kind {
                Kind::File { size_bytes, chunks } => {
                    let mut contents = Contents::zeroes(*size_bytes);
                    for (at, chunk) in chunks {
                        let at = at * self.block_bytes as u64;
                        match chunk {
                            Chunk::At(block) if disk.id(*block) == Id::ZEROES => {}
                            Chunk::At(block) => {
                                let id = disk.id(*block);
                                contents.put_named(at, disk.bytes(id), id.name());
                            }
                            Chunk::Bytes(bytes) => contents.put(at, bytes),
                        }
                    }
                    Node::File(contents)
                }
                Kind::Folder => Node::Folder,
                Kind::Symlink(to) => Node::Symlink(FilePath::new(to.clone())),
                Kind::Other => Node::Other,
            };
            found.insert(FilePath::new(path.clone()), Entry { file: file(*inode), node });
        }
        found
    }
}

/// Where a symbolic link leads.
fn target(inode: Inode, stamped: &Stamped) -> Vec<u8> {
    let mut bytes = match inode.contents {
        Places::Blocks(mapped) => mapped.iter().flat_map(|mapped| stamped.block(mapped.block)).copied().collect(),
        Places::Inline(bytes) => bytes,
    };
    bytes.truncate(usize::try_from(inode.size_bytes).unwrap_or(usize::MAX));
    bytes
}

/// The reader that is not ours.
struct Other(Ext4);

fn said(error: Ext4Error) -> Unreadable {
    Unreadable(format!("ext4-view: {error}"))
}

/// What it reads; nobody uses it again after a panic.
fn guarded<T>(read: impl FnOnce() -> Result<T, Unreadable>) -> Result<T, Unreadable> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(Unreadable("ext4-view panicked".to_owned())))
}

impl Other {
    fn open(stamped: std::rc::Rc<Stamped>) -> Result<Self, Unreadable> {
        guarded(|| Ext4::load(Box::new(Reader(stamped))).map(Self).map_err(said))
    }

    /// It must see these names in the folder, and no others.
    fn check_names<'a>(&self, folder: &[u8], names: impl Iterator<Item = &'a Vec<u8>>) -> Result<(), Unreadable> {
        let mut found = BTreeSet::new();
        for entry in self.0.read_dir([b"/", folder].concat().as_slice()).map_err(said)? {
            let entry = entry.map_err(said)?;
            let name = entry.file_name();
            let name: &[u8] = name.as_ref();
            if name != b"." && name != b".." {
                found.insert(name.to_vec());
            }
        }
        if found.iter().eq(names) { Ok(()) } else { Err(Unreadable("two readers see other names".to_owned())) }
    }

    /// It must see the same file at this path. Contents it reads right only where all extents are written.
    fn check(&self, path: &[u8], kind: &Kind, has_unwritten: bool, block_bytes: usize) -> Result<(), Unreadable> {
        let from_top = [b"/", path].concat();
        let about = self.0.symlink_metadata(from_top.as_slice()).map_err(said)?;
        let is_same = match kind {
            Kind::Folder => about.is_dir(),
            Kind::File { size_bytes, chunks } => {
                about.file_type().is_regular_file()
                    && about.len() == *size_bytes
                    && (has_unwritten
                        || self.0.read(from_top.as_slice()).map_err(said)? == stamps(*size_bytes, chunks, block_bytes))
            }
            Kind::Symlink(to) => {
                about.is_symlink() && {
                    let found = self.0.read_link(from_top.as_slice()).map_err(said)?;
                    AsRef::<[u8]>::as_ref(&found) == to
                }
            }
            Kind::Other => !about.is_dir() && !about.is_symlink() && !about.file_type().is_regular_file(),
        };
        let path = || String::from_utf8_lossy(path).into_owned();
        if is_same { Ok(()) } else { Err(Unreadable(format!("two readers see other contents of {:?}", path()))) }
    }
}

/// The contents of a file in which blocks of data are stamped.
fn stamps(size_bytes: u64, chunks: &[(u64, Chunk)], block_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; size_bytes as usize];
    for (at, chunk) in chunks {
        let place = bytes.get_mut(*at as usize * block_bytes..).unwrap_or_default();
        match chunk {
            Chunk::At(block) => {
                let stamp = stamp(*block);
                for (to, from) in place.iter_mut().take(block_bytes).zip(stamp.iter().cycle()) {
                    *to = *from;
                }
            }
            Chunk::Bytes(bytes) => {
                for (to, from) in place.iter_mut().zip(bytes) {
                    *to = *from;
                }
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const BLOCK_BYTES: usize = 4096;
    const BLOCKS: u32 = 2048;

    /// An image with a folder of so many names that it has a tree of them.
    fn image() -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let names = folder.path().join("top/names");
        std::fs::create_dir_all(&names).unwrap();
        for number in 0..400 {
            std::fs::write(names.join(format!("{number:060}")), b"").unwrap();
        }
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(u64::from(BLOCKS) * BLOCK_BYTES as u64).unwrap();
        let path = "/usr/sbin:/sbin:/usr/bin:/bin";
        let made = Command::new("mkfs.ext4")
            .env("PATH", path)
            .args(["-q", "-b", "4096", "-d"])
            .args([&folder.path().join("top"), &image])
            .status();
        if made.is_err() {
            println!("skipped: mkfs.ext4 is not installed");
            return None;
        }
        // Makes the tree. It says that it has changed something.
        Command::new("e2fsck").env("PATH", path).args(["-fyD"]).arg(&image).output().unwrap();
        Some(std::fs::read(image).unwrap())
    }

    fn read(image: &[u8]) -> Result<Tree, Unreadable> {
        let metadata = (0..).zip(image.chunks(BLOCK_BYTES).map(Bytes::from)).collect();
        let is_data = vec![false; BLOCKS as usize];
        let stamped = Stamped { blocks: BLOCKS, block_bytes: BLOCK_BYTES, metadata, is_data };
        let layout = Layout::read(&stamped).unwrap();
        assert!(!layout.is_read_here_only);
        Tree::read(stamped, &layout)
    }

    #[test]
    fn what_the_other_reader_panics_on_cannot_be_read() {
        let Some(mut image) = image() else { return };
        assert_eq!(read(&image).unwrap().entries.len(), 402);
        // A root: the entries `.` and `..`, and behind them how long what is said of the tree is, and how many entries it has.
        let is_root = |block: &&mut [u8]| block[4..9] == [12, 0, 1, 2, b'.'] && block[0x1d] == 8 && block[0x22] != 0;
        let root = image.chunks_mut(BLOCK_BYTES).find(is_root).unwrap();
        root[0x22..0x24].fill(0xff);
        let why = read(&image).unwrap_err();
        assert_eq!(why.0, "ext4-view panicked");
    }
}
