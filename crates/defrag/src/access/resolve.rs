//! From inode numbers to files.
//!
//! An inode's file is opened by a file handle (open_by_handle_at(2)), which takes no
//! walk. The handle is that of the mount's root with the number changed. Its generation is 0,
//! which ext4, f2fs and Btrfs take for any; XFS is first asked for the true one. The path
//! then is what the kernel's name cache says, checked by a `stat`; inodes whose names are
//! not cached are looked for in one walk of their mount.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use observe::mounts::Mounts;
use units::Printable;

use super::error::TraceError;
use super::filter::Selection;
use super::fold;
use super::model::Trace;
use super::recorder::{RawFile, RawKind, Recorder};
use super::subvolumes;
use super::sys::{self, Handle};
use crate::{Access, FileId, IoKind};

/// Generic handles of 32-bit inode and generation: ext4, f2fs and others.
const INO32_GEN: i32 = 0x01;
/// Btrfs: inode, root and generation.
const BTRFS_WITHOUT_PARENT: i32 = 0x4d;
/// XFS with 64-bit inode numbers: inode and generation.
const XFS_INO64_GEN: i32 = 0x81;
/// Folders that one walk has open in its list at once.
const MAX_OPEN_FOLDERS: usize = 1 << 20;

/// The trace of what was recorded: the files of the selection, with paths and generations.
pub(super) fn trace_of(source: &str, recorder: Recorder, selection: &Selection) -> Result<Trace, TraceError> {
    let mut trace = Trace { source: source.into(), lost: recorder.lost, ..Trace::default() };
    let mut seen = recorder.seen;
    seen.retain(|(file, ..), _| selection.admits(*file));
    let mut raw: BTreeMap<RawFile, u64> = BTreeMap::new();
    for (file, kind, range) in seen.keys() {
        let furthest = raw.entry(*file).or_default();
        // Readahead may begin beyond the end of a file.
        if !matches!(kind, RawKind::ReadaheadPages | RawKind::Io(IoKind::Readahead)) {
            *furthest = range.start.max(*furthest);
        }
    }
    // Named later than the filters were given, a file system may be mounted since.
    let mut mounts = selection.mounts.clone();
    if let Ok(now) = Mounts::now() {
        mounts = now;
    }
    let found = files(&raw, &recorder.paths.into_iter().collect(), &mounts);
    let mut unresolved = 0_u64;
    let mut admitted: BTreeMap<RawFile, FileId> = BTreeMap::new();
    for (raw, (id, path)) in &found {
        if selection.admits_path(id.device, id.inode, path) {
            admitted.insert(*raw, *id);
            trace.files.insert(*id, Some(path.clone()));
        }
    }
    for (raw, kind, range, seen) in fold::fold(seen) {
        match (admitted.get(&raw), found.contains_key(&raw)) {
            (Some(&file), _) => trace.accesses.push(Access { file, range, kind, count: seen.count }),
            (None, true) => {}
            (None, false) => unresolved = unresolved.saturating_add(seen.count),
        }
    }
    trace.unresolved = unresolved;
    Ok(trace)
}

/// The regular files of these inodes, each with the first byte of its furthest access, as far as they can be found. On
/// Btrfs an inode's number may be used in several subvolumes: then it may not be known which is meant.
fn files(
    raw: &BTreeMap<RawFile, u64>,
    named: &BTreeMap<RawFile, PathBuf>,
    mounts: &Mounts,
) -> BTreeMap<RawFile, (FileId, PathBuf)> {
    let mut found = BTreeMap::new();
    let mut ambiguous = BTreeSet::new();
    for (file, path) in named {
        if raw.contains_key(file)
            && let Some(id) = identify(path)
            && id.inode == file.inode
        {
            found.insert(*file, (id, path.clone()));
        }
    }
    let devices: BTreeSet<u64> = raw.keys().map(|file| file.device).collect();
    for device in devices {
        let unknown = raw.iter().filter(|(file, _)| file.device == device && !found.contains_key(file));
        let furthest: BTreeMap<u64, u64> = unknown.map(|(file, furthest)| (file.inode, *furthest)).collect();
        let btrfs = mounts.of_device(device).filter(|(mount, _)| mount.file_system == "btrfs");
        let points: Vec<PathBuf> = btrfs.map(|(mount, _)| mount.point.clone()).collect();
        if let Some(entries) = subvolumes::files(&points, &furthest) {
            found.extend(entries.into_iter().map(|(inode, entry)| (RawFile { device, inode }, entry)));
            continue;
        }
        let wanted: BTreeSet<u64> = furthest.into_keys().collect();
        let mut roots = BTreeSet::new();
        for (mount, root_device) in mounts.of_device(device) {
            // Bind mounts show the same files again; subvolumes have devices of their own.
            if !roots.insert(root_device) {
                continue;
            }
            for (inode, entry) in on_mount(&mount.point, &wanted) {
                let file = RawFile { device, inode };
                match found.get(&file) {
                    Some((known, _)) if *known != entry.0 => {
                        ambiguous.insert(file);
                    }
                    _ => {
                        found.insert(file, entry);
                    }
                }
            }
        }
    }
    found.retain(|file, _| !ambiguous.contains(file));
    found
}

/// The files of these inodes on one mount.
fn on_mount(point: &Path, wanted: &BTreeSet<u64>) -> BTreeMap<u64, (FileId, PathBuf)> {
    let mut found = BTreeMap::new();
    let Ok(mount) = File::open(point) else { return found };
    let Ok(device) = mount.metadata().map(|metadata| metadata.dev()) else { return found };
    let root = Handle::of(&mount).ok();
    let mut unnamed = BTreeSet::new();
    for &inode in wanted {
        let opened = match &root {
            Some(root) => by_handle(&mount, root, inode),
            None => Opened::Unknown,
        };
        match opened {
            Opened::No => {}
            Opened::Unknown => {
                unnamed.insert(inode);
            }
            Opened::File(path) => {
                let known = path.and_then(|path| Some((identify(&path)?, path)));
                match known.filter(|(id, _)| (id.device, id.inode) == (device, inode)) {
                    Some(entry) => drop(found.insert(inode, entry)),
                    None => drop(unnamed.insert(inode)),
                }
            }
        }
    }
    if !unnamed.is_empty() {
        walk(point, device, unnamed, &mut found);
    }
    found
}

enum Opened {
    /// There is no such regular file, or it has no name any more.
    No,
    /// Handles do not serve here.
    Unknown,
    /// What the kernel calls it, which may be wrong if its name is not cached.
    File(Option<PathBuf>),
}

fn by_handle(mount: &File, root: &Handle, inode: u64) -> Opened {
    let mut handle = root.clone();
    let kind = handle.kind();
    let bytes = handle.bytes_mut();
    let written = match kind {
        INO32_GEN => u32::try_from(inode).ok().and_then(|inode| put(bytes, &[&inode.to_le_bytes(), &[0; 4]])),
        BTRFS_WITHOUT_PARENT => {
            let root_id = bytes.get(8..16).map(<[u8]>::to_vec).unwrap_or_default();
            put(bytes, &[&inode.to_le_bytes(), &root_id, &[0; 4]])
        }
        XFS_INO64_GEN => match sys::xfs_generation(mount, inode) {
            Ok(Some(generation)) => put(bytes, &[&inode.to_le_bytes(), &generation.to_le_bytes()]),
            Ok(None) => return Opened::No,
            Err(_) => None,
        },
        _ => None,
    };
    if written.is_none() {
        return Opened::Unknown;
    }
    match handle.open(mount) {
        Ok(file) => match file.metadata() {
            Ok(metadata) if metadata.is_file() && metadata.nlink() > 0 => {
                Opened::File(fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok())
            }
            _ => Opened::No,
        },
        Err(error) if error.raw_os_error() == Some(libc::ESTALE) => Opened::No,
        Err(_) => Opened::Unknown,
    }
}

/// Writes `parts` over the beginning of `bytes`; `None` if there is no room. Handles are in
/// the machine's byte order, and so are the parts on the little-endian machines supported.
fn put(bytes: &mut [u8], parts: &[&[u8]]) -> Option<()> {
    let parts = parts.concat();
    bytes.get_mut(..parts.len())?.copy_from_slice(&parts);
    Some(())
}

/// Looks for inodes by name, through all folders of one device.
pub(super) fn walk(point: &Path, device: u64, mut wanted: BTreeSet<u64>, found: &mut BTreeMap<u64, (FileId, PathBuf)>) {
    let mut open = vec![point.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(file_type) = entry.file_type() else { continue };
            let path = entry.path();
            if file_type.is_dir() {
                let is_here = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.dev() == device);
                if is_here && open.len() < MAX_OPEN_FOLDERS {
                    open.push(path);
                }
            } else if file_type.is_file()
                && let Ok(metadata) = entry.metadata()
                && metadata.dev() == device
                && wanted.remove(&metadata.ino())
                && let Some(id) = identify(&path)
            {
                found.insert(id.inode, (id, path));
            }
        }
        if wanted.is_empty() {
            return;
        }
    }
}

/// Which file is at `path`, if a regular one is.
pub(super) fn identify(path: &Path) -> Option<FileId> {
    let metadata = fs::symlink_metadata(path).ok()?;
    metadata.is_file().then(|| id_of(path, &metadata))
}

fn id_of(path: &Path, metadata: &Metadata) -> FileId {
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOATIME).open(path);
    let generation = file.ok().and_then(|file| crate::migrate::generation(&file).ok());
    FileId { device: metadata.dev(), inode: metadata.ino(), generation }
}

/// A file of a trace, and where it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Located {
    /// As the trace has it.
    pub file: FileId,
    /// Its path, and what identifies it now (a device's number may change from one
    /// boot to the next); or why it is left alone.
    pub now: Result<(PathBuf, FileId), String>,
}

/// Finds the files of a trace, which may be old: by the path in the trace if the same
/// file is there still, otherwise by its inode number on the same device.
///
/// The same file is one with the same inode number and generation. Where the trace
/// has no generation the device must be the same too.
pub fn locate(trace: &Trace) -> Result<Vec<Located>, TraceError> {
    let mounts = Mounts::now().map_err(TraceError::mounts())?;
    let located = trace.files.iter().map(|(&file, path)| {
        let here = path.as_deref().and_then(|path| Some((path.to_owned(), identify(path)?)));
        let by_path = here.filter(|(_, now)| is_same(file, *now));
        let now = by_path.or_else(|| by_number(file, &mounts)).ok_or_else(|| match path {
            Some(path) => {
                format!("{} is not the file that was traced, which is gone or on no mount", Printable::path(&path))
            }
            None => format!("{file} is gone, or on no mount"),
        });
        Located { file, now }
    });
    Ok(located.collect())
}

fn is_same(traced: FileId, now: FileId) -> bool {
    traced.inode == now.inode
        && match traced.generation {
            Some(_) => traced.generation == now.generation,
            None => traced.device == now.device,
        }
}

fn by_number(file: FileId, mounts: &Mounts) -> Option<(PathBuf, FileId)> {
    let wanted = BTreeSet::from([file.inode]);
    let point = mounts.iter().filter(|mount| mount.is_on_disk()).find_map(|mount| {
        let device = fs::metadata(&mount.point).ok()?.dev();
        (device == file.device).then(|| mount.point.clone())
    })?;
    let (id, path) = on_mount(&point, &wanted).remove(&file.inode)?;
    is_same(file, id).then_some((path, id))
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
