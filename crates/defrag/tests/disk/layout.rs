//! Files whose pieces lie on the device as a test wants them, on ext4.
//!
//! ext4 puts together what is appended in pieces. `EXT4_IOC_MOVE_EXT` gives each block of a file a chosen one of a
//! donor that lies in one stretch (Documentation/filesystems/ext4, fs/ext4/move_extent.c).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use defrag::ByteRange;
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};

use super::move_extents::move_extents;

/// Writes `content` to a new file at `path` whose ranges lie at the given distances, in bytes, from one place of the
/// device. The ranges are whole blocks; their places do not overlap.
pub fn arranged(path: &Path, content: &[u8], places: &[(ByteRange, u64)]) {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    file.write_all_at(content, 0).unwrap();
    arrange(&file, path.parent().unwrap(), places);
}

/// Gives ranges of a file their places, as [`arranged`] does; the last may end within a block, where the file does.
///
/// What the allocator would do depends on when the journal commits: blocks that were freed are given away again only
/// after that.
pub fn arrange(file: &File, folder: &Path, places: &[(ByteRange, u64)]) {
    file.sync_all().unwrap();
    // Moving a block of a large folio in the page cache forces a commit of the journal for each.
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).unwrap();
    let block = rustix::fs::fstatfs(file).unwrap().f_bsize as u64;
    let donor = rustix::fs::open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    let donor = File::from(donor.unwrap());
    let end = places.iter().map(|(range, at)| at + range.len().next_multiple_of(block)).max().unwrap();
    rustix::fs::fallocate(&donor, FallocateFlags::empty(), 0, end).unwrap();
    for (range, at) in places {
        let blocks = range.len().div_ceil(block);
        let moved = move_extents(file, &donor, range.start / block, at / block, blocks);
        let moved = moved.unwrap_or_else(|error| panic!("{range}: {error}"));
        assert_eq!(moved, blocks, "{range}");
    }
    file.sync_all().unwrap();
}
