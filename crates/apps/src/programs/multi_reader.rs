//! Threads that read large files side by side, as the microbenchmark of CrossPrefetch (ASPLOS '24, figure 5).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use clap::{Args, ValueEnum};
use memmap2::Mmap;
use rand::seq::SliceRandom;
use serde::Serialize;
use units::ByteSize;

use super::{Program, arguments};
use crate::engine::fileset::{Definition, Shape, Sizes};
use crate::engine::{AppError, Halt, Operation, ProgramPlan, Role, Work, Worker};

#[derive(Args, Serialize)]
pub(super) struct MultiReader {
    /// Size of all files together
    #[arg(long, value_name = "SIZE", default_value = "16g")]
    size: ByteSize,
    /// What the threads share
    #[arg(long, value_enum, default_value_t = Share::File)]
    share: Share,
    /// In which order each thread reads its part
    #[arg(long, value_enum, default_value_t = Pattern::Sequential)]
    pattern: Pattern,
    /// Bytes of one read
    #[arg(long, value_name = "SIZE", default_value = "64k", value_parser = arguments::io_size)]
    io_size: ByteSize,
    /// Bytes left out between two reads, where the pattern is strided
    #[arg(long, value_name = "SIZE", default_value = "256k")]
    stride: ByteSize,
    /// Copy pieces out of mappings of the files instead of reading them
    #[arg(long)]
    mapped: bool,
    /// Threads
    #[arg(long, value_name = "N", default_value = "16", value_parser = arguments::threads)]
    threads: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, ValueEnum, Debug)]
#[serde(rename_all = "kebab-case")]
enum Share {
    /// One file with one descriptor; each thread reads a part of its own
    Descriptor,
    /// One file, and a descriptor for each thread; each reads a part of its own
    File,
    /// Each thread has a file of its own
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, ValueEnum, Debug)]
#[serde(rename_all = "kebab-case")]
enum Pattern {
    /// From the start to the end
    Sequential,
    /// Each piece once, in an order drawn at random
    Random,
    /// From the start to the end, leaving something out after each read
    Strided,
    /// From the end to the start
    Backward,
}

impl Program for MultiReader {
    const NAME: &'static str = "multi-reader";
    const ABOUT: &'static str =
        "Threads that read large files side by side, in one of four patterns (after CrossPrefetch)";
    const EXAMPLES: &'static str = "Examples:
  plumb app multi-reader --size 1g --json                                                 # one file, in order
  plumb app multi-reader --size 200g --share nothing --pattern random --io-size 2m
  plumb app multi-reader --prepare --size 1g                                              # the files, then the same
  plumb app multi-reader --run --size 1g --pattern strided --share descriptor             # files in other ways
  plumb app multi-reader --run --size 1g --pattern random --mapped --io-size 16k

It ends when each thread has read its part once.";
    const SECONDS: Option<u64> = None;

    fn plan(&self) -> Result<ProgramPlan, AppError> {
        let part_bytes = self.size.0 / self.threads as u64;
        let io_bytes = self.io_size.0;
        if part_bytes < io_bytes {
            return Err(AppError::Options(format!(
                "--size {} is less than one read of {} for each of {} threads",
                self.size, self.io_size, self.threads
            )));
        }
        // Each part is whole reads.
        let part_bytes = part_bytes / io_bytes * io_bytes;
        let own_file = self.share == Share::Nothing;
        let (files, file_bytes) =
            if own_file { (self.threads as u64, part_bytes) } else { (1, part_bytes * self.threads as u64) };
        let (pattern, skip_bytes, share, is_mapped) = (self.pattern, self.stride.0, self.share, self.mapped);
        let one = Arc::new(Mutex::new(None));
        let reader = move |number: usize| -> Box<dyn Work> {
            Box::new(Reader {
                file: number * usize::from(own_file),
                start: if own_file { 0 } else { part_bytes * number as u64 },
                part_bytes,
                io_bytes,
                pattern,
                step_bytes: if pattern == Pattern::Strided { io_bytes.saturating_add(skip_bytes) } else { io_bytes },
                shared: (share == Share::Descriptor).then(|| one.clone()),
                is_mapped,
                state: None,
            })
        };
        Ok(ProgramPlan {
            sets: vec![Definition {
                name: "files",
                files,
                sizes: Sizes { mean_bytes: file_bytes, gamma: 0.0 },
                shape: Shape::ByShare,
                prepared_percent: 100,
                shares: files as usize,
                least_a_share: 0,
                compressible_percent: 0,
            }],
            roles: vec![Role::leading("reader", self.threads, reader)],
            semaphores: Vec::new(),
            read_bytes: io_bytes,
            write_bytes: 0,
            changes_files: false,
        })
    }
}

/// The descriptor that all threads read from, once the first of them has opened it.
type Shared = Arc<Mutex<Option<Arc<File>>>>;

struct Reader {
    /// Which one of the set.
    file: usize,
    start: u64,
    part_bytes: u64,
    io_bytes: u64,
    step_bytes: u64,
    pattern: Pattern,
    shared: Option<Shared>,
    is_mapped: bool,
    state: Option<Reading>,
}

/// A thread's file and what is left to read of it.
struct Reading {
    file: Arc<File>,
    mapping: Option<Mmap>,
    path: PathBuf,
    offsets: Box<dyn Iterator<Item = u64> + Send>,
}

impl Reader {
    fn begin(&self, worker: &mut Worker<'_>) -> Result<Reading, Halt> {
        let Some(set) = worker.sets.first() else { return Err(Halt::Done) };
        let path = set.path(self.file);
        let file = match &self.shared {
            None => worker.operation(Operation::Open, &path, |_| Ok((Arc::new(File::open(&path)?), 0)))?,
            // Who comes first opens it. That is none of that thread's operations, so that each does the same in every run.
            Some(shared) => {
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match &*shared {
                    Some(file) => file.clone(),
                    None => shared.insert(Arc::new(File::open(&path).map_err(AppError::io("open", &path))?)).clone(),
                }
            }
        };
        // Each thread maps all of it, as the study's program does.
        let mapping = self.is_mapped.then(|| map(&file)).transpose().map_err(AppError::io("map", &path))?;
        let (start, step_bytes) = (self.start, self.step_bytes);
        // The last one ends within the part.
        let count = (self.part_bytes - self.io_bytes) / step_bytes + 1;
        let place = move |piece: u64| start + piece * step_bytes;
        let offsets: Box<dyn Iterator<Item = u64> + Send> = match self.pattern {
            Pattern::Sequential | Pattern::Strided => Box::new((0..count).map(place)),
            Pattern::Backward => Box::new((0..count).rev().map(place)),
            Pattern::Random => {
                let mut pieces: Vec<u64> = (0..count).collect();
                pieces.shuffle(&mut worker.random);
                Box::new(pieces.into_iter().map(place))
            }
        };
        Ok(Reading { file, mapping, path, offsets })
    }
}

impl Work for Reader {
    fn turn(&mut self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        let reading = match &mut self.state {
            Some(reading) => reading,
            None => {
                let reading = self.begin(worker)?;
                self.state.insert(reading)
            }
        };
        let Some(offset) = reading.offsets.next() else { return Err(Halt::Done) };
        let (file, mapping) = (&reading.file, &reading.mapping);
        worker.operation(Operation::Read, &reading.path, |worker| {
            match mapping {
                Some(mapping) => copy_piece(mapping, &mut worker.buffer, offset)?,
                None => file.read_exact_at(&mut worker.buffer, offset)?,
            }
            Ok(((), worker.buffer.len() as u64))
        })?;
        worker.see_buffer(self.file, offset);
        Ok(())
    }
}

fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: nothing is concluded from the bytes, which are copied and forgotten; a file that another program makes shorter
    // meanwhile ends this one by a signal, as it would end any that reads a mapping.
    unsafe { Mmap::map(file) }
}

fn copy_piece(mapping: &Mmap, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let from = usize::try_from(offset).ok().and_then(|from| mapping.get(from..from.checked_add(buffer.len())?));
    buffer.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}
