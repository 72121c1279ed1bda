//! The counters of the block device under a folder: `/sys/dev/block/M:m/stat`.
//!
//! Source: Documentation/block/stat.rst.

use std::fs;
use std::ops::Sub;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use observe::mounts::Mounts;

use super::StudyError;

/// A request is accounted after whoever waits for it is woken; by then it surely is.
const SETTLE: Duration = Duration::from_millis(20);
/// Bytes of a sector in `stat`.
const SECTOR: u64 = 512;

/// What a device has done, or did between two moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Io {
    /// Requests that read.
    pub reads: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Bytes that these wrote.
    pub written_bytes: u64,
    /// Requests that discarded.
    pub discards: u64,
}

impl Sub for Io {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            discards: self.discards.saturating_sub(before.discards),
        }
    }
}

/// A device whose requests are counted.
#[derive(Clone, Debug)]
pub struct Device {
    folder: PathBuf,
    /// The file system's name to `mount`.
    pub system: String,
}

impl Device {
    /// The one under a folder. Of a file system over several devices, the one it was mounted by.
    pub fn under(folder: &Path) -> Result<Self, StudyError> {
        let none = || StudyError::NoDevice { path: folder.to_owned() };
        let place = folder.canonicalize().map_err(StudyError::file("look at", folder))?;
        let mounts = Mounts::now().map_err(|_| none())?;
        let mount = mounts.of(&place).ok_or_else(none)?;
        let device = fs::metadata(&mount.source).map_err(|_| none())?.rdev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let found = Self {
            folder: PathBuf::from(format!("/sys/dev/block/{major}:{minor}")),
            system: mount.file_system.clone(),
        };
        found.now().map(|_| found)
    }

    /// What it has done so far.
    pub fn now(&self) -> Result<Io, StudyError> {
        std::thread::sleep(SETTLE);
        let path = self.folder.join("stat");
        let text = fs::read_to_string(&path).map_err(StudyError::file("read", &path))?;
        counters(&text).ok_or(StudyError::NoDevice { path })
    }
}

fn counters(text: &str) -> Option<Io> {
    let values: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(Io {
        reads: *values.first()?,
        writes: *values.get(4)?,
        written_bytes: values.get(6)?.saturating_mul(SECTOR),
        // Kernels before 4.18 do not count them.
        discards: values.get(11).copied().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let text = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n";
        assert_eq!(counters(text), Some(Io { reads: 1, writes: 5, written_bytes: 7 * 512, discards: 12 }));
        assert_eq!(counters("1 2 3 4 5 6 7"), Some(Io { reads: 1, writes: 5, written_bytes: 7 * 512, discards: 0 }));
        assert_eq!(counters("1 2 3"), None);
        assert_eq!(counters("x"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_answer(text in "\\PC{0,80}") {
            let _ = counters(&text);
        }
    }
}
