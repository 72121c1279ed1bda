//! What the processor's work around files costs: short loops of one operation each, timed.
//!
//! ```text
//! fixture (files in a folder) ─► Job::round, so many times ─► nanoseconds an operation: median and quartiles
//! ```
//!
//! The same loops run on a machine, where they measure, and in a guest that charges for what was measured, where they check it.

mod cached;
mod mapped;
mod paths;
mod served;
mod switches;
mod uncached;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use paths::CLOSE_SYSTEM_CALLS;
pub use served::{FUSE_SWITCHES, FUSE_SYSTEM_CALLS};

/// Loops of one kind of operation; a table of them is [`JOBS`].
struct Job {
    name: &'static str,
    /// What one operation is.
    operation: &'static str,
    operations: u32,
    round: fn(&Fixture, u32) -> std::io::Result<Duration>,
}

/// In the order in which they are told.
const JOBS: &[Job] = &[
    cached::READ_4K,
    cached::READ_16K,
    cached::READ_64K,
    cached::WRITE_4K,
    cached::WRITE_16K,
    cached::WRITE_64K,
    paths::STATUS_SHALLOW,
    paths::STATUS_DEEP,
    paths::STATUS,
    paths::OPEN,
    paths::OPEN_PATH,
    paths::CREATE,
    paths::RENAME,
    uncached::READ_PAGE,
    mapped::TOUCH_PAGE,
    switches::PING_PONG,
    served::READ,
    served::READ_LARGE,
];

/// Rounds of a job; the middle one counts.
const ROUNDS: usize = 21;

const PAGE_BYTES: usize = 4096;

/// Bytes of each file of the fixture.
const FILE_BYTES: u64 = 4 << 20;

/// A failed job.
#[derive(Debug, thiserror::Error)]
#[error("{job} in {}: {source}", folder.display())]
pub struct ProcessorError {
    job: &'static str,
    folder: PathBuf,
    source: std::io::Error,
}

/// What one job took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// The job's name.
    pub name: String,
    /// What one operation is.
    pub operation: String,
    /// Nanoseconds an operation: lower quartile, median and upper quartile of the rounds.
    pub quartiles_ns: [f64; 3],
}

impl Timed {
    /// The middle round.
    pub fn median_ns(&self) -> f64 {
        self.quartiles_ns[1]
    }
}

/// Folders below each other in the fixture, and the name of each.
pub const DEPTH: usize = 16;
const STEP: &str = "d";
/// A file of the fixture.
const DATA: &str = "data";

/// Files to work on, gone with it.
struct Fixture {
    folder: PathBuf,
}

impl Fixture {
    fn make(parent: &Path) -> std::io::Result<Self> {
        let folder = parent.join(format!("plumb-processor-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let fixture = Self { folder };
        fs::write(fixture.data(), vec![0xa5; FILE_BYTES as usize])?;
        fs::create_dir_all(fixture.folder.join([STEP; DEPTH].join("/")))?;
        // A hole: its pages come without a device.
        fs::File::create(fixture.hole())?.set_len(FILE_BYTES)?;
        Ok(fixture)
    }

    fn data(&self) -> PathBuf {
        self.folder.join(DATA)
    }

    fn hole(&self) -> PathBuf {
        self.folder.join("hole")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What became of a job.
#[derive(Debug)]
pub enum Told<'a> {
    /// It ran.
    Timed(&'a Timed),
    /// This machine lacks what it needs, or does not let it: why.
    LeftOut(&'a str, std::io::Error),
}

/// Runs all jobs on files in `folder`, which has to be on a file system with a page cache of a device: not tmpfs.
///
/// # Errors
/// The first job that fails, with its folder.
pub fn run(folder: &Path, mut tell: impl FnMut(Told<'_>)) -> Result<Vec<Timed>, ProcessorError> {
    let failed = |job| move |source| ProcessorError { job, folder: folder.to_owned(), source };
    let fixture = Fixture::make(folder).map_err(failed("making files"))?;
    let mut all = Vec::new();
    for job in JOBS {
        // One that does not count fills caches.
        match (job.round)(&fixture, job.operations) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                tell(Told::LeftOut(job.operation, error));
                continue;
            }
            first => first.map_err(failed(job.name))?,
        };
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let elapsed = (job.round)(&fixture, job.operations).map_err(failed(job.name))?;
            rounds.push(elapsed.as_nanos() as f64 / f64::from(job.operations));
        }
        rounds.sort_by(f64::total_cmp);
        let quartiles_ns = [ROUNDS / 4, ROUNDS / 2, ROUNDS - 1 - ROUNDS / 4].map(|at| rounds[at]);
        let timed = Timed { name: job.name.to_owned(), operation: job.operation.to_owned(), quartiles_ns };
        tell(Told::Timed(&timed));
        all.push(timed);
    }
    Ok(all)
}

/// How long `work` takes.
fn time(work: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_takes_time_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (mut told, mut left_out) = (0, 0);
        let all = run(folder.path(), |done| match done {
            Told::Timed(_) => told += 1,
            Told::LeftOut(operation, why) => {
                println!("skipped: {operation}: {why}");
                left_out += 1;
            }
        })
        .unwrap();
        assert_eq!((all.len(), told), (JOBS.len() - left_out, JOBS.len() - left_out));
        assert!(left_out == 0 || !rustix::process::geteuid().is_root(), "root may mount");
        for timed in all {
            let [low, median, high] = timed.quartiles_ns;
            assert!(low > 0.0 && low <= median && median <= high, "{timed:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = run(Path::new("/absent"), |_| ()).unwrap_err().to_string();
        assert!(error.contains("/absent") && error.contains("making files"), "{error}");
    }
}
