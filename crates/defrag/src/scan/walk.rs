//! The regular files under a path, each once.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Most files with several names that are remembered, some 60 MB. One beyond it may be looked at twice,
/// which costs time and nothing else.
const MAX_LINKED: usize = 1 << 20;

/// Most folders open at once; deeper ones are read whole and closed.
const MAX_OPEN: usize = 64;

/// Files with several names that were met already: device and inode.
#[derive(Debug, Default)]
pub(super) struct Linked(BTreeSet<(u64, u64)>);

/// What a walk comes across.
pub(super) enum Met {
    File(PathBuf, Metadata),
    Folder(PathBuf),
    /// A folder where another file system, or a subvolume, begins, which is not entered.
    Border(PathBuf),
    /// A folder or file that cannot be looked at, and why.
    Refused(PathBuf, String),
}

/// Everything under `root` on its file system, without following links below it. What is mounted at one of `points`, which
/// begin with `root`, is not entered: of a bind mount, the device is the same.
pub(super) fn walk<'a>(
    root: &Path,
    points: BTreeSet<PathBuf>,
    linked: &'a mut Linked,
) -> impl Iterator<Item = Met> + 'a {
    let mut entries = WalkDir::new(root).same_file_system(true).max_open(MAX_OPEN).into_iter();
    let root = root.to_owned();
    let device = root.metadata().map(|metadata| metadata.dev()).ok();
    std::iter::from_fn(move || {
        loop {
            let met = match entries.next()? {
                Ok(entry) if entry.file_type().is_dir() => match entry.metadata() {
                    Ok(metadata) if device.is_some_and(|device| device != metadata.dev()) => {
                        Some(Met::Border(entry.into_path()))
                    }
                    // Of another device it would not have been entered, and what is skipped would be the folder around it.
                    _ if entry.depth() > 0 && points.contains(entry.path()) => {
                        entries.skip_current_dir();
                        Some(Met::Border(entry.into_path()))
                    }
                    _ => Some(Met::Folder(entry.into_path())),
                },
                Ok(entry) if points.contains(entry.path()) && entry.depth() > 0 => Some(Met::Border(entry.into_path())),
                Ok(entry) if entry.file_type().is_file() => match entry.metadata() {
                    Ok(metadata) => linked.is_new(&metadata).then(|| Met::File(entry.into_path(), metadata)),
                    Err(error) => Some(Met::Refused(entry.into_path(), reason(&error))),
                },
                Ok(_) => None,
                Err(error) => Some(Met::Refused(error.path().unwrap_or(&root).to_owned(), reason(&error))),
            };
            if met.is_some() {
                return met;
            }
        }
    })
}

/// The system's words alone; walkdir's name the path again.
fn reason(error: &walkdir::Error) -> String {
    error.io_error().map_or_else(|| error.to_string(), ToString::to_string)
}

impl Linked {
    fn is_new(&mut self, metadata: &Metadata) -> bool {
        if metadata.nlink() < 2 {
            return true;
        }
        let id = (metadata.dev(), metadata.ino());
        if self.0.len() >= MAX_LINKED { !self.0.contains(&id) } else { self.0.insert(id) }
    }
}
