//! The file systems' own calls. Every `unsafe` of this folder is here.
//!
//! Sources: `fs/ext4/ext4.h` (`struct move_extent`), `include/uapi/linux/fs.h` (`struct file_dedupe_range`,
//! `struct fsxattr`), `include/uapi/linux/btrfs.h` (`struct btrfs_ioctl_defrag_range_args`),
//! `include/uapi/linux/mman.h` (`struct cachestat`), `fs/xfs/libxfs/xfs_fs.h` (`struct xfs_commit_range`, `struct
//! xfs_fsop_geom`, `struct xfs_fsop_handlereq`), and `include/uapi/linux/f2fs.h` (`struct f2fs_defragment`). Leases: fcntl(2).
//! Where a manual page differs from the kernel, as in the six words of freshness of `xfs_commit_range`, the
//! kernel is followed.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

const READ: u32 = 2;
const WRITE: u32 = 1;

/// `_IOC` of `include/uapi/asm-generic/ioctl.h`.
const fn code(direction: u32, kind: u8, number: u32, bytes: usize) -> libc::Ioctl {
    (direction << 30 | (bytes as u32) << 16 | (kind as u32) << 8 | number) as libc::Ioctl
}

#[repr(C)]
struct MoveExtent {
    reserved: u32,
    donor_fd: u32,
    orig_start: u64,
    donor_start: u64,
    len: u64,
    moved_len: u64,
}

#[repr(C)]
struct DedupeRange {
    src_offset: u64,
    src_length: u64,
    dest_count: u16,
    reserved1: u16,
    reserved2: u32,
    dest_fd: i64,
    dest_offset: u64,
    bytes_deduped: u64,
    status: i32,
    reserved: u32,
}

#[repr(C)]
struct DefragRange {
    start: u64,
    len: u64,
    flags: u64,
    extent_thresh: u32,
    compress_type: u32,
    unused: [u32; 4],
}

#[repr(C)]
struct F2fsDefragment {
    start: u64,
    len: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CommitRange {
    file1_fd: i32,
    pad: u32,
    file1_offset: u64,
    file2_offset: u64,
    length: u64,
    flags: u64,
    file2_freshness: [u64; 6],
}

#[repr(C)]
struct XfsGeometry {
    before_flags: [u32; 23],
    flags: u32,
    after_flags: [u64; 20],
}

#[repr(C)]
struct HandleRequest {
    fd: u32,
    path: usize,
    oflags: u32,
    ihandle: usize,
    ihandlen: u32,
    ohandle: usize,
    ohandlen: usize,
}

const EXT4_IOC_MOVE_EXT: libc::Ioctl = code(READ | WRITE, b'f', 15, size_of::<MoveExtent>());
/// Its size is that of the structure without the destinations that follow.
const FIDEDUPERANGE: libc::Ioctl = code(READ | WRITE, 0x94, 54, 24);
const BTRFS_IOC_DEFRAG_RANGE: libc::Ioctl = code(WRITE, 0x94, 16, size_of::<DefragRange>());
const BTRFS_IOC_GET_FEATURES: libc::Ioctl = code(READ, 0x94, 57, 24);
const F2FS_IOC_WRITE_CHECKPOINT: libc::Ioctl = code(0, 0xf5, 7, 0);
const F2FS_IOC_DEFRAGMENT: libc::Ioctl = code(READ | WRITE, 0xf5, 8, size_of::<F2fsDefragment>());
const XFS_IOC_START_COMMIT: libc::Ioctl = code(READ, b'X', 130, size_of::<CommitRange>());
const XFS_IOC_COMMIT_RANGE: libc::Ioctl = code(WRITE, b'X', 131, size_of::<CommitRange>());
const XFS_IOC_FSGEOMETRY: libc::Ioctl = code(READ, b'X', 126, size_of::<XfsGeometry>());
const XFS_IOC_FD_TO_HANDLE: libc::Ioctl = code(READ | WRITE, b'X', 106, size_of::<HandleRequest>());
const XFS_IOC_OPEN_BY_HANDLE: libc::Ioctl = code(READ | WRITE, b'X', 107, size_of::<HandleRequest>());
const FS_IOC_FSGETXATTR: libc::Ioctl = code(READ, b'X', 31, 28);
const FS_IOC_GETFLAGS: libc::Ioctl = code(READ, b'f', 1, size_of::<libc::c_long>());
const FS_IOC_SETFLAGS: libc::Ioctl = code(WRITE, b'f', 2, size_of::<libc::c_long>());
const FS_IOC_GETVERSION: libc::Ioctl = code(READ, b'v', 1, size_of::<libc::c_long>());

/// Without compression, which flag 1 would ask for.
const BTRFS_DEFRAG_RANGE_START_IO: u64 = 2;
const FILE_DEDUPE_RANGE_DIFFERS: i32 = 1;
/// `include/uapi/asm-generic/fcntl.h`.
const F_SETSIG: libc::c_int = 10;

/// `__NR_cachestat` of `include/uapi/asm-generic/unistd.h`, which libc does not have everywhere.
const CACHESTAT: libc::c_long = 451;

/// `FS_*_FL` of `include/uapi/linux/fs.h`.
pub(super) mod flag {
    pub const COMPRESSED: u32 = 0x4;
    pub const IMMUTABLE: u32 = 0x10;
    pub const APPEND: u32 = 0x20;
    pub const ENCRYPTED: u32 = 0x800;
    pub const JOURNAL_DATA: u32 = 0x4000;
    pub const EXTENTS: u32 = 0x8_0000;
    pub const VERITY: u32 = 0x10_0000;
    pub const NO_COW: u32 = 0x80_0000;
    pub const INLINE_DATA: u32 = 0x1000_0000;
}

/// `FS_XFLAG_REALTIME`.
pub(super) const XFLAG_REALTIME: u32 = 1;
/// `FS_XFLAG_NODEFRAG`.
pub(super) const XFLAG_NODEFRAG: u32 = 0x2000;
/// `XFS_FSOP_GEOM_FLAGS_REFLINK`.
pub(super) const GEOMETRY_REFLINK: u32 = 1 << 20;
/// `XFS_FSOP_GEOM_FLAGS_EXCHANGE_RANGE`.
pub(super) const GEOMETRY_EXCHANGE: u32 = 1 << 24;

/// One call with one structure, which the kernel reads and may write.
///
/// # Safety
///
/// `T` is what the kernel takes for `request`, with everything that follows it, every byte pattern is valid in
/// it, and descriptors and addresses in it are good for the time of the call.
unsafe fn call<T>(fd: RawFd, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: as the caller promises; the kernel refuses a descriptor that is not open.
    let done = unsafe { libc::ioctl(fd, request, std::ptr::from_mut(argument)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `EXT4_IOC_MOVE_EXT`: gives `blocks` of the file the donor's blocks and copies the data into them.
///
/// Positions and counts are in file system blocks. Returns the blocks that were moved, even when the call failed
/// in between.
pub(crate) fn move_extents(
    file: &File,
    donor: &File,
    start: u64,
    donor_start: u64,
    blocks: u64,
) -> (u64, io::Result<()>) {
    let donor_fd = donor.as_raw_fd() as u32;
    let mut argument = MoveExtent { reserved: 0, donor_fd, orig_start: start, donor_start, len: blocks, moved_len: 0 };
    // SAFETY: the structure of this call, of integers; both files are open while they are borrowed.
    let result = unsafe { call(file.as_raw_fd(), EXT4_IOC_MOVE_EXT, &mut argument) };
    (argument.moved_len.min(blocks), result)
}

/// What [`deduplicate`] found.
pub(super) enum Deduplicated {
    /// So many bytes are shared now.
    Bytes(u64),
    /// The contents were not the same, and nothing was changed.
    Differs,
}

/// `FIDEDUPERANGE`: has `target` share the donor's blocks where both hold the same bytes, which the kernel
/// compares with both files locked (man ioctl_fideduperange).
pub(super) fn deduplicate(
    donor: &File,
    donor_start: u64,
    target: &File,
    start: u64,
    length: u64,
) -> io::Result<Deduplicated> {
    let mut argument = DedupeRange {
        src_offset: donor_start,
        src_length: length,
        dest_count: 1,
        reserved1: 0,
        reserved2: 0,
        dest_fd: i64::from(target.as_raw_fd()),
        dest_offset: start,
        bytes_deduped: 0,
        status: 0,
        reserved: 0,
    };
    // SAFETY: the structure of this call followed by the one destination it counts, of integers; both files are
    // open while they are borrowed.
    unsafe { call(donor.as_raw_fd(), FIDEDUPERANGE, &mut argument)? };
    match argument.status {
        0 => Ok(Deduplicated::Bytes(argument.bytes_deduped.min(length))),
        FILE_DEDUPE_RANGE_DIFFERS => Ok(Deduplicated::Differs),
        status => Err(io::Error::from_raw_os_error(status.saturating_neg())),
    }
}

/// `BTRFS_IOC_DEFRAG_RANGE`: rewrites the extents of the range, whatever their size, and starts writing them out.
pub(super) fn defragment_range(file: &File, start: u64, length: u64) -> io::Result<()> {
    let mut argument = DefragRange {
        start,
        len: length,
        flags: BTRFS_DEFRAG_RANGE_START_IO,
        // Extents at least so long would stay where they are.
        extent_thresh: u32::MAX,
        compress_type: 0,
        unused: [0; 4],
    };
    // SAFETY: the structure of this call, of integers; the file is open while it is borrowed.
    unsafe { call(file.as_raw_fd(), BTRFS_IOC_DEFRAG_RANGE, &mut argument) }
}

/// `F2FS_IOC_DEFRAGMENT`: rewrites the data of the range at the end of the log, if it lies in several pieces there.
///
/// Both are multiples of 4,096 bytes. Returns the bytes that are rewritten; zero if the kernel found one piece. Needs
/// `CAP_SYS_ADMIN`.
pub(super) fn f2fs_defragment(file: &File, start: u64, length: u64) -> io::Result<u64> {
    let mut argument = F2fsDefragment { start, len: length };
    // SAFETY: the structure of this call, of integers; the file is open while it is borrowed.
    unsafe { call(file.as_raw_fd(), F2FS_IOC_DEFRAGMENT, &mut argument)? };
    Ok(argument.len)
}

/// `F2FS_IOC_WRITE_CHECKPOINT`: everything that was written to the file system, and its map of blocks, is on the device
/// when this returns. Needs `CAP_SYS_ADMIN`.
pub(super) fn f2fs_write_checkpoint(file: &File) -> io::Result<()> {
    // SAFETY: this call takes no argument; the file is open while it is borrowed.
    match unsafe { libc::ioctl(file.as_raw_fd(), F2FS_IOC_WRITE_CHECKPOINT) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes a write lease (`F_SETLEASE`): the kernel grants it while no other descriptor and no mapping of the file
/// exists, and has whoever opens the file wait until it is given back. `EAGAIN` if the file is open elsewhere.
///
/// Who waits is told to the holder by a signal. It is made to be `SIGURG`, which does nothing by default; that of a
/// lease would be `SIGIO`, which ends the process.
pub(super) fn take_lease(file: &File) -> io::Result<()> {
    lease_call(file, F_SETSIG, libc::SIGURG)?;
    lease_call(file, libc::F_SETLEASE, libc::c_int::from(libc::F_WRLCK)).map(|_| ())
}

/// Gives it back.
pub(super) fn give_lease_back(file: &File) -> io::Result<()> {
    lease_call(file, libc::F_SETLEASE, libc::c_int::from(libc::F_UNLCK)).map(|_| ())
}

/// Whether the lease is held and nobody waits for it.
pub(super) fn holds_lease(file: &File) -> bool {
    lease_call(file, libc::F_GETLEASE, 0).is_ok_and(|kind| kind == libc::c_int::from(libc::F_WRLCK))
}

fn lease_call(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: these commands take an integer; the file is open while it is borrowed.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

/// How a file was when a commit began (`XFS_IOC_START_COMMIT`).
pub(super) struct Freshness([u64; 6]);

/// `XFS_IOC_START_COMMIT`: samples the file.
pub(super) fn start_commit(file: &File) -> io::Result<Freshness> {
    let mut argument = CommitRange {
        file1_fd: 0,
        pad: 0,
        file1_offset: 0,
        file2_offset: 0,
        length: 0,
        flags: 0,
        file2_freshness: [0; 6],
    };
    // SAFETY: the structure of this call, of integers; the file is open while it is borrowed.
    unsafe { call(file.as_raw_fd(), XFS_IOC_START_COMMIT, &mut argument)? };
    Ok(Freshness(argument.file2_freshness))
}

/// `XFS_IOC_COMMIT_RANGE`: exchanges the ranges if the file is still as [`start_commit`] saw it; `EBUSY` if not.
pub(super) fn commit_range(
    donor: &File,
    donor_start: u64,
    file: &File,
    start: u64,
    length: u64,
    fresh: &Freshness,
) -> io::Result<()> {
    let mut argument = CommitRange {
        file1_fd: donor.as_raw_fd(),
        pad: 0,
        file1_offset: donor_start,
        file2_offset: start,
        length,
        flags: 0,
        file2_freshness: fresh.0,
    };
    // SAFETY: the structure of this call, of integers; both files are open while they are borrowed.
    unsafe { call(file.as_raw_fd(), XFS_IOC_COMMIT_RANGE, &mut argument) }
}

/// Flags of the XFS file system that the file is on (`XFS_IOC_FSGEOMETRY`).
pub(super) fn xfs_geometry_flags(file: &File) -> io::Result<u32> {
    let mut argument = XfsGeometry { before_flags: [0; 23], flags: 0, after_flags: [0; 20] };
    // SAFETY: the structure of this call, 256 bytes of integers; the file is open while it is borrowed.
    unsafe { call(file.as_raw_fd(), XFS_IOC_FSGEOMETRY, &mut argument)? };
    Ok(argument.flags)
}

/// The features of the Btrfs file system that the file is on: compatible ones, those compatible for reading, and the others
/// (`struct btrfs_ioctl_feature_flags`, `BTRFS_IOC_GET_FEATURES`).
pub(super) fn btrfs_features(file: &File) -> io::Result<[u64; 3]> {
    let mut argument = [0_u64; 3];
    // SAFETY: the structure of this call, three integers; the file is open while it is borrowed.
    unsafe { call(file.as_raw_fd(), BTRFS_IOC_GET_FEATURES, &mut argument)? };
    Ok(argument)
}

/// Opens the XFS file again such that what is done to it leaves its times alone, as `xfs_fsr` does
/// (`XFS_IOC_FD_TO_HANDLE`, `XFS_IOC_OPEN_BY_HANDLE`). Needs `CAP_SYS_ADMIN`, and any folder of the file system.
pub(super) fn xfs_open_invisibly(file: &File, folder: &File) -> io::Result<File> {
    // `struct xfs_handle` has 24 bytes.
    let mut handle = [0_u64; 8];
    let mut bytes = size_of_val(&handle) as u32;
    let mut argument = HandleRequest {
        fd: file.as_raw_fd() as u32,
        path: 0,
        oflags: libc::O_LARGEFILE as u32,
        ihandle: 0,
        ihandlen: 0,
        ohandle: std::ptr::from_mut(&mut handle) as usize,
        ohandlen: std::ptr::from_mut(&mut bytes) as usize,
    };
    // SAFETY: the structure of this call; the kernel writes at most `bytes` bytes to `handle`, and the length it
    // has to `bytes`, both of which outlive the call.
    unsafe { call(file.as_raw_fd(), XFS_IOC_FD_TO_HANDLE, &mut argument)? };
    argument = HandleRequest {
        fd: 0,
        path: 0,
        oflags: (libc::O_RDWR | libc::O_LARGEFILE | libc::O_CLOEXEC) as u32,
        ihandle: std::ptr::from_ref(&handle) as usize,
        ihandlen: bytes.min(size_of_val(&handle) as u32),
        ohandle: 0,
        ohandlen: 0,
    };
    // SAFETY: the structure of this call; the kernel reads `ihandlen` bytes of `handle`, which outlives the call.
    let fd = unsafe { libc::ioctl(folder.as_raw_fd(), XFS_IOC_OPEN_BY_HANDLE, std::ptr::from_mut(&mut argument)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which nobody else has.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Pages of a range that are in the page cache, whether they are read yet or not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CachedPages {
    pub all: u64,
    /// Neither dirty nor being written.
    pub clean: u64,
}

/// `cachestat(2)`, Linux 6.5. Newer kernels tell it only to those who own the file or may write to it.
pub(super) fn cached_pages(file: &File, start: u64, length: u64) -> io::Result<CachedPages> {
    // No length would be everything up to the end.
    if length == 0 {
        return Ok(CachedPages::default());
    }
    let range = [start, length];
    let mut counts = [0_u64; 5];
    // SAFETY: the kernel reads the two numbers of `struct cachestat_range` and writes the five of `struct cachestat`, which outlive
    // the call; the file is open while it is borrowed.
    let done = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0) };
    let [all, dirty, being_written, ..] = counts;
    let cached = CachedPages { all, clean: all.saturating_sub(dirty.saturating_add(being_written)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(cached) }
}

/// `FS_IOC_GETFLAGS`, as [`flag`] names them.
pub(super) fn inode_flags(file: &File) -> io::Result<u32> {
    // Room for the `long` of the call's number, of which the kernel writes an `int`.
    let mut argument = [0_u32; 2];
    // SAFETY: eight bytes of integers; the file is open while it is borrowed.
    unsafe { call(file.as_raw_fd(), FS_IOC_GETFLAGS, &mut argument)? };
    Ok(argument[0])
}

/// `FS_IOC_SETFLAGS`: the flag [`flag::NO_COW`] of an empty file, set or cleared.
pub(super) fn set_no_cow(file: &File, on: bool) -> io::Result<()> {
    let flags = inode_flags(file)?;
    let wanted = if on { flags | flag::NO_COW } else { flags & !flag::NO_COW };
    if wanted == flags {
        return Ok(());
    }
    // Room for the `long` of the call's number, of which the kernel reads an `int`.
    let mut argument = [wanted, 0];
    // SAFETY: eight bytes of integers; the file is open while it is borrowed.
    unsafe { call(file.as_raw_fd(), FS_IOC_SETFLAGS, &mut argument) }
}

/// `FS_IOC_GETVERSION`: the inode's generation. The number names a `long`, but file systems write an `int`
/// (`put_user((int __user *))` in fs/ext4/ioctl.c, fs/xfs/xfs_ioctl.c, fs/btrfs/ioctl.c); room for a long is given.
pub(crate) fn generation(file: &File) -> io::Result<u32> {
    let mut argument = [0_u32; 2];
    // SAFETY: eight bytes of integers; the file is open while it is borrowed.
    unsafe { call(file.as_raw_fd(), FS_IOC_GETVERSION, &mut argument)? };
    Ok(argument[0])
}

/// `FS_IOC_FSGETXATTR`: the extended flags.
pub(super) fn extended_flags(file: &File) -> io::Result<u32> {
    let mut argument = [0_u32; 7];
    // SAFETY: the 28 bytes of `struct fsxattr`; the file is open while it is borrowed.
    unsafe { call(file.as_raw_fd(), FS_IOC_FSGETXATTR, &mut argument)? };
    Ok(argument[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel's headers and `strace` have them.
    #[test]
    fn the_numbers_are_the_kernels() {
        let known = [
            (EXT4_IOC_MOVE_EXT, 0xc028_660f_u32),
            (FIDEDUPERANGE, 0xc018_9436),
            (BTRFS_IOC_DEFRAG_RANGE, 0x4030_9410),
            (F2FS_IOC_DEFRAGMENT, 0xc010_f508),
            (F2FS_IOC_WRITE_CHECKPOINT, 0xf507),
            (XFS_IOC_START_COMMIT, 0x8058_5882),
            (XFS_IOC_COMMIT_RANGE, 0x4058_5883),
            (XFS_IOC_FSGEOMETRY, 0x8100_587e),
            (XFS_IOC_FD_TO_HANDLE, 0xc038_586a),
            (XFS_IOC_OPEN_BY_HANDLE, 0xc038_586b),
            (FS_IOC_FSGETXATTR, 0x801c_581f),
            (FS_IOC_GETFLAGS, 0x8008_6601),
            (FS_IOC_SETFLAGS, 0x4008_6602),
            (FS_IOC_GETVERSION, 0x8008_7601),
        ];
        for (ours, kernels) in known {
            assert_eq!(ours, kernels as libc::Ioctl, "{kernels:#x}");
        }
    }
}
