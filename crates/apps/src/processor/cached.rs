//! Operations on what is in memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::{FILE_BYTES, Fixture, Job, time};

pub(super) const READ_4K: Job =
    Job { name: "read-4k", operation: "pread of 4 KiB in the page cache", operations: 500, round: read::<4096> };
pub(super) const READ_16K: Job =
    Job { name: "read-16k", operation: "pread of 16 KiB in the page cache", operations: 300, round: read::<16384> };
pub(super) const READ_64K: Job =
    Job { name: "read-64k", operation: "pread of 64 KiB in the page cache", operations: 150, round: read::<65536> };
pub(super) const WRITE_4K: Job = Job {
    name: "write-4k",
    operation: "pwrite of 4 KiB over pages in the page cache",
    operations: 300,
    round: write::<4096>,
};
pub(super) const WRITE_16K: Job = Job {
    name: "write-16k",
    operation: "pwrite of 16 KiB over pages in the page cache",
    operations: 150,
    round: write::<16384>,
};
pub(super) const WRITE_64K: Job = Job {
    name: "write-64k",
    operation: "pwrite of 64 KiB over pages in the page cache",
    operations: 60,
    round: write::<65536>,
};

fn read<const BYTES: usize>(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let file = File::open(fixture.data())?;
    let mut buffer = vec![0; BYTES];
    file.read_exact_at(&mut buffer, 0)?;
    time(|| places(operations, BYTES).try_for_each(|place| file.read_exact_at(&mut buffer, place)))
}

fn write<const BYTES: usize>(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let file = File::options().write(true).open(fixture.data())?;
    let bytes = vec![0x5a; BYTES];
    time(|| places(operations, bytes.len()).try_for_each(|place| file.write_all_at(&bytes, place)))
}

/// One after the other, from the beginning again at the end.
fn places(operations: u32, bytes: usize) -> impl Iterator<Item = u64> {
    (0..u64::from(operations)).map(move |number| number * bytes as u64 % FILE_BYTES)
}
