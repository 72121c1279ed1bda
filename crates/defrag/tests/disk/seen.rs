//! What a file is to others.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{map_of, ran};

/// What must stay as it is, as others see it. In place of `st_blocks`, which counts the blocks of the map of extents too,
/// the allocated bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    sha256: String,
    size: u64,
    data_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    accessed: (i64, i64),
    mode: u32,
    attributes: Vec<u8>,
}

impl Seen {
    /// Its sum and size.
    pub fn contents(&self) -> (&str, u64) {
        (&self.sha256, self.size)
    }
}

/// Looks at a file.
pub fn seen(path: &Path) -> Seen {
    let status = fs::metadata(path).unwrap();
    // The clock of files ticks a hundred times a second, and in virtual time never by itself: the time of access is to
    // be later than what was written.
    thread::sleep(Duration::from_millis(20));
    let sum = ran(Command::new("sha256sum").arg(path));
    let mut attributes = vec![0; 4096];
    let length = rustix::fs::getxattr(path, "user.plumb", &mut attributes[..]).unwrap_or(0);
    attributes.truncate(length);
    let after = fs::metadata(path).unwrap();
    Seen {
        sha256: sum.split(' ').next().unwrap().to_owned(),
        size: status.size(),
        data_bytes: map_of(path).extents().iter().map(|extent| extent.length).sum(),
        modified: (status.mtime(), status.mtime_nsec()),
        changed: (status.ctime(), status.ctime_nsec()),
        // Reading it for the sum may have moved the time of access; nothing after that does (`relatime`).
        accessed: (after.atime(), after.atime_nsec()),
        mode: status.mode(),
        attributes,
    }
}
