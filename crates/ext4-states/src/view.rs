//! The files of a recovered state, read by `ext4-view`: code that is not ours.
//!
//! It reads each distinct metadata once. Blocks of data are stamped with their own numbers meanwhile, so what it says of a file's
//! contents is where they are; a state with the same metadata and other data is read by looking there.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crash::files::{Contents, Entry, FileId, FilePath, Found, Node};
use ext4_view::{Ext4, Ext4Error, Ext4Read};

use crate::disk::{BLOCK_BYTES, Bytes, Class, Disk};
use crate::error::Unreadable;
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
                metadata.insert(block, Bytes::new(*bytes));
            }
        }
        if let Some(journal) = layout.journal.first() {
            metadata.insert(*journal, Bytes::new(emptied(recovered.block(*journal))));
        }
        let is_data = (0..disk.blocks()).map(|block| disk.class(block) == Class::Data).collect();
        Self { blocks: disk.blocks(), metadata, is_data }
    }

    /// Takes the metadata from an image.
    pub(crate) fn of_image(image: &File, disk: &Disk, layout: &Layout) -> std::io::Result<Self> {
        let mut stamped = Self::new(disk, disk, layout);
        stamped.metadata.clear();
        let journal = layout.journal.first().copied();
        let mut bytes = [0; BLOCK_BYTES];
        for block in 0..disk.blocks() {
            if disk.class(block) == Class::Metadata || Some(block) == journal {
                image.read_exact_at(&mut bytes, u64::from(block) * BLOCK_BYTES as u64)?;
                if Some(block) == journal {
                    bytes = emptied(&bytes);
                }
                if bytes.iter().any(|byte| *byte != 0) {
                    stamped.metadata.insert(block, Bytes::new(bytes));
                }
            }
        }
        Ok(stamped)
    }
}

const ZEROES: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

impl Blocks for Stamped {
    fn block(&self, number: u32) -> &[u8; BLOCK_BYTES] {
        self.metadata.get(&number).map_or(&ZEROES, |bytes| bytes)
    }
}

/// What `ext4-view` reads: the same, and stamps.
struct Reader(std::rc::Rc<Stamped>);

impl Ext4Read for Reader {
    fn read(&mut self, start_byte: u64, to: &mut [u8]) -> Result<(), Failure> {
        let end = start_byte.checked_add(to.len() as u64).ok_or("beyond the end")?;
        if end > u64::from(self.0.blocks) * BLOCK_BYTES as u64 {
            return Err("beyond the end".into());
        }
        let (mut at, mut rest) = (start_byte, to);
        while !rest.is_empty() {
            let (number, within) = ((at / BLOCK_BYTES as u64) as u32, (at % BLOCK_BYTES as u64) as usize);
            let (now, later) = rest.split_at_mut(rest.len().min(BLOCK_BYTES - within));
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
enum Chunk {
    /// What this block of the device holds.
    At(u32),
    /// These bytes, which are in metadata.
    Bytes(Box<[u8]>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    File { size_bytes: u64, chunks: Vec<(u64, Chunk)> },
    Folder,
    Symlink(Vec<u8>),
    Other,
}

/// The files, and where their contents are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tree {
    entries: Vec<(Vec<u8>, u32, Kind)>,
    /// Where data of files is.
    pub(crate) data: Vec<u32>,
}

impl Tree {
    /// Reads all names and where everything is.
    pub(crate) fn read(stamped: Stamped, layout: &Layout) -> Result<Self, Unreadable> {
        let shared = std::rc::Rc::new(stamped);
        let said = |error: Ext4Error| Unreadable(format!("ext4-view: {error}"));
        let view = Ext4::load(Box::new(Reader(shared.clone()))).map_err(said)?;
        let mut tree = Self::default();
        let mut read_bytes = 0;
        let mut open = vec![(Vec::new(), Layout::ROOT)];
        while let Some((folder, number)) = open.pop() {
            let mut numbers = layout.folder(&*shared, number)?;
            let in_view = [b"/", folder.as_slice()].concat();
            for entry in view.read_dir(in_view.as_slice()).map_err(said)? {
                let entry = entry.map_err(said)?;
                let name = entry.file_name();
                let name: &[u8] = name.as_ref();
                if name == b"." || name == b".." {
                    continue;
                }
                let number = numbers
                    .remove(name)
                    .map(|name| name.inode)
                    .ok_or_else(|| Unreadable("two readers see other names".to_owned()))?;
                let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
                let path = [&folder, slash, name].concat();
                let from_top = [b"/", path.as_slice()].concat();
                let kind = entry.file_type().map_err(said)?;
                let kind = if kind.is_dir() {
                    open.push((path.clone(), number));
                    Kind::Folder
                } else if kind.is_regular_file() {
                    let size_bytes = entry.metadata().map_err(said)?.len();
                    read_bytes += size_bytes;
                    if read_bytes > FILES_BYTES_MAX {
                        return Err(Unreadable(format!("its files have more than {FILES_BYTES_MAX} bytes")));
                    }
                    let bytes = view.read(from_top.as_slice()).map_err(said)?;
                    Kind::File { size_bytes, chunks: tree.chunks(&bytes, &shared, layout, number)? }
                } else if kind.is_symlink() {
                    let to = view.read_link(from_top.as_slice()).map_err(said)?;
                    Kind::Symlink(AsRef::<[u8]>::as_ref(&to).to_vec())
                } else {
                    Kind::Other
                };
                tree.entries.push((path, number, kind));
                if tree.entries.len() > NAMES_MAX {
                    return Err(Unreadable(format!("it has more than {NAMES_MAX} names")));
                }
            }
            if !numbers.is_empty() {
                return Err(Unreadable("two readers see other names".to_owned()));
            }
        }
        tree.entries.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        tree.data.sort_unstable();
        tree.data.dedup();
        Ok(tree)
    }

    /// Where the blocks of a file are, by the stamps in it.
    fn chunks(
        &mut self,
        bytes: &[u8],
        stamped: &Stamped,
        layout: &Layout,
        number: u32,
    ) -> Result<Vec<(u64, Chunk)>, Unreadable> {
        let mut chunks = Vec::new();
        for (at, chunk) in (0..).zip(bytes.chunks(BLOCK_BYTES)) {
            let block = match chunk.first_chunk() {
                Some(first) => {
                    let value = u64::from_le_bytes(*first);
                    (value & !u64::from(u32::MAX) == STAMP).then_some(value as u32)
                }
                // Too short for a stamp: where it begins must do.
                None if chunk.iter().all(|byte| *byte == 0) => None,
                None => layout.block_of(stamped, number, at)?,
            };
            let is_stamp = |block: u32| chunk.iter().zip(stamp(block).iter().cycle()).all(|(one, other)| one == other);
            match block.filter(|block| is_stamp(*block)) {
                Some(block) => {
                    self.data.push(block);
                    chunks.push((at, Chunk::At(block)));
                }
                None if chunk.iter().all(|byte| *byte == 0) => {}
                None => chunks.push((at, Chunk::Bytes(chunk.into()))),
            }
        }
        Ok(chunks)
    }

    /// The first of what another tree has otherwise.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let all = |tree: &Self| -> BTreeMap<Vec<u8>, (u32, Kind)> {
            tree.entries.iter().map(|(path, number, kind)| (path.clone(), (*number, kind.clone()))).collect()
        };
        let (here, there) = (all(self), all(other));
        let paths = here.keys().chain(there.keys());
        let first = paths.filter(|path| here.get(*path) != there.get(*path)).min();
        let path = String::from_utf8_lossy(first.map_or(&[][..], Vec::as_slice)).into_owned();
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
        for (path, number, kind) in &self.entries {
            let node = match kind {
                Kind::File { size_bytes, chunks } => {
                    let mut contents = Contents::zeroes(*size_bytes);
                    for (at, chunk) in chunks {
                        let bytes = match chunk {
                            Chunk::At(block) => &disk.bytes(disk.id(*block))[..],
                            Chunk::Bytes(bytes) => bytes,
                        };
                        contents.put(at * BLOCK_BYTES as u64, bytes);
                    }
                    Node::File(contents)
                }
                Kind::Folder => Node::Folder,
                Kind::Symlink(to) => Node::Symlink(FilePath::new(to.clone())),
                Kind::Other => Node::Other,
            };
            found.insert(FilePath::new(path.clone()), Entry { file: file(*number), node });
        }
        found
    }
}
