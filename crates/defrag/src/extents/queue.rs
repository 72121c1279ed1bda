//! How large a request of the device under a path may be, from sysfs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use observe::mounts::Mounts;
use units::Printable;

use super::requests::RequestLimits;

/// Why the limits are not known.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The path cannot be looked at.
    #[error("cannot look at {path}: {error}", path = Printable::path(path))]
    Path {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A file system over no single block device, such as tmpfs or a network's.
    #[error("{path} lies on no block device; a file system on one is needed", path = Printable::path(path))]
    NoDevice {
        /// Which.
        path: PathBuf,
    },
    /// sysfs says something unexpected.
    #[error("{path} does not hold a number", path = Printable::path(path))]
    Number {
        /// Which file of sysfs.
        path: PathBuf,
    },
}

/// The limits of the queue that requests for files under `path` go through.
///
/// Source: `Documentation/ABI/stable/sysfs-block`. A Btrfs file system has device numbers of its own; its first
/// device is found in `/proc/self/mountinfo`, and stands for all.
pub fn limits_of(path: &Path) -> Result<RequestLimits, QueueError> {
    let status = fs::metadata(path).map_err(|error| QueueError::Path { path: path.to_owned(), error })?;
    let no_device = || QueueError::NoDevice { path: path.to_owned() };
    let queue = match queue_of(status.dev()) {
        Some(queue) => queue,
        None => {
            let source = mount_source(path).ok_or_else(no_device)?;
            let device = fs::metadata(source).map_err(|_| no_device())?.rdev();
            queue_of(device).ok_or_else(no_device)?
        }
    };
    let kib: u64 = number(&queue.join("max_sectors_kb"))?;
    let max_segments: u64 = number(&queue.join("max_segments"))?;
    Ok(RequestLimits {
        max_bytes: kib.saturating_mul(1024).max(4096),
        max_segments: u32::try_from(max_segments).unwrap_or(u32::MAX).max(1),
    })
}

/// The folder `queue` of a disk, or of the disk that a partition is of.
fn queue_of(device: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let disk = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    [disk.join("queue"), disk.parent()?.join("queue")].into_iter().find(|queue| queue.is_dir())
}

fn number(path: &Path) -> Result<u64, QueueError> {
    let text = fs::read_to_string(path).map_err(|error| QueueError::Path { path: path.to_owned(), error })?;
    text.trim().parse().map_err(|_| QueueError::Number { path: path.to_owned() })
}

/// The device that the mount with `path` in it was made from.
fn mount_source(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    Some(Mounts::now().ok()?.of(&path)?.source.clone())
}
