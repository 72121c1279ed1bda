//! One thread at work: its files, its random numbers, its limits, and what it has measured.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use sim::rng::Rng;

use super::error::AppError;
use super::fileset::FileSet;
use super::operation::Operation;
use super::statistics::Statistics;

/// Why a thread ends.
#[derive(Debug)]
pub enum Halt {
    /// It has done what it was to do, or the run is over.
    Done,
    /// It cannot go on.
    Failed(AppError),
}

impl From<AppError> for Halt {
    fn from(error: AppError) -> Self {
        Self::Failed(error)
    }
}

/// What a thread works with.
pub struct Worker<'a> {
    /// Its number in its role, from 0.
    pub number: usize,
    /// How many threads its role has.
    pub threads: usize,
    /// The sets of the plan.
    pub sets: &'a [FileSet],
    /// Its random numbers.
    pub random: Rng,
    /// What it reads goes here; as large as the plan's largest read.
    pub buffer: Vec<u8>,
    /// What is written: random bytes, as many as the plan's largest write.
    pub contents: &'a [u8],
    pub(super) statistics: Statistics,
    pub(super) operations_left: u64,
    pub(super) deadline: Option<Instant>,
    pub(super) stop: &'a AtomicBool,
}

impl Worker<'_> {
    /// Whether there is something left to do.
    pub(super) fn goes_on(&self) -> bool {
        self.operations_left > 0
            && !self.stop.load(Ordering::Relaxed)
            && self.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// One operation on the file at `path`, counted and timed; `act` returns what came of it and how many bytes it was.
    ///
    /// # Errors
    /// [`Halt::Done`] where the run is over, before anything is done; [`Halt::Failed`] where `act` fails.
    pub fn operation<T>(
        &mut self,
        operation: Operation,
        path: &Path,
        act: impl FnOnce(&mut Self) -> io::Result<(T, u64)>,
    ) -> Result<T, Halt> {
        if operation.is_io() {
            if !self.goes_on() {
                return Err(Halt::Done);
            }
            self.operations_left -= 1;
        }
        let start = Instant::now();
        let (value, bytes) = act(self).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => AppError::Gone { what: operation.name(), path: path.to_owned() },
            _ => AppError::io(operation.name(), path)(error),
        })?;
        self.statistics.record(operation, bytes, start.elapsed());
        Ok(value)
    }

    /// What was read or written at a place of a file, by the number that the program gives it, goes into the report's sum.
    pub fn see(&mut self, file: usize, offset: u64, bytes: &[u8]) {
        self.statistics.see(file, offset, bytes);
    }

    /// The same of what is in its buffer.
    pub fn see_buffer(&mut self, file: usize, offset: u64) {
        self.statistics.see(file, offset, &self.buffer);
    }

    /// Writes that much to a file, so much at a time: one operation.
    ///
    /// # Errors
    /// As [`operation`](Self::operation) says.
    pub fn write_whole(&mut self, file: &mut File, path: &Path, bytes: u64, io_bytes: u64) -> Result<(), Halt> {
        self.operation(Operation::Write, path, |worker| {
            let mut left = bytes;
            while left > 0 {
                let piece = worker.contents.get(..left.min(io_bytes.max(1)) as usize).unwrap_or(worker.contents);
                file.write_all(piece)?;
                left -= piece.len() as u64;
            }
            Ok(((), bytes))
        })
    }
}
