//! The disks whose queues a file's requests go through.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use observe::mounts::Mounts;

/// Device mapper and md upon one another, at most so many.
const MAX_DEPTH: usize = 16;

/// The disks of one file.
pub(super) struct Disks {
    /// Their device numbers: the disk of a partition, the disks of a stacked device, all devices of a Btrfs
    /// file system.
    pub numbers: BTreeSet<u64>,
    /// What splits requests between the file system and them, if anything does.
    pub layers: Option<String>,
    /// The scheduler of the first queue that has one.
    pub scheduler: Option<String>,
}

impl Disks {
    /// Those of the file at `path`; `None` if there is none.
    pub fn of(path: &Path) -> Option<Self> {
        let device = fs::metadata(path).ok()?.dev();
        let mut numbers = BTreeSet::new();
        let mut folders = match folder(device) {
            Some(folder) => vec![folder],
            // A device number of the file system's own: what was mounted says more.
            None => {
                let mounts = Mounts::now().ok()?;
                let source = mounts.of(&path.canonicalize().ok()?)?.source.clone();
                vec![folder(fs::metadata(&source).ok()?.rdev())?]
            }
        };
        let siblings = btrfs_siblings(&folders);
        if !siblings.is_empty() {
            folders = siblings;
        }
        for folder in &folders {
            disks(folder, MAX_DEPTH, &mut numbers);
        }
        let stacked = folders.iter().find(|folder| !slaves(folder).is_empty());
        let layers = match (folders.len(), stacked) {
            (_, Some(stacked)) => {
                let name = stacked.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Some(format!("{name}, made of {} disks or partitions", slaves(stacked).len()))
            }
            (2.., None) => Some(format!("a file system over {} devices", folders.len())),
            _ => None,
        };
        let scheduler = numbers.iter().find_map(|number| scheduler(*number));
        (!numbers.is_empty()).then_some(Self { numbers, layers, scheduler })
    }
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
    let slaves = slaves(folder);
    if !slaves.is_empty() {
        for slave in slaves {
            disks(&slave, depth - 1, found);
        }
        return;
    }
    let disk = if folder.join("partition").exists() { folder.parent() } else { Some(folder) };
    found.extend(disk.and_then(number));
}

/// The devices that a stacked one is made of.
fn slaves(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect()
}

/// The scheduler of a disk's queue: the word in brackets of `queue/scheduler`.
fn scheduler(disk: u64) -> Option<String> {
    let list = fs::read_to_string(folder(disk)?.join("queue/scheduler")).ok()?;
    let (_, from) = list.split_once('[')?;
    let (name, _) = from.split_once(']')?;
    (name != "none").then(|| name.to_owned())
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
