//! What a program asks of the engine.

use std::sync::Arc;

use super::fileset::Definition;
use super::semaphore::Semaphore;
use super::worker::{Halt, Worker};

/// What one thread does, over and over.
pub trait Work: Send {
    /// One turn of the loop.
    ///
    /// # Errors
    /// [`Halt`] where the thread is to end, well or not.
    fn turn(&mut self, worker: &mut Worker<'_>) -> Result<(), Halt>;
}

/// Threads that do the same.
pub struct Role {
    /// In words, for errors.
    pub name: &'static str,
    /// How many.
    pub threads: usize,
    /// They do the run's work and end it. Others serve them, and end when these have: a limit of operations is not for them.
    pub leads: bool,
    /// What the thread of this number (from 0, in this role) does.
    pub work: Box<dyn Fn(usize) -> Box<dyn Work>>,
}

impl Role {
    /// Threads that lead.
    pub fn leading(name: &'static str, threads: usize, work: impl Fn(usize) -> Box<dyn Work> + 'static) -> Self {
        Self { name, threads, leads: true, work: Box::new(work) }
    }

    /// Threads that serve.
    pub fn serving(name: &'static str, threads: usize, work: impl Fn(usize) -> Box<dyn Work> + 'static) -> Self {
        Self { name, threads, leads: false, work: Box::new(work) }
    }
}

/// What is prepared, and what is run on it.
pub struct ProgramPlan {
    /// Sets of files; flows name them by their place here.
    pub sets: Vec<Definition>,
    /// The threads.
    pub roles: Vec<Role>,
    /// Closed when the leading threads have ended.
    pub semaphores: Vec<Arc<Semaphore>>,
    /// The largest read, in bytes.
    pub read_bytes: u64,
    /// The largest write, in bytes.
    pub write_bytes: u64,
    /// Whether the prepared files are others after a run.
    pub changes_files: bool,
}
