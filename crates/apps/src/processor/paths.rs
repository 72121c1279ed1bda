//! Operations on names.

use std::fs::{self, File};
use std::time::Duration;

use rustix::fs::{AtFlags, statat};

use super::{DEPTH, Fixture, Job, STEP, time};

pub(super) const STATUS: Job =
    Job { name: "status", operation: "stat of a file by its path", operations: 500, round: status };
pub(super) const STATUS_SHALLOW: Job = Job {
    name: "status-shallow",
    operation: "stat by a path of one component",
    operations: 500,
    round: status_below::<1>,
};
pub(super) const STATUS_DEEP: Job = Job {
    name: "status-deep",
    operation: "stat by a path of 16 components",
    operations: 300,
    round: status_below::<DEPTH>,
};
pub(super) const OPEN: Job =
    Job { name: "open", operation: "open and close of a file by its path", operations: 300, round: open };
pub(super) const CREATE: Job =
    Job { name: "create", operation: "making an empty file and removing it", operations: 100, round: create };

fn status(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let path = fixture.data();
    time(|| (0..operations).try_for_each(|_| path.metadata().map(drop)))
}

fn status_below<const COMPONENTS: usize>(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let folder = File::open(&fixture.folder)?;
    let path = [STEP; COMPONENTS].join("/");
    time(|| (0..operations).try_for_each(|_| Ok(statat(&folder, &*path, AtFlags::empty()).map(drop)?)))
}

fn open(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let path = fixture.data();
    time(|| (0..operations).try_for_each(|_| File::open(&path).map(drop)))
}

fn create(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let path = fixture.folder.join("new");
    time(|| {
        (0..operations).try_for_each(|_| {
            File::create(&path)?;
            fs::remove_file(&path)
        })
    })
}
