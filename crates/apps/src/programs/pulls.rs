//! A folder of sources that is pulled again and again, as the studies of file systems that age run git (FAST '17): each pull writes a
//! pack and replaces some files all over the tree, so that neighbours in a folder are of different ages.

use std::fs::{self, File};
use std::path::Path;

use clap::Args;
use rand::RngExt;
use serde::Serialize;
use units::ByteSize;

use super::filebench::FOLDER_GAMMA;
use super::{Program, arguments};
use crate::engine::fileset::{Definition, FileSet, Shape, Sizes};
use crate::engine::{AppError, Halt, Operation, ProgramPlan, Role, Work, Worker};

/// Of one write.
const IO_BYTES: u64 = 1 << 20;
/// What git's index has for a file, roughly: 62 bytes, its hash among them, and a path.
const INDEX_ENTRY_BYTES: u64 = 100;
/// Of a hundred files that a pull touches so many are new, and as many go.
const NEW_PERCENT: u32 = 5;
/// The part of a file that a pack has of its new version, by compression and difference.
const PACKED_PART: u64 = 4;

#[derive(Args, Serialize)]
pub(super) struct Pulls {
    /// Files of the tree, of which four fifths are there at a time
    #[arg(long, value_name = "N", default_value = "5000", value_parser = arguments::files)]
    files: u64,
    /// Mean size of a file
    #[arg(long, value_name = "SIZE", default_value = "14k")]
    file_size: ByteSize,
    /// Shape of the gamma distribution of sizes; 0: all alike
    #[arg(long, value_name = "SHAPE", default_value = "0.5", value_parser = arguments::gamma)]
    size_gamma: f64,
    /// Mean entries of a folder, of a gamma distribution
    #[arg(long, value_name = "N", default_value_t = 16)]
    width: u64,
    /// How often it is pulled
    #[arg(long, value_name = "N", default_value = "100", value_parser = arguments::files)]
    pulls: u64,
    /// Files that one pull touches
    #[arg(long, value_name = "N", default_value = "100", value_parser = arguments::files)]
    changes: u64,
}

impl Program for Pulls {
    const NAME: &'static str = "pulls";
    const ABOUT: &'static str =
        "A folder of sources that is pulled again and again, which ages a file system (after FAST '17)";
    const EXAMPLES: &'static str = "Examples:
  plumb app pulls --folder /mnt --pulls 1000
  plumb app pulls --files 20000 --pulls 100 --changes 500 --json
  plumb app pulls --prepare && plumb app pulls --run                 # the tree, and the pulls by themselves

Each pull writes a pack and syncs it, as git does; takes files at random, of which it unlinks and writes anew nine tenths, and makes or
removes the others; and writes the index beside the old one and renames it over. Nothing else is synchronised. It ends after --pulls.";
    const SECONDS: Option<u64> = None;

    fn plan(&self) -> Result<ProgramPlan, AppError> {
        let pack_bytes = self.changes.saturating_mul(self.file_size.0 / PACKED_PART);
        let set = |name, files, mean_bytes, gamma, shape, prepared_percent| Definition {
            name,
            files,
            sizes: Sizes { mean_bytes, gamma },
            shape,
            prepared_percent,
            shares: 1,
            least_a_share: 0,
            compressible_percent: 0,
        };
        let tree = Shape::Tree { width: self.width, gamma: FOLDER_GAMMA };
        let sources = set("sources", self.files, self.file_size.0, self.size_gamma, tree, 80);
        let index_bytes = self.files.saturating_mul(INDEX_ENTRY_BYTES);
        let (pulls, changes) = (self.pulls as usize, self.changes);
        let work = move |_| -> Box<dyn Work> { Box::new(Puller { done: 0, pulls, changes, files: None }) };
        Ok(ProgramPlan {
            sets: vec![
                Definition { least_a_share: 2, ..sources },
                set("packs", self.pulls, pack_bytes, 0.0, Shape::ByShare, 0),
                set("index", 1, index_bytes, 0.0, Shape::ByShare, 100),
            ],
            roles: vec![Role::leading("puller", 1, work)],
            semaphores: Vec::new(),
            read_bytes: 0,
            write_bytes: IO_BYTES,
            changes_files: true,
        })
    }
}

/// Which files of the tree are there.
struct Files {
    there: Vec<usize>,
    absent: Vec<usize>,
}

struct Puller {
    done: usize,
    pulls: usize,
    changes: u64,
    files: Option<Files>,
}

impl Work for Puller {
    /// One pull.
    fn turn(&mut self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        let [sources, packs, index] = worker.sets else { return Err(Halt::Done) };
        if self.done >= self.pulls {
            return Err(Halt::Done);
        }
        let path = packs.path(self.done);
        let pack = write_new(&path, bytes_of(packs, self.done), worker)?;
        worker.operation(Operation::Fsync, &path, |_| Ok((pack.sync_all()?, 0)))?;
        close(pack, &path, worker)?;
        self.done += 1;
        let files = self.files.get_or_insert_with(|| Files::of(sources));
        for _ in 0..self.changes {
            files.change_one(sources, worker)?;
        }
        let path = index.path(0);
        let lock = path.with_extension("lock");
        let new = write_new(&lock, bytes_of(index, 0), worker)?;
        close(new, &lock, worker)?;
        worker.operation(Operation::Rename, &lock, |_| Ok((fs::rename(&lock, &path)?, 0)))
    }
}

impl Files {
    fn of(sources: &FileSet) -> Self {
        let is_there = |at: &usize| sources.file(*at).is_some_and(|file| file.prepared);
        let (there, absent) = (0..sources.len()).partition(is_there);
        Self { there, absent }
    }

    fn change_one(&mut self, sources: &FileSet, worker: &mut Worker<'_>) -> Result<(), Halt> {
        let drawn = worker.random.random_range(0..100);
        let comes = drawn < NEW_PERCENT && !self.absent.is_empty() || self.there.is_empty();
        let from = if comes { &mut self.absent } else { &mut self.there };
        let at = from.swap_remove(worker.random.random_range(0..from.len()));
        if !comes {
            let path = sources.path(at);
            worker.operation(Operation::Delete, &path, |_| Ok((fs::remove_file(&path)?, 0)))?;
            if drawn >= 100 - NEW_PERCENT {
                self.absent.push(at);
                return Ok(());
            }
        }
        self.there.push(at);
        // A version is up to a fifth shorter or a quarter longer than its file was at first.
        let bytes = bytes_of(sources, at) * worker.random.random_range(80..=125) / 100;
        let path = sources.path(at);
        let file = write_new(&path, bytes, worker)?;
        close(file, &path, worker)
    }
}

fn bytes_of(set: &FileSet, at: usize) -> u64 {
    set.file(at).map_or(0, |file| file.bytes)
}

/// A file that is not there yet, whole; open still.
fn write_new(path: &Path, bytes: u64, worker: &mut Worker<'_>) -> Result<File, Halt> {
    let mut file = worker.operation(Operation::Create, path, |_| Ok((File::create_new(path)?, 0)))?;
    worker.write_whole(&mut file, path, bytes, IO_BYTES)?;
    Ok(file)
}

fn close(file: File, path: &Path, worker: &mut Worker<'_>) -> Result<(), Halt> {
    worker.operation(Operation::Close, path, |_| Ok((drop(file), 0)))
}
