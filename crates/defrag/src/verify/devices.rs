//! The disks whose queues a file's requests go through.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::trace::Mounts;

/// Device mapper and md upon one another, at most so many.
const MAX_DEPTH: usize = 16;

/// Their device numbers: the disk of a partition, the disks of a stacked device, all
/// devices of a Btrfs file system. `None` if there is none.
pub fn of(path: &Path) -> Option<BTreeSet<u64>> {
    let device = fs::metadata(path).ok()?.dev();
    let mut found = BTreeSet::new();
    if let Some(folder) = folder(device) {
        disks(&folder, MAX_DEPTH, &mut found);
    } else {
        // A device number of the file system's own: what was mounted says more.
        let mounts = Mounts::now().ok()?;
        let source = mounts.of(&path.canonicalize().ok()?)?.source.clone();
        let device = fs::metadata(&source).ok()?.rdev();
        let mut folders = vec![folder(device)?];
        folders.extend(btrfs_siblings(&folders));
        for folder in folders {
            disks(&folder, MAX_DEPTH, &mut found);
        }
    }
    (!found.is_empty()).then_some(found)
}

fn folder(device: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// The disks below a block device's folder in sysfs.
fn disks(folder: &Path, depth: usize, found: &mut BTreeSet<u64>) {
    if depth == 0 {
        return;
    }
    let slaves: Vec<PathBuf> = fs::read_dir(folder.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .collect();
    if !slaves.is_empty() {
        for slave in slaves {
            disks(&slave, depth - 1, found);
        }
        return;
    }
    let disk = if folder.join("partition").exists() { folder.parent() } else { Some(folder) };
    found.extend(disk.and_then(number));
}

fn number(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The other devices of the Btrfs file system that has one of these (`/sys/fs/btrfs/UUID/devices`).
fn btrfs_siblings(known: &[PathBuf]) -> Vec<PathBuf> {
    for system in fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten() {
        let entries = fs::read_dir(system.path().join("devices")).into_iter().flatten().flatten();
        let all: Vec<PathBuf> = entries.filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect();
        if all.iter().any(|folder| known.contains(folder)) {
            return all;
        }
    }
    Vec::new()
}
