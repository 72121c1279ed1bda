//! Flows: steps that a thread takes in turn, over and over.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rand::RngExt;

use super::error::AppError;
use super::fileset::Share;
use super::operation::Operation;
use super::plan::Work;
use super::worker::{Halt, Worker};

/// One step. Sets are named by their place in the plan; sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Makes the next file of a set that is not there, and keeps it open; the thread ends where there is none and `last` says so.
    Create {
        /// The set.
        set: usize,
        /// To make all files is the thread's work.
        last: bool,
    },
    /// Opens the next file of a set that is there.
    Open {
        /// The set.
        set: usize,
    },
    /// Writes the open file, which is new, as large as its set says.
    WriteWhole {
        /// Of one write.
        io_bytes: u64,
    },
    /// Reads the open file from its start to its end.
    ReadWhole {
        /// Of one read.
        io_bytes: u64,
    },
    /// Writes a random number of bytes behind the end of the open file.
    Append {
        /// From 1 to this.
        most_bytes: u64,
    },
    /// The same, to the first file of a set, which stays open from the first time on.
    AppendToLog {
        /// The set.
        set: usize,
        /// From 1 to this.
        most_bytes: u64,
    },
    /// Makes the open file durable.
    Fsync,
    /// Closes it.
    Close,
    /// Deletes the next file of a set that is there.
    Delete {
        /// The set.
        set: usize,
    },
    /// Asks for the attributes of the next file of a set that is there.
    Stat {
        /// The set.
        set: usize,
    },
}

/// The steps of a thread, with the file that it has open.
pub struct Flow {
    steps: Vec<Step>,
    shares: BTreeMap<usize, Share>,
    open: Option<OpenFile>,
    log: Option<(File, PathBuf)>,
}

struct OpenFile {
    file: File,
    path: PathBuf,
    /// As its set says.
    bytes: u64,
}

impl Flow {
    /// A thread that takes these steps over and over.
    pub fn new(steps: &[Step]) -> Self {
        Self { steps: steps.to_vec(), shares: BTreeMap::new(), open: None, log: None }
    }

    fn step(&mut self, step: Step, worker: &mut Worker<'_>) -> Result<(), Halt> {
        match step {
            Step::Create { set, last } => match self.share(set, worker).create_next() {
                None if last => Err(Halt::Done),
                next => self.open_next(set, next, Operation::Create, worker),
            },
            Step::Open { set } => {
                let next = self.share(set, worker).next_there();
                self.open_next(set, next, Operation::Open, worker)
            }
            Step::WriteWhole { io_bytes } => {
                let OpenFile { file, path, bytes } = self.open()?;
                worker.write_whole(file, path, *bytes, io_bytes)
            }
            Step::ReadWhole { io_bytes } => {
                let OpenFile { file, path, .. } = self.open()?;
                worker.operation(Operation::Read, path, |worker| {
                    io::Seek::rewind(file)?;
                    Ok(((), read_to_end(file, io_bytes, &mut worker.buffer)?))
                })
            }
            Step::Append { most_bytes } => {
                let OpenFile { file, path, .. } = self.open()?;
                append(file, path, most_bytes, worker)
            }
            Step::AppendToLog { set, most_bytes } => {
                let (file, path) = match &mut self.log {
                    Some(log) => log,
                    log @ None => {
                        let path = set_of(worker, set)?.path(0);
                        let file =
                            worker.operation(Operation::Open, &path, |_| Ok((open_options().open(&path)?, 0)))?;
                        log.insert((file, path))
                    }
                };
                append(file, path, most_bytes, worker)
            }
            Step::Fsync => {
                let OpenFile { file, path, .. } = self.open()?;
                worker.operation(Operation::Fsync, path, |_| Ok((file.sync_all()?, 0)))
            }
            Step::Close => {
                let OpenFile { file, path, .. } = self.open.take().ok_or_else(no_open_file)?;
                worker.operation(Operation::Close, &path, |_| {
                    drop(file);
                    Ok(((), 0))
                })
            }
            Step::Delete { set } => {
                let next = self.share(set, worker).delete_next();
                let path = path_of(worker, set, next, "delete")?;
                worker.operation(Operation::Delete, &path, |_| Ok((fs::remove_file(&path)?, 0)))
            }
            Step::Stat { set } => {
                let next = self.share(set, worker).next_there();
                let path = path_of(worker, set, next, "stat")?;
                worker.operation(Operation::Stat, &path, |_| Ok((fs::metadata(&path).map(drop)?, 0)))
            }
        }
    }

    fn share(&mut self, set: usize, worker: &Worker<'_>) -> &mut Share {
        self.shares.entry(set).or_insert_with(|| match worker.sets.get(set) {
            Some(files) => files.share(worker.number, worker.threads),
            None => Share::default(),
        })
    }

    fn open(&mut self) -> Result<&mut OpenFile, Halt> {
        self.open.as_mut().ok_or_else(no_open_file)
    }

    fn open_next(
        &mut self,
        set: usize,
        next: Option<usize>,
        operation: Operation,
        worker: &mut Worker<'_>,
    ) -> Result<(), Halt> {
        let path = path_of(worker, set, next, operation.name())?;
        let bytes = next.and_then(|next| set_of(worker, set).ok()?.file(next).map(|file| file.bytes)).unwrap_or(0);
        let mut options = open_options();
        options.create_new(operation == Operation::Create);
        let file = worker.operation(operation, &path, |_| Ok((options.open(&path)?, 0)))?;
        self.open = Some(OpenFile { file, path, bytes });
        Ok(())
    }
}

impl Work for Flow {
    fn turn(&mut self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        for at in 0..self.steps.len() {
            if let Some(step) = self.steps.get(at) {
                self.step(*step, worker)?;
            }
        }
        Ok(())
    }
}

/// What is written goes behind the end, as all of these programs want it.
fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    options
}

fn no_open_file() -> Halt {
    AppError::Options("a step of this program needs an open file, and none before it opens one".to_owned()).into()
}

fn set_of<'a>(worker: &Worker<'a>, set: usize) -> Result<&'a super::fileset::FileSet, AppError> {
    worker.sets.get(set).ok_or_else(|| AppError::Options(format!("this program has no set of files {set}")))
}

fn path_of(worker: &Worker<'_>, set: usize, next: Option<usize>, what: &'static str) -> Result<PathBuf, AppError> {
    let set = set_of(worker, set)?;
    next.map(|next| set.path(next)).ok_or(AppError::Exhausted { set: set.definition.name, what })
}

fn append(file: &mut File, path: &Path, most_bytes: u64, worker: &mut Worker<'_>) -> Result<(), Halt> {
    worker.operation(Operation::Append, path, |worker| {
        let bytes = worker.random.random_range(1..=most_bytes.max(1));
        file.write_all(worker.contents.get(..bytes as usize).unwrap_or(worker.contents))?;
        Ok(((), bytes))
    })
}

/// Reads until nothing comes.
fn read_to_end(file: &mut File, io_bytes: u64, buffer: &mut [u8]) -> io::Result<u64> {
    let length = buffer.len().min(io_bytes as usize);
    let buffer = buffer.get_mut(..length).unwrap_or_default();
    let mut bytes = 0;
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
