//! Inode numbers to files on Btrfs, where each subvolume numbers its files for itself.
//!
//! Events name the device of the file system, not the subvolume. An inode is looked for in every subvolume, mounted or not,
//! and found where only one can be meant: files that end before an access begins are ruled out, and copies in
//! snapshots (the same generation) stand behind the file that can be written. What then is left of several
//! is not guessed at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::resolve::{identify, walk};
use super::sys::Handle;
use crate::FileId;
use crate::btrfs_items::{Key, items};

/// Handles of Btrfs: inode, root and generation (`FILEID_BTRFS_WITHOUT_PARENT`).
const BTRFS_WITHOUT_PARENT: i32 = 0x4d;
/// The inode of every subvolume's root folder (`BTRFS_FIRST_FREE_OBJECTID`).
const ROOT_FOLDER: u64 = 256;

/// Most subvolumes that are looked through.
const MAX_SUBVOLUMES: usize = 1 << 12;
/// The tree of tree roots (`BTRFS_ROOT_TREE_OBJECTID`), and those whose roots are subvolumes'.
const ROOT_TREE: u64 = 1;
const FIRST_SUBVOLUME: u64 = 256;
const LAST_SUBVOLUME: u64 = u64::MAX - 255;
/// `BTRFS_FS_TREE_OBJECTID`: the subvolume that every file system has.
const TOP_SUBVOLUME: u64 = 5;
/// `BTRFS_ROOT_BACKREF_KEY`: a subvolume's place in its parent; each of the others has one.
const ROOT_BACKREF: u32 = 144;

/// One file with the number.
struct Candidate {
    generation: Option<u32>,
    path: Option<PathBuf>,
}

/// The files of these inodes, each with the first byte of its furthest access; `points` are the mounts of the
/// file system. `None` where subvolumes cannot be looked through (not root, or too many).
pub(super) fn files(points: &[PathBuf], wanted: &BTreeMap<u64, u64>) -> Option<BTreeMap<u64, (FileId, PathBuf)>> {
    let mounts: Vec<File> = points.iter().filter_map(|point| File::open(point).ok()).collect();
    let first = mounts.first()?;
    let handle = Handle::of(first).ok().filter(|handle| handle.kind() == BTRFS_WITHOUT_PARENT)?;
    let roots = subvolumes(first).ok()?;
    let mut found = BTreeMap::new();
    for (&inode, &furthest) in wanted {
        let all = roots.iter().filter_map(|&root| candidate(&mounts, &handle, root, inode, furthest));
        if let Some(path) = the_one(all.collect()).and_then(|one| one.path)
            && let Some(id) = identify(&path)
        {
            found.insert(inode, (id, path));
        }
    }
    Some(found)
}

/// The numbers of all subvolumes, snapshots among them. Needs `CAP_SYS_ADMIN`.
fn subvolumes(mount: &File) -> io::Result<Vec<u64>> {
    let first = Key { objectid: FIRST_SUBVOLUME, kind: 0, offset: 0 };
    let last = Key { objectid: LAST_SUBVOLUME, kind: u32::from(u8::MAX), offset: u64::MAX };
    let mut found = vec![TOP_SUBVOLUME];
    items(mount, ROOT_TREE, first, last, |key, _| {
        if key.kind == ROOT_BACKREF && found.last() != Some(&key.objectid) {
            found.push(key.objectid);
        }
        if found.len() > MAX_SUBVOLUMES { Err(io::Error::other("too many subvolumes")) } else { Ok(()) }
    })?;
    Ok(found)
}

/// The file that is meant, if that can be told.
fn the_one(mut all: Vec<Candidate>) -> Option<Candidate> {
    if all.len() > 1 {
        let generation = all.first()?.generation?;
        if all.iter().any(|candidate| candidate.generation != Some(generation)) {
            return None;
        }
        // Copies of one file in snapshots, which mostly are read-only.
        all.retain(|candidate| {
            candidate.path.as_deref().is_some_and(|path| rustix::fs::access(path, Access::WRITE_OK).is_ok())
        });
    }
    let one = all.pop()?;
    all.is_empty().then_some(one)
}

fn open(mounts: &[File], handle: &Handle, root: u64, inode: u64) -> Option<File> {
    let mut handle = handle.clone();
    let parts = [inode.to_le_bytes(), root.to_le_bytes()].concat();
    let bytes = handle.bytes_mut();
    bytes.get_mut(..16)?.copy_from_slice(&parts);
    // Any generation.
    bytes.get_mut(16..20)?.fill(0);
    mounts.iter().find_map(|mount| handle.open(mount).ok())
}

fn candidate(mounts: &[File], handle: &Handle, root: u64, inode: u64, furthest: u64) -> Option<Candidate> {
    let file = open(mounts, handle, root, inode)?;
    let status = file.metadata().ok()?;
    // A program that reads up to the end reads once more there.
    if !status.is_file() || status.nlink() == 0 || status.len() < furthest {
        return None;
    }
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let generation = File::open(&own).ok().and_then(|file| crate::migrate::generation(&file).ok());
    let device = status.dev();
    // The name that the kernel has cached, if it is one that leads here.
    let cached = fs::read_link(own).ok().filter(|path| is_at(path, device, inode));
    let path = cached.or_else(|| searched(mounts, handle, root, device, inode));
    Some(Candidate { generation, path })
}

fn is_at(path: &Path, device: u64, inode: u64) -> bool {
    identify(path).is_some_and(|id| (id.device, id.inode) == (device, inode))
}

/// Looks for the name, through the folders of the subvolume.
fn searched(mounts: &[File], handle: &Handle, root: u64, device: u64, inode: u64) -> Option<PathBuf> {
    let folder = open(mounts, handle, root, ROOT_FOLDER)?;
    let folder = fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()?;
    if fs::symlink_metadata(&folder).ok()?.dev() != device {
        return None;
    }
    let mut found = BTreeMap::new();
    walk(&folder, device, BTreeSet::from([inode]), &mut found);
    found.remove(&inode).map(|(_, path)| path)
}
