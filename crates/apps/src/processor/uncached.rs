//! Pages that come into the page cache.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use super::{FILE_BYTES, Fixture, Job, PAGE_BYTES, time};

const READ_BYTES: usize = 65536;

/// Divided by the pages of the file; its reads are those of `read-64k`.
pub(super) const READ_PAGE: Job = Job {
    name: "read-new-page",
    operation: "a page of 64 KiB reads of a hole that is not in the page cache",
    operations: (FILE_BYTES / PAGE_BYTES as u64) as u32,
    round: read_page,
};

fn read_page(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let file = File::open(fixture.hole())?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut buffer = vec![0; READ_BYTES];
    let reads = operations as usize * PAGE_BYTES / READ_BYTES;
    time(|| (0..reads).try_for_each(|number| file.read_exact_at(&mut buffer, (number * READ_BYTES) as u64)))
}
