//! Files whose pieces lie on the device as a test wants them, on ext4.
//!
//! ext4 puts together what is appended in pieces. `EXT4_IOC_MOVE_EXT` gives each block of a file a chosen one of a
//! donor that lies in one stretch (Documentation/filesystems/ext4, fs/ext4/move_extent.c).

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use plumb_defrag::ByteRange;
use rustix::fs::FallocateFlags;

use super::move_extents::move_extents;

const BLOCK: u64 = 4096;

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
        let blocks = range.len() / BLOCK;
        let moved = move_extents(&file, &donor, range.start / BLOCK, at / BLOCK, blocks);
        let moved = moved.unwrap_or_else(|error| panic!("{range}: {error}"));
        assert_eq!(moved, blocks, "{range}");
    }
    file.sync_all().unwrap();
    std::fs::remove_file(donor_path).unwrap();
}
