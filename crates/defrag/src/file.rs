//! Which file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A file, whatever its name: an inode's number is reused once the file is gone,
/// and its generation then is another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileId {
    /// The file system's device, as `st_dev` of `stat` gives it.
    pub device: u64,
    /// The inode's number in it.
    pub inode: u64,
    /// The inode's generation (`FS_IOC_GETVERSION`), where the file system tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = (rustix::fs::major(self.device), rustix::fs::minor(self.device));
        write!(f, "inode {} of device {major}:{minor}", self.inode)
    }
}
