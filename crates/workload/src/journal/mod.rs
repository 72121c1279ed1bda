//! The journal of ext4 (fs/jbd2) as the block layer sees it: tasks write blocks of files and wait until they are committed.
//!
//! There is no file system here. What counts is which writes, flushes and waits an fsync consists of, in which order and by whom,
//! after Linux 6.12 (fs/ext4/fsync.c, fs/jbd2/commit.c, fs/ext4/fast_commit.c):
//!
//! 1. A task writes a block of its file and calls fsync, which sends the data (D), as the mode says waits for it, joins the running
//!    transaction and sleeps.
//! 2. The journal's thread takes the running transaction with everybody who joined meanwhile (group commit), and commits it as one
//!    of the files in `commit` says: descriptor and metadata (JD), commit record (JC), flushes. Fast commits are made by the tasks
//!    themselves, one at a time.
//! 3. Where the log is nearly full, metadata is written home and the log begins again.
//!
//! Processor time is that of the [`Host`]: system calls, switches between threads, submission and completion of I/O.

mod commit;
mod lane;
mod options;
mod places;
mod report;
mod task;
mod transaction;

use std::cell::RefCell;
use std::rc::Rc;

use block::Owner;
use sim::cpu::Thread;
use sim::sync::{Mutex, Notify};

pub use options::{CommitMode, JournalOptions, SyncCall};
pub use report::JournalReport;

use crate::Host;
use places::Places;
use report::Measured;
use transaction::Transactions;

/// The journal's thread: its stream is its own, and it is of the root control group.
const JOURNAL: Owner = Owner { task: u32::MAX, cgroup: 0 };

/// Why the journal cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The device is too small.
    #[error(
        "the files and the journal take {needed_bytes} bytes, and the device has less: take fewer tasks or a smaller journal"
    )]
    TooSmall {
        /// What they take.
        needed_bytes: u64,
    },
    /// Files are written in place.
    #[error("a file system that writes in place does not run on a zoned device: take another device")]
    Zoned,
    /// A transaction would not fit.
    #[error("a transaction of all {tasks} tasks does not fit in a quarter of the journal's {journal_blocks} blocks")]
    JournalTooSmall {
        /// Tasks.
        tasks: u32,
        /// The journal's size.
        journal_blocks: u32,
    },
    /// Data in one write.
    #[error("workload.journal.data_blocks is {blocks}; a file has 1024")]
    DataBlocks {
        /// What was asked for.
        blocks: u32,
    },
}

/// What the tasks and the journal share.
pub(crate) struct Shared {
    host: Host,
    options: JournalOptions,
    places: Places,
    transactions: RefCell<Transactions>,
    /// Somebody wants the running transaction committed.
    wanted: Notify,
    /// The journal's thread, and BarrierFS's second one.
    thread: Rc<Thread>,
    flusher: Mutex<Rc<Thread>>,
    /// What the second one has to flush.
    committing: RefCell<Vec<commit::ordered::Committing>>,
    /// Who makes a fast commit.
    fast: Mutex<()>,
    measured: RefCell<Measured>,
}

/// Tasks and a journal under way. Run the executor, then ask for the report.
#[must_use = "run the executor, then finish"]
pub struct Journal {
    shared: Rc<Shared>,
}

impl Journal {
    /// Starts the tasks and the journal's thread.
    ///
    /// # Errors
    ///
    /// What does not fit on the device or in the journal.
    pub fn start(host: &Host, options: &JournalOptions) -> Result<Self, JournalError> {
        let limits = host.disk.limits();
        if limits.zoned.is_some() {
            return Err(JournalError::Zoned);
        }
        let (tasks, journal_blocks) = (options.tasks.get(), options.journal_blocks.get());
        if options.data_blocks.get() > 1024 {
            return Err(JournalError::DataBlocks { blocks: options.data_blocks.get() });
        }
        let largest = u64::from(options.metadata_blocks.get()) + u64::from(tasks) + 2;
        if largest > u64::from(options.log_blocks() / 4) {
            return Err(JournalError::JournalTooSmall { tasks, journal_blocks });
        }
        let places = Places::new(options, &limits).map_err(|needed_bytes| JournalError::TooSmall { needed_bytes })?;
        let shared = Rc::new(Shared {
            host: host.clone(),
            options: options.clone(),
            places,
            transactions: RefCell::new(Transactions::default()),
            wanted: Notify::default(),
            thread: Rc::new(host.cpus.thread("journal", None)),
            flusher: Mutex::new(Rc::new(host.cpus.thread("flusher", None))),
            committing: RefCell::default(),
            fast: Mutex::new(()),
            measured: RefCell::new(Measured::new(host.sim.now(), tasks)),
        });
        for number in 0..tasks {
            host.sim.spawn_named("task", task::run(shared.clone(), number));
        }
        if options.commit != CommitMode::FastCommit {
            host.sim.spawn_named("journal", commit::thread(shared.clone()));
        }
        Ok(Self { shared })
    }

    /// The result, once the executor has nothing left to run.
    pub fn finish(self) -> JournalReport {
        let order = self.shared.host.disk.order_statistics();
        self.shared.measured.borrow().report(&self.shared.options, self.shared.host.disk.ordering(), order)
    }

    /// How much of what was asked for is done, from 0 to 1.
    pub fn progress(&self) -> f64 {
        let asked = u64::from(self.shared.options.tasks.get()) * u64::from(self.shared.options.calls.get());
        self.shared.measured.borrow().calls() as f64 / asked as f64
    }
}
