//! What holds for every file of one file system.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::extents::{RequestLimits, limits_of};

/// `f_type` of statfs(2), `include/uapi/linux/magic.h`: file systems that write elsewhere than where the data lies.
const OUT_OF_PLACE: [i64; 4] = [
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
    0x3434,      // NILFS
    0xca45_1a4e, // bcachefs
];

/// One file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSystem {
    /// Its block.
    pub block_bytes: u64,
    /// Whether writes go to where the data lies.
    pub writes_in_place: bool,
    /// Of the device below; `None` where sysfs does not tell.
    pub limits: Option<RequestLimits>,
}

impl FileSystem {
    /// That of the open `file`, which lies at `path`.
    pub fn of(file: &File, path: &Path) -> io::Result<Self> {
        let status = rustix::fs::fstatfs(file)?;
        let block_bytes = u64::try_from(status.f_bsize).unwrap_or(4096).max(512);
        // The type is a number of 32 bits that some platforms extend with its sign.
        let kind = i64::from(status.f_type as u32);
        Ok(Self { block_bytes, writes_in_place: !OUT_OF_PLACE.contains(&kind), limits: limits_of(path).ok() })
    }
}
