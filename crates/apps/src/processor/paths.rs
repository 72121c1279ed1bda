//! Operations on names.

use std::fs::File;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, statat, unlinkat};

use super::{DATA, DEPTH, Fixture, Job, STEP, time};

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
pub(super) const OPEN: Job = Job {
    name: "open",
    operation: "open and close of a file by a path of one component",
    operations: 300,
    round: open,
};
pub(super) const OPEN_PATH: Job =
    Job { name: "open-path", operation: "open and close of a file by its path", operations: 300, round: open_path };
pub(super) const CREATE: Job =
    Job { name: "create", operation: "making an empty file and removing it", operations: 100, round: create };
pub(super) const RENAME: Job =
    Job { name: "rename", operation: "giving a file another name", operations: 100, round: rename };

/// System calls of closing a file: where assertions are on, the library looks at a descriptor before it closes it.
pub const CLOSE_SYSTEM_CALLS: u32 = if cfg!(debug_assertions) { 2 } else { 1 };

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
    let folder = File::open(&fixture.folder)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    time(|| (0..operations).try_for_each(|_| Ok(openat(&folder, DATA, flags, Mode::empty()).map(drop)?)))
}

fn open_path(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let path = fixture.data();
    time(|| (0..operations).try_for_each(|_| File::open(&path).map(drop)))
}

fn create(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let folder = File::open(&fixture.folder)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    time(|| {
        (0..operations).try_for_each(|_| {
            drop(openat(&folder, "new", flags, Mode::RUSR | Mode::WUSR)?);
            Ok(unlinkat(&folder, "new", AtFlags::empty())?)
        })
    })
}

/// There and back, so that the name it gets is always free.
fn rename(fixture: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let folder = File::open(&fixture.folder)?;
    File::create(fixture.folder.join("one"))?;
    let elapsed = time(|| {
        (0..operations / 2).try_for_each(|_| {
            renameat(&folder, "one", &folder, "two")?;
            Ok(renameat(&folder, "two", &folder, "one")?)
        })
    });
    unlinkat(&folder, "one", AtFlags::empty())?;
    elapsed
}
