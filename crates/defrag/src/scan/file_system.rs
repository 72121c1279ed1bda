//! What holds for every file of one file system.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::extents::{MetadataLayout, RequestLimits, limits_of, metadata_layout};
use crate::migrate::Facts;
use crate::plan::Reuse;
use crate::{Access, IoKind};

/// `f_type` of statfs(2), `include/uapi/linux/magic.h`: file systems that write elsewhere than where the data lies.
const ELSEWHERE: [i64; 3] = [
    BTRFS,
    0x3434,      // NILFS
    0xca45_1a4e, // bcachefs
];
const BTRFS: i64 = 0x9123_683e;
const F2FS: i64 = 0xf2f5_2010;
/// F2FS's mount option for a log that is never written in place, which zoned devices have always.
const F2FS_LOG_ONLY: &str = "mode=lfs";

/// Where writes over data go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writes {
    /// To where it lies.
    InPlace,
    /// Past the page cache to where it lies, otherwise elsewhere (F2FS: `f2fs_map_blocks` with
    /// `F2FS_GET_BLOCK_DIO`, fs/f2fs/data.c).
    DirectInPlace,
    /// Elsewhere.
    Elsewhere,
}

impl Writes {
    /// Whether where the data lies decides what an access costs.
    pub fn counts(self, kind: IoKind) -> bool {
        match kind {
            IoKind::BufferedWrite => self == Self::InPlace,
            IoKind::DirectWrite => self != Self::Elsewhere,
            IoKind::BufferedRead | IoKind::DirectRead | IoKind::Mapped | IoKind::Readahead => true,
        }
    }

    /// Those accesses for which it does.
    pub fn counted(self, accesses: &[Access]) -> Vec<Access> {
        accesses.iter().filter(|access| self.counts(access.kind)).copied().collect()
    }
}

/// One file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSystem {
    /// Its block.
    pub block_bytes: u64,
    /// Where writes over data go.
    pub writes: Writes,
    /// Whether an extent is freed only when nothing refers to any part of it.
    pub frees_whole_extents: bool,
    /// Btrfs: how it keeps its trees.
    pub metadata: Option<MetadataLayout>,
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
        let writes = match kind {
            F2FS => match Facts::of(file, path) {
                Ok(facts) if !facts.has_option(F2FS_LOG_ONLY) => Writes::DirectInPlace,
                _ => Writes::Elsewhere,
            },
            kind if ELSEWHERE.contains(&kind) => Writes::Elsewhere,
            _ => Writes::InPlace,
        };
        let frees_whole_extents = kind == BTRFS;
        let metadata = if frees_whole_extents { metadata_layout(file).ok() } else { None };
        Ok(Self { block_bytes, writes, frees_whole_extents, metadata, limits: limits_of(path).ok() })
    }

    /// When what is moved away is free.
    pub fn reuse(&self) -> Reuse {
        if self.frees_whole_extents { Reuse::AtCommit } else { Reuse::Soon }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_always_count_and_writes_where_they_go_to_the_data() {
        let all = [IoKind::BufferedWrite, IoKind::DirectWrite, IoKind::BufferedRead, IoKind::Readahead];
        let counted = |writes: Writes| all.map(|kind| writes.counts(kind));
        assert_eq!(counted(Writes::InPlace), [true, true, true, true]);
        assert_eq!(counted(Writes::DirectInPlace), [false, true, true, true]);
        assert_eq!(counted(Writes::Elsewhere), [false, false, true, true]);
    }
}
