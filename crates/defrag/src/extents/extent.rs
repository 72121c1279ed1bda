//! One extent as the kernel reports it.

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use crate::ByteRange;

bitflags! {
    /// `fe_flags` of `struct fiemap_extent`, `include/uapi/linux/fiemap.h`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct ExtentFlags: u32 {
        /// The file's last extent.
        const LAST = 0x1;
        /// Its place is not known.
        const UNKNOWN = 0x2;
        /// Not allocated yet: the data waits in the page cache.
        const DELALLOC = 0x4;
        /// Compressed or otherwise not readable from the device as it is.
        const ENCODED = 0x8;
        /// Encrypted; comes with `ENCODED`.
        const DATA_ENCRYPTED = 0x80;
        /// Not aligned to blocks.
        const NOT_ALIGNED = 0x100;
        /// Kept among metadata.
        const DATA_INLINE = 0x200;
        /// Packed into a block with other files' tails.
        const DATA_TAIL = 0x400;
        /// Allocated, but reads as zeros without asking the device.
        const UNWRITTEN = 0x800;
        /// Made up of the blocks of a file system without extents.
        const MERGED = 0x1000;
        /// Other files, or other ranges, have the same blocks.
        const SHARED = 0x2000;

        const _ = !0;
    }
}

/// What an extent is to somebody who wants to move it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExtentKind {
    /// Data of this file alone.
    Data,
    /// Data that reflinks or snapshots share.
    Shared,
    /// Allocated, never written: reads need no request.
    Unwritten,
    /// In the page cache only.
    Delayed,
    /// Compressed or encrypted.
    Encoded,
    /// Among metadata.
    Inline,
    /// At a place that the file system does not tell.
    Unknown,
}

impl ExtentKind {
    /// Whether its bytes lie on the device as they are read.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Data | Self::Shared)
    }

    /// The name shown in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Shared => "shared",
            Self::Unwritten => "unwritten",
            Self::Delayed => "delayed",
            Self::Encoded => "encoded",
            Self::Inline => "inline",
            Self::Unknown => "unknown",
        }
    }
}

/// `length` bytes of a file at one place of the device.
///
/// On Btrfs `physical` is an address in the file system's own space of chunks, which one device
/// maps piecewise (`fs/btrfs/fiemap.c`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First byte in the file.
    pub logical: u64,
    /// First byte on the device; without meaning where the kind has no place there.
    pub physical: u64,
    /// Bytes.
    pub length: u64,
    /// What the kernel says of it.
    pub flags: ExtentFlags,
}

impl Extent {
    /// Its bytes of the file; cut off where they leave 64 bits.
    pub fn range(&self) -> ByteRange {
        ByteRange { start: self.logical, end: self.logical.saturating_add(self.length) }
    }

    /// What it is.
    pub fn kind(&self) -> ExtentKind {
        let any = |flags: ExtentFlags| self.flags.intersects(flags);
        if any(ExtentFlags::DELALLOC) {
            ExtentKind::Delayed
        } else if any(ExtentFlags::DATA_INLINE | ExtentFlags::DATA_TAIL) {
            ExtentKind::Inline
        } else if any(ExtentFlags::ENCODED | ExtentFlags::DATA_ENCRYPTED) {
            ExtentKind::Encoded
        } else if any(ExtentFlags::UNKNOWN | ExtentFlags::NOT_ALIGNED) {
            ExtentKind::Unknown
        } else if any(ExtentFlags::UNWRITTEN) {
            ExtentKind::Unwritten
        } else if any(ExtentFlags::SHARED) {
            ExtentKind::Shared
        } else {
            ExtentKind::Data
        }
    }
}
