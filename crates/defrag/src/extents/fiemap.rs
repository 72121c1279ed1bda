//! `FS_IOC_FIEMAP`: the file's extents from the kernel.
//!
//! Source: `Documentation/filesystems/fiemap.rst`, `include/uapi/linux/fiemap.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::extent::{Extent, ExtentFlags};
use super::map::ExtentMap;
use crate::ByteRange;

/// Most extents that one map holds, some 130 MB.
pub const MAX_EXTENTS: usize = 1 << 22;

/// Extents asked for in one call; 56 bytes each.
const BATCH: usize = 512;

/// `_IOWR('f', 11, struct fiemap)`; the structure has 32 bytes without its extents.
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;

/// Write dirty data back first, so that delayed allocations have a place.
const FIEMAP_FLAG_SYNC: u32 = 1;

/// Whether dirty data is written back before the extents are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteBack {
    /// As they are; delayed allocations have no place yet.
    No,
    /// `FIEMAP_FLAG_SYNC`.
    First,
}

/// Why a file's extents are not known.
#[derive(Debug, thiserror::Error)]
pub enum FiemapError {
    /// `EOPNOTSUPP`, `ENOTTY`, `ENOSYS`.
    #[error("its file system does not tell where files lie (no FIEMAP)")]
    Unsupported,
    /// More extents than a map holds.
    #[error("it has more than {MAX_EXTENTS} extents")]
    TooMany,
    /// Whatever else the system call says.
    #[error("cannot read its extents: {0}")]
    System(#[source] io::Error),
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct RawMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// Every extent of `file`, which has `size_bytes`.
pub fn read_map(file: impl AsFd, size_bytes: u64, write_back: WriteBack) -> Result<ExtentMap, FiemapError> {
    read_map_range(file, ByteRange { start: 0, end: u64::MAX }, size_bytes, write_back)
}

/// The extents of `file` that touch `range`, as long as they are in the map; outside of `range` the map shows holes.
pub fn read_map_range(
    file: impl AsFd,
    range: ByteRange,
    size_bytes: u64,
    write_back: WriteBack,
) -> Result<ExtentMap, FiemapError> {
    let mut found: Vec<Extent> = Vec::new();
    let mut start = range.start;
    let mut flags = if write_back == WriteBack::First { FIEMAP_FLAG_SYNC } else { 0 };
    // Each turn either advances `start` or ends; the bound holds against a file that grows meanwhile.
    while start < range.end {
        let batch = call(&file, start, range.end - start, flags)?;
        flags = 0;
        let Some(last) = batch.last().copied() else { break };
        let next = last.range().end;
        if next <= start || found.len() + batch.len() > MAX_EXTENTS {
            return Err(if next <= start { broken() } else { FiemapError::TooMany });
        }
        start = next;
        let full = batch.len() == BATCH;
        found.extend(batch);
        if last.flags.contains(ExtentFlags::LAST) || !full {
            break;
        }
    }
    Ok(ExtentMap::new(found, size_bytes))
}

fn broken() -> FiemapError {
    FiemapError::System(io::Error::new(io::ErrorKind::InvalidData, "FIEMAP went backwards"))
}

fn call(file: &impl AsFd, start: u64, length: u64, flags: u32) -> Result<Vec<Extent>, FiemapError> {
    const EMPTY: RawExtent =
        RawExtent { logical: 0, physical: 0, length: 0, reserved64: [0; 2], flags: 0, reserved: [0; 3] };
    let mut raw = RawMap {
        start,
        length,
        flags,
        mapped_extents: 0,
        extent_count: BATCH as u32,
        reserved: 0,
        extents: [EMPTY; BATCH],
    };
    // SAFETY: the descriptor is open for as long as it is borrowed; `raw` is laid out as `struct fiemap`
    // followed by the `extent_count` extents that the kernel may fill, and every byte pattern is valid in it.
    let done = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FS_IOC_FIEMAP, &raw mut raw) };
    if done < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS) => FiemapError::Unsupported,
            _ => FiemapError::System(error),
        });
    }
    let mapped = usize::try_from(raw.mapped_extents).unwrap_or(usize::MAX).min(BATCH);
    let extents = raw.extents.iter().take(mapped).map(|extent| Extent {
        logical: extent.logical,
        physical: extent.physical,
        length: extent.length,
        flags: ExtentFlags::from_bits_retain(extent.flags),
    });
    Ok(extents.collect())
}
