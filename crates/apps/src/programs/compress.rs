//! Threads that compress folders of files, after CrossPrefetch (ASPLOS '24, figure 9b).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use units::ByteSize;

use super::{Program, arguments};
use crate::engine::fileset::{Definition, Shape, Sizes};
use crate::engine::{AppError, Halt, Operation, ProgramPlan, Role, Work, Worker};

#[derive(Args, Serialize)]
pub(super) struct Compress {
    /// Files of each thread, in a folder of its own
    #[arg(long, value_name = "N", default_value = "100", value_parser = arguments::files)]
    files: u64,
    /// Size of each
    #[arg(long, value_name = "SIZE", default_value = "140000k")]
    file_size: ByteSize,
    /// Bytes that are read and compressed in one piece
    #[arg(long, value_name = "SIZE", default_value = "1m", value_parser = arguments::io_size)]
    io_size: ByteSize,
    /// How much of the files a compressor can do without, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    compressible: u8,
    /// Threads
    #[arg(long, value_name = "N", default_value = "32", value_parser = arguments::threads)]
    threads: usize,
}

const INPUT: usize = 0;
const OUTPUT: usize = 1;

impl Program for Compress {
    const NAME: &'static str = "compress";
    const ABOUT: &'static str = "Threads that compress folders of files with Snappy (after CrossPrefetch)";
    const EXAMPLES: &'static str = "Examples:
  plumb app compress --threads 4 --files 10 --file-size 16m --json
  plumb app compress --prepare --threads 4 --files 10 --file-size 16m
  plumb app compress --run --threads 4 --files 10 --file-size 16m --io-size 64k

It ends when each thread has compressed its files. An output is a row of pieces: the length of the compressed piece, that of what it
was (each 4 bytes, little endian), and the Snappy block.";
    const SECONDS: Option<u64> = None;

    fn plan(&self) -> Result<ProgramPlan, AppError> {
        let files =
            self.files.checked_mul(self.threads as u64).filter(|files| *files <= arguments::MOST_FILES).ok_or_else(
                || AppError::Options(format!("more than {} files in all; ask for fewer", arguments::MOST_FILES)),
            )?;
        let input = Definition {
            name: "in",
            files,
            sizes: Sizes { mean_bytes: self.file_size.0, gamma: 0.0 },
            shape: Shape::ByShare,
            prepared_percent: 100,
            shares: self.threads,
            least_a_share: 1,
            compressible_percent: self.compressible,
        };
        let output = Definition { name: "out", prepared_percent: 0, ..input.clone() };
        let (own, io_bytes) = (self.files as usize, self.io_size.0);
        let work = move |_| -> Box<dyn Work> {
            Box::new(Compressor { done: 0, own, output: Vec::new(), encoder: snap::raw::Encoder::new() })
        };
        Ok(ProgramPlan {
            sets: vec![input, output],
            roles: vec![Role::leading("compressor", self.threads, work)],
            semaphores: Vec::new(),
            read_bytes: io_bytes,
            write_bytes: 0,
            changes_files: true,
        })
    }
}

struct Compressor {
    done: usize,
    own: usize,
    output: Vec<u8>,
    encoder: snap::raw::Encoder,
}

impl Work for Compressor {
    /// One file.
    fn turn(&mut self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        if self.done >= self.own {
            return Err(Halt::Done);
        }
        let at = worker.number + self.done * worker.threads;
        let (Some(from), Some(to)) = (path(worker, INPUT, at), path(worker, OUTPUT, at)) else {
            return Err(Halt::Done);
        };
        self.done += 1;
        let mut input = worker.operation(Operation::Open, &from, |_| Ok((File::open(&from)?, 0)))?;
        let mut new = OpenOptions::new();
        new.write(true).create_new(true);
        let mut output = worker.operation(Operation::Create, &to, |_| Ok((new.open(&to)?, 0)))?;
        let mut offset = 0;
        while self.piece(&mut input, &from, &mut output, &to, worker)? {
            worker.see(at, offset, &self.output);
            offset += self.output.len() as u64;
        }
        worker.operation(Operation::Close, &to, |_| Ok((drop(output), 0)))?;
        worker.operation(Operation::Close, &from, |_| Ok((drop(input), 0)))
    }
}

impl Compressor {
    /// One piece; `false` where there was none left.
    fn piece(
        &mut self,
        input: &mut File,
        from: &Path,
        output: &mut File,
        to: &Path,
        worker: &mut Worker<'_>,
    ) -> Result<bool, Halt> {
        let length = worker.operation(Operation::Read, from, |worker| {
            let length = fill(input, &mut worker.buffer)?;
            Ok((length, length as u64))
        })?;
        if length == 0 {
            return Ok(false);
        }
        let (compressed, encoder) = (&mut self.output, &mut self.encoder);
        worker.operation(Operation::Compress, from, |worker| {
            let raw = worker.buffer.get(..length).unwrap_or_default();
            compressed.resize(8 + snap::raw::max_compress_len(length), 0);
            let block = compressed.get_mut(8..).unwrap_or_default();
            let bytes = encoder.compress(raw, block).map_err(io::Error::other)?;
            compressed.truncate(8 + bytes);
            let header = [(bytes as u32).to_le_bytes(), (length as u32).to_le_bytes()].concat();
            if let Some(place) = compressed.get_mut(..8) {
                place.copy_from_slice(&header);
            }
            Ok(((), length as u64))
        })?;
        worker.operation(Operation::Write, to, |_| {
            output.write_all(compressed)?;
            Ok(((), compressed.len() as u64))
        })?;
        Ok(true)
    }
}

fn path(worker: &Worker<'_>, set: usize, at: usize) -> Option<PathBuf> {
    let set = worker.sets.get(set)?;
    (at < set.len()).then(|| set.path(at))
}

/// Reads until the buffer is full or nothing comes.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
