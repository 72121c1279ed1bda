//! A database with readers, writers of pages and a writer of a log, as Filebench defines it (`workloads/oltp.f`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rand::RngExt;
use rustix::fs::OFlags;
use serde::Serialize;
use units::ByteSize;

use super::filebench::FOLDER_GAMMA;
use super::{Program, arguments};
use crate::engine::fileset::{Definition, Shape, Sizes};
use crate::engine::{AppError, Halt, Operation, ProgramPlan, Role, Semaphore, Work, Worker};

const DATA: usize = 0;
const LOG: usize = 1;

#[derive(Args, Serialize)]
pub(super) struct Oltp {
    /// Files of data
    #[arg(long, value_name = "N", default_value = "10", value_parser = arguments::files)]
    files: u64,
    /// Size of each
    #[arg(long, value_name = "SIZE", default_value = "10m")]
    file_size: ByteSize,
    /// Size of the log
    #[arg(long, value_name = "SIZE", default_value = "10m")]
    log_size: ByteSize,
    /// Threads that read
    #[arg(long, value_name = "N", default_value = "200", value_parser = arguments::threads)]
    readers: usize,
    /// Threads that write data
    #[arg(long, value_name = "N", default_value = "10", value_parser = arguments::threads)]
    writers: usize,
    /// Bytes of one read or write of data
    #[arg(long, value_name = "SIZE", default_value = "2k", value_parser = arguments::io_size)]
    io_size: ByteSize,
    /// Bytes of one write of the log
    #[arg(long, value_name = "SIZE", default_value = "256k", value_parser = arguments::io_size)]
    log_io_size: ByteSize,
    /// Writes of data in one go
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    burst: u64,
    /// Reads after which a writer writes again
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    reads_a_burst: u64,
    /// Reads after which the log is written again
    #[arg(long, value_name = "N", default_value_t = 3200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    reads_a_log_write: u64,
    /// Work of the processor after a read, in stores to memory
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    read_work: u64,
    /// Work of the processor after a burst, in stores to memory
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    write_work: u64,
}

/// Posts that readers may make before the writers wait for them, as Filebench's `highwater`.
const WRITERS_AHEAD: u64 = 2000;
const LOG_AHEAD: u64 = 1000;

impl Program for Oltp {
    const NAME: &'static str = "oltp";
    const ABOUT: &'static str =
        "A database: many readers of pages, synchronous writers of pages and of a log behind them (after Filebench)";
    const EXAMPLES: &'static str = "Examples:
  plumb app oltp --folder /mnt --seconds 30
  plumb app oltp --readers 20 --writers 2 --operations 20000 --json  # 20000 reads, and the writes that belong to them

--operations counts reads: the writers follow them.";
    const SECONDS: Option<u64> = Some(60);

    fn plan(&self) -> Result<ProgramPlan, AppError> {
        let page = Io { set: DATA, bytes: self.io_size.0, file_bytes: self.file_size.0 };
        let log = Io { set: LOG, bytes: self.log_io_size.0, file_bytes: self.log_size.0 };
        for (io, option) in [(page, "file-size"), (log, "log-size")] {
            if io.file_bytes < io.bytes {
                let (size, bytes) = (ByteSize(io.file_bytes), ByteSize(io.bytes));
                return Err(AppError::Options(format!("--{option} {size}: it has to hold one I/O of {bytes}")));
            }
        }
        let for_log = Arc::new(Semaphore::new(LOG_AHEAD));
        let for_writers: Vec<_> = (0..self.writers).map(|_| Arc::new(Semaphore::new(WRITERS_AHEAD))).collect();
        let semaphores: Vec<_> = std::iter::once(&for_log).chain(&for_writers).cloned().collect();
        let (read_work, posts) = (self.read_work, semaphores.clone());
        let reader = move |_| -> Box<dyn Work> {
            Box::new(Reader { files: Files::new(page), work: read_work, posts: posts.clone() })
        };
        let (burst, work, count) = (self.burst, self.write_work, self.reads_a_burst);
        let writer = move |number: usize| -> Box<dyn Work> {
            let posts = for_writers.get(number).cloned();
            Box::new(Writer { files: Files::new(page), burst, work, posts, count })
        };
        let count = self.reads_a_log_write;
        let log_writer = move |_| -> Box<dyn Work> {
            Box::new(Writer { files: Files::new(log), burst: 1, work: 0, posts: Some(for_log.clone()), count })
        };
        Ok(ProgramPlan {
            sets: vec![set("data", self.files, page), set("log", 1, log)],
            roles: vec![
                Role::serving("log writer", 1, log_writer),
                Role::serving("writer", self.writers, writer),
                Role::leading("reader", self.readers, reader),
            ],
            semaphores,
            read_bytes: page.bytes,
            write_bytes: page.bytes.max(log.bytes),
            changes_files: false,
        })
    }
}

fn set(name: &'static str, files: u64, io: Io) -> Definition {
    Definition {
        name,
        files,
        sizes: Sizes { mean_bytes: io.file_bytes, gamma: 0.0 },
        shape: Shape::Tree { width: 1024, gamma: FOLDER_GAMMA },
        prepared_percent: 100,
        shares: 1,
        least_a_share: 0,
        compressible_percent: 0,
    }
}

/// I/O of one size at random places of the files of a set.
#[derive(Clone, Copy)]
struct Io {
    set: usize,
    bytes: u64,
    file_bytes: u64,
}

/// The files of a set in turn, each opened when its first turn comes; threads begin at different ones.
struct Files {
    io: Io,
    open: BTreeMap<usize, (File, PathBuf)>,
    next: Option<usize>,
}

impl Files {
    fn new(io: Io) -> Self {
        Self { io, open: BTreeMap::new(), next: None }
    }

    /// The next file, opened as `options` say, and a place in it.
    fn turn(&mut self, worker: &mut Worker<'_>, options: &OpenOptions) -> Result<(&File, &Path, u64), Halt> {
        let Some(set) = worker.sets.get(self.io.set) else { return Err(Halt::Done) };
        let next = self.next.unwrap_or(worker.number) % set.len().max(1);
        self.next = Some(next + 1);
        let (file, path) = match self.open.entry(next) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(vacant) => {
                let path = set.path(next);
                let file = worker.operation(Operation::Open, &path, |_| Ok((options.open(&path)?, 0)))?;
                vacant.insert((file, path))
            }
        };
        // Aligned to the size of the I/O, as in Filebench.
        let places = self.io.file_bytes / self.io.bytes;
        let offset = worker.random.random_range(0..places.max(1)) * self.io.bytes;
        Ok((file, path, offset))
    }
}

/// Keeps the processor busy for so many stores.
fn hog(stores: u64) {
    let mut memory = 0_u8;
    for _ in 0..stores {
        *std::hint::black_box(&mut memory) = 1;
    }
}

/// Reads a page, works, and tells the writers.
struct Reader {
    files: Files,
    work: u64,
    posts: Vec<Arc<Semaphore>>,
}

impl Work for Reader {
    fn turn(&mut self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        let (file, path, offset) = self.files.turn(worker, OpenOptions::new().read(true))?;
        worker.operation(Operation::Read, path, |worker| {
            file.read_exact_at(&mut worker.buffer, offset)?;
            Ok(((), worker.buffer.len() as u64))
        })?;
        hog(self.work);
        if self.posts.iter().all(|posts| posts.post()) { Ok(()) } else { Err(Halt::Done) }
    }
}

/// Writes pages, each durable when its write returns, works, and waits for reads.
struct Writer {
    files: Files,
    burst: u64,
    work: u64,
    posts: Option<Arc<Semaphore>>,
    count: u64,
}

impl Work for Writer {
    fn turn(&mut self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        let bytes = self.files.io.bytes;
        for _ in 0..self.burst {
            let flags = OFlags::SYNC.bits().cast_signed();
            let (file, path, offset) = self.files.turn(worker, OpenOptions::new().write(true).custom_flags(flags))?;
            worker.operation(Operation::Write, path, |worker| {
                file.write_all_at(worker.contents.get(..bytes as usize).unwrap_or_default(), offset)?;
                Ok(((), bytes))
            })?;
        }
        hog(self.work);
        match &self.posts {
            Some(posts) if posts.wait(self.count) => Ok(()),
            _ => Err(Halt::Done),
        }
    }
}
