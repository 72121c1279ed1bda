//! Files whose pieces lie on the device as a test wants them, on ext4.
//!
//! ext4 puts together what is appended in pieces. `EXT4_IOC_MOVE_EXT` gives each block of a file a chosen one of a
//! donor that lies in one stretch (Documentation/filesystems/ext4, fs/ext4/move_extent.c).

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use plumb_defrag::ByteRange;
use rustix::fs::FallocateFlags;

const BLOCK: u64 = 4096;

/// `struct move_extent`, in blocks.
#[repr(C)]
struct MoveExtent {
    reserved: u32,
    donor_fd: u32,
    orig_start: u64,
    donor_start: u64,
    len: u64,
    moved_len: u64,
}

/// `_IOWR('f', 15, struct move_extent)`.
const EXT4_IOC_MOVE_EXT: libc::Ioctl = 0xc028_660f_u32 as libc::Ioctl;

/// Writes `content` to a new file at `path` whose ranges lie at the given distances, in bytes, from one place of the
/// device. The ranges are whole blocks; their places do not overlap.
pub fn arranged(path: &Path, content: &[u8], places: &[(ByteRange, u64)]) {
    let open = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    let file = open(path);
    file.write_all_at(content, 0).unwrap();
    file.sync_all().unwrap();
    // Moving a block of a large folio in the page cache forces a commit of the journal for each.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let donor_path = path.with_extension("donor");
    let donor = open(&donor_path);
    let end = places.iter().map(|(range, at)| at + range.len()).max().unwrap();
    rustix::fs::fallocate(&donor, FallocateFlags::empty(), 0, end).unwrap();
    for (range, at) in places {
        let mut move_extent = MoveExtent {
            reserved: 0,
            donor_fd: donor.as_raw_fd().try_into().unwrap(),
            orig_start: range.start / BLOCK,
            donor_start: at / BLOCK,
            len: range.len() / BLOCK,
            moved_len: 0,
        };
        // SAFETY: both descriptors are open for the time of the call; the structure is the kernel's, and it reads and
        // writes nothing beyond it.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), EXT4_IOC_MOVE_EXT, &raw mut move_extent) };
        assert!(done == 0, "{range}: {}", std::io::Error::last_os_error());
        assert_eq!(move_extent.moved_len, range.len() / BLOCK, "{range}");
    }
    file.sync_all().unwrap();
    std::fs::remove_file(donor_path).unwrap();
}
