//! The files of a state as files of this machine, for programs that look at them.
//!
//! States differ in few of their files, and programs change few: what is as it was laid out, by the number of its inode and by its
//! time of change, which no program can set, is left where it is.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use twox_hash::XxHash3_64;

use crate::disk::{Disk, Id};
use crate::inode::Attributes;
use crate::view::{Chunk, Kind, Named, Tree};

/// Why files are not there.
#[derive(Debug)]
pub(crate) enum NotLaidOut {
    /// It names something that is neither a file, nor a folder, nor a symbolic link.
    Special(String),
    /// In making this.
    System(PathBuf, io::Error),
}

/// What this machine knows of a file: another of any of it is another file, or one that was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    inode: u64,
    changed: (i64, i64),
}

impl Mark {
    fn of(path: &Path) -> io::Result<Self> {
        let about = fs::symlink_metadata(path)?;
        Ok(Self { inode: about.ino(), changed: (about.ctime(), about.ctime_nsec()) })
    }
}

/// A folder in which states are laid out, one after the other.
pub(crate) struct Ground {
    folder: PathBuf,
    /// Whether files get their owners: for root alone.
    owners: bool,
    /// What was made of each path but folders: of which contents and attributes, and how it was left.
    made: BTreeMap<Vec<u8>, (u64, Mark)>,
}

impl Ground {
    /// Of a folder that is not there yet.
    pub(crate) fn new(folder: PathBuf, owners: bool) -> Self {
        Self { folder, owners, made: BTreeMap::new() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder hold the files of the state that is on `disk`, and nothing else. Extended attributes, times of symbolic links
    /// and sizes of folders are left out.
    pub(crate) fn lay_out(&mut self, tree: &Tree, disk: &Disk) -> Result<(), NotLaidOut> {
        if let Some(special) = tree.entries.iter().find(|named| matches!(named.kind, Kind::Other)) {
            return Err(NotLaidOut::Special(String::from_utf8_lossy(&special.path).into_owned()));
        }
        // What a script left may be closed to who runs it: then all is made anew.
        self.change(tree, disk).or_else(|_| {
            let failed = |error| NotLaidOut::System(self.folder.clone(), error);
            remove(&self.folder).map_err(failed)?;
            self.made.clear();
            self.change(tree, disk)
        })
    }

    fn change(&mut self, tree: &Tree, disk: &Disk) -> Result<(), NotLaidOut> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| NotLaidOut::System(path, error)
        };
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        let wanted: BTreeMap<&[u8], bool> =
            tree.entries.iter().map(|named| (named.path.as_slice(), matches!(named.kind, Kind::Folder))).collect();
        clear(&self.folder, Vec::new(), &wanted).map_err(failed(&self.folder))?;
        let before = std::mem::take(&mut self.made);
        let mut names: BTreeMap<u32, u32> = BTreeMap::new();
        for named in &tree.entries {
            *names.entry(named.inode).or_default() += 1;
        }
        let mut first_names: BTreeMap<u32, PathBuf> = BTreeMap::new();
        let mut new = Vec::new();
        for named in &tree.entries {
            let path = self.folder.join(OsStr::from_bytes(&named.path));
            let signature = signature(tree, named, disk);
            let is_linked = names.get(&named.inode).is_some_and(|names| *names > 1);
            let is_kept = !is_linked
                && before.get(&named.path).is_some_and(|(made, mark)| {
                    *made == signature && Mark::of(&path).is_ok_and(|found| found == *mark)
                });
            if matches!(named.kind, Kind::Folder) {
                if !path.is_dir() {
                    fs::create_dir(&path).map_err(failed(&path))?;
                }
            } else if is_kept {
                self.made.extend(before.get_key_value(&named.path).map(|(path, made)| (path.clone(), *made)));
            } else {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path)(error)),
                    _ => {}
                }
                make(tree, named, disk, &path, &mut first_names).map_err(failed(&path))?;
                new.push((named, path, signature));
            }
        }
        // Last, and folders from below: writing changes times, and a folder may be closed to who writes.
        for (named, path, signature) in new {
            let is_link = matches!(named.kind, Kind::Symlink(_));
            give(&path, &named.attributes, is_link, self.owners).map_err(failed(&path))?;
            let mark = Mark::of(&path).map_err(failed(&path))?;
            self.made.insert(named.path.clone(), (signature, mark));
        }
        for named in tree.entries.iter().rev().filter(|named| matches!(named.kind, Kind::Folder)) {
            let path = self.folder.join(OsStr::from_bytes(&named.path));
            give(&path, &named.attributes, false, self.owners).map_err(failed(&path))?;
        }
        match &tree.root {
            Some(root) => give(&self.folder, root, false, self.owners).map_err(failed(&self.folder)),
            None => Ok(()),
        }
    }
}

/// A hash of what a file holds and how it is.
fn signature(tree: &Tree, named: &Named, disk: &Disk) -> u64 {
    let Attributes { mode, user, group, modified } = named.attributes;
    let mut told: Vec<u8> = Vec::new();
    for number in [mode, user, group, modified.subsec_nanos()] {
        told.extend(number.to_le_bytes());
    }
    told.extend(modified.as_secs().to_le_bytes());
    match &named.kind {
        Kind::Folder | Kind::Other => {}
        Kind::Symlink(to) => told.extend(to),
        Kind::File { size_bytes, chunks } => {
            told.extend(size_bytes.to_le_bytes());
            told.extend(tree.block_bytes.to_le_bytes());
            for (at, chunk) in chunks {
                told.extend(at.to_le_bytes());
                match chunk {
                    Chunk::At(block) => told.extend(disk.id(*block).name().to_le_bytes()),
                    Chunk::Bytes(bytes) => told.extend(bytes),
                }
            }
        }
    }
    XxHash3_64::oneshot(&told)
}

/// Removes what is not wanted, by paths with whether each is a folder, from the folder `below` on.
fn clear(folder: &Path, below: Vec<u8>, wanted: &BTreeMap<&[u8], bool>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let slash: &[u8] = if below.is_empty() { b"" } else { b"/" };
        let path = [&below, slash, &entry.file_name().into_vec()].concat();
        let is_folder = entry.file_type()?.is_dir();
        match wanted.get(path.as_slice()) {
            Some(true) if is_folder => clear(&entry.path(), path, wanted)?,
            Some(false) if !is_folder => {}
            _ if is_folder => fs::remove_dir_all(entry.path())?,
            _ => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Makes a file or a symbolic link.
fn make(
    tree: &Tree,
    named: &Named,
    disk: &Disk,
    path: &Path,
    first_names: &mut BTreeMap<u32, PathBuf>,
) -> io::Result<()> {
    match &named.kind {
        Kind::Symlink(to) => symlink(OsStr::from_bytes(to), path),
        Kind::File { size_bytes, chunks } => match first_names.get(&named.inode) {
            Some(first) => fs::hard_link(first, path),
            None => {
                write(tree, &File::create_new(path)?, *size_bytes, chunks, disk)?;
                first_names.insert(named.inode, path.to_owned());
                Ok(())
            }
        },
        Kind::Folder | Kind::Other => Ok(()),
    }
}

fn write(tree: &Tree, file: &File, size_bytes: u64, chunks: &[(u64, Chunk)], disk: &Disk) -> io::Result<()> {
    file.set_len(size_bytes)?;
    for (at, chunk) in chunks {
        let at_bytes = at * tree.block_bytes as u64;
        let bytes: &[u8] = match chunk {
            Chunk::At(block) if disk.id(*block) == Id::ZEROES => continue,
            Chunk::At(block) => disk.bytes(disk.id(*block)),
            Chunk::Bytes(bytes) => bytes,
        };
        let within = size_bytes.saturating_sub(at_bytes).min(bytes.len() as u64) as usize;
        file.write_all_at(bytes.get(..within).unwrap_or_default(), at_bytes)?;
    }
    Ok(())
}

fn give(path: &Path, attributes: &Attributes, is_link: bool, owners: bool) -> io::Result<()> {
    if owners {
        lchown(path, Some(attributes.user), Some(attributes.group))?;
    }
    if is_link {
        return Ok(());
    }
    // A clock so late that this machine cannot say it is left out.
    if let Some(modified) = SystemTime::UNIX_EPOCH.checked_add(attributes.modified) {
        File::open(path)?.set_times(FileTimes::new().set_modified(modified))?;
    }
    // After the owner, which takes some of it away.
    fs::set_permissions(path, Permissions::from_mode(attributes.mode))
}

/// Also where a folder is closed to its owner.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder).or_else(|_| {
        Command::new("chmod").args(["-R", "u+rwX"]).arg(folder).status()?;
        fs::remove_dir_all(folder)
    })
}
