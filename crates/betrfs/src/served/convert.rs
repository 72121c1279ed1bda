//! From what operations take and return to FUSE's forms, and back.

use fuse::SetTime;

use crate::operations::{Attributes, Permissions, SetAttributes, Statistics, Timestamp};
use crate::rules::BLOCK_BYTES;

/// Attributes as FUSE has them.
pub(super) fn attributes(attributes: &Attributes) -> fuse::Attributes {
    let times = [attributes.accessed, attributes.modified, attributes.changed];
    fuse::Attributes {
        ino: attributes.inode.0,
        size: attributes.size_bytes,
        blocks: attributes.blocks,
        times: times.map(|time| time.seconds.cast_unsigned()),
        times_nsec: times.map(|time| time.nanoseconds),
        mode: attributes.mode(),
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: attributes.device,
        blksize: BLOCK_BYTES as u32,
        flags: 0,
    }
}

/// Changes as operations have them.
pub(super) fn changes(changes: &fuse::SetAttributes, now: Timestamp) -> SetAttributes {
    let time = |time: SetTime| match time {
        SetTime::Now => now,
        SetTime::At(seconds, nanoseconds) => Timestamp { seconds, nanoseconds },
    };
    SetAttributes {
        permissions: changes.mode.map(Permissions::of_mode),
        uid: changes.uid,
        gid: changes.gid,
        size_bytes: changes.size,
        accessed: changes.accessed.map(time),
        modified: changes.modified.map(time),
        changed: changes.changed.map(time),
        kill_privileges: changes.kill_privileges,
    }
}

/// Sizes as FUSE has them.
pub(super) fn statistics(statistics: &Statistics) -> fuse::FileSystemSize {
    fuse::FileSystemSize {
        blocks: statistics.blocks,
        bfree: statistics.free_blocks,
        bavail: statistics.available_blocks,
        files: statistics.inodes,
        ffree: statistics.free_inodes,
        bsize: statistics.block_bytes,
        frsize: statistics.block_bytes,
        namelen: statistics.name_bytes_max,
        ..fuse::FileSystemSize::default()
    }
}
