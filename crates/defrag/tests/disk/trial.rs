//! Configurations of file systems that crashes are tried with. `src/migrate/modes` names them.

use std::fs::File;
use std::path::Path;

use super::System;

/// How a file system is made and mounted.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub name: &'static str,
    pub system: System,
    /// For mkfs.
    pub make: &'static [&'static str],
    /// For mount.
    pub mount: &'static str,
}

pub const EXT4: Trial = Trial { name: "ext4", system: System::Ext4, make: &["-b", "4096"], mount: "" };
pub const XFS: Trial = Trial { name: "xfs", system: System::Xfs, make: &[], mount: "" };
pub const XFS_EXCHANGE: Trial = Trial { name: "xfs-plain", system: System::XfsExchange, make: &[], mount: "" };
pub const BTRFS: Trial =
    Trial { name: "btrfs", system: System::Btrfs, make: &["-m", "single", "-d", "single"], mount: "" };
pub const F2FS: Trial = Trial { name: "f2fs", system: System::F2fs, make: &[], mount: "" };

/// What is refused, to be found out.
pub const EXT4_WITHOUT_JOURNAL: [Trial; 2] = [
    Trial { name: "ext4 ^has_journal", system: System::Ext4, make: &["-b", "4096", "-O", "^has_journal"], mount: "" },
    Trial {
        name: "ext4 ^has_journal, 1 KiB",
        system: System::Ext4,
        make: &["-b", "1024", "-O", "^has_journal"],
        mount: "",
    },
];
pub const EXT4_ASYNC_COMMIT: Trial = Trial {
    name: "ext4 journal_async_commit",
    system: System::Ext4,
    make: &["-b", "4096"],
    mount: "data=writeback,journal_async_commit",
};

/// What is not the default, each with as much as goes together.
pub const MORE: [Trial; 8] = [
    Trial {
        name: "ext4-writeback",
        system: System::Ext4,
        make: &["-b", "4096"],
        mount: "data=writeback,nodelalloc,nodioread_nolock,discard,noauto_da_alloc,noblock_validity",
    },
    Trial {
        name: "ext4-plain",
        system: System::Ext4,
        make: &["-b", "1024", "-O", "^metadata_csum,^metadata_csum_seed,^64bit,^orphan_file,^flex_bg,uninit_bg"],
        mount: "nojournal_checksum",
    },
    Trial {
        name: "ext4-rich",
        system: System::Ext4,
        make: &[
            "-b",
            "4096",
            "-O",
            "ea_inode,encrypt,verity,inline_data,stable_inodes,large_dir,orphan_file,metadata_csum_seed",
        ],
        mount: "",
    },
    Trial {
        name: "xfs-rich",
        system: System::Xfs,
        make: &["-m", "rmapbt=1,reflink=1", "-i", "nrext64=1"],
        mount: "wsync,discard",
    },
    Trial {
        name: "btrfs-nodatacow",
        system: System::Btrfs,
        make: &["-m", "single", "-d", "single"],
        mount: "nodatacow",
    },
    Trial {
        name: "btrfs-old",
        system: System::Btrfs,
        make: &["-M", "-R", "^free-space-tree"],
        mount: "space_cache=v1,discard=sync",
    },
    Trial {
        name: "btrfs-rich",
        system: System::Btrfs,
        make: &["-m", "dup", "-d", "single"],
        mount: "autodefrag,flushoncommit,notreelog,discard=async",
    },
    Trial {
        name: "f2fs-rich",
        system: System::F2fs,
        make: &["-O", "extra_attr,inode_checksum,sb_checksum,inode_crtime"],
        mount: "fsync_mode=strict,nocheckpoint_merge,noflush_merge,mode=lfs",
    },
];

impl Trial {
    /// Every one whose moves have to survive.
    pub fn all() -> impl Iterator<Item = Trial> {
        [EXT4, XFS, XFS_EXCHANGE, BTRFS, F2FS].into_iter().chain(MORE)
    }

    /// Makes one small enough to be copied a thousand times.
    pub fn make_small(&self, image: &Path) {
        let bytes: u64 = match self.system {
            System::Ext4 | System::Xfs | System::XfsExchange => 96 << 20,
            System::Btrfs | System::F2fs => 128 << 20,
        };
        File::create(image).unwrap().set_len(bytes).unwrap();
        self.system.make(image, self.make);
    }
}
