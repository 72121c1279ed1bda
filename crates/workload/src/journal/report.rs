//! What the tasks measured.

use block::{OrderStatistics, OrderingInForce};
use nvme::Status;
use stats::Histogram;
use units::Nanos;

use super::JournalOptions;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct JournalReport {
    /// How long each call took.
    pub calls: Histogram,
    /// From the first call to the end of the last.
    pub runtime: Nanos,
    /// Transactions committed, and fast commits.
    pub commits: u64,
    /// Fast commits among them.
    pub fast_commits: u64,
    /// Times the metadata was written home.
    pub checkpoints: u64,
    /// Writes that failed, and how the first did.
    pub failures: u64,
    /// How the first of them failed.
    pub first_failure: Option<Status>,
    /// Tasks that were not done.
    pub unfinished: u32,
    /// How the queue kept order.
    pub ordering: OrderingInForce,
    /// What it did for that.
    pub order: OrderStatistics,
    /// Bytes that the tasks wrote.
    pub data_bytes: u64,
}

/// What is measured while the tasks run.
pub(super) struct Measured {
    calls: Histogram,
    began: Nanos,
    last_end: Nanos,
    tasks_left: u32,
    pub commits: u64,
    pub fast_commits: u64,
    pub checkpoints: u64,
    failures: u64,
    first_failure: Option<Status>,
}

impl Measured {
    pub fn new(began: Nanos, tasks: u32) -> Self {
        Self {
            calls: Histogram::new(),
            began,
            last_end: began,
            tasks_left: tasks,
            commits: 0,
            fast_commits: 0,
            checkpoints: 0,
            failures: 0,
            first_failure: None,
        }
    }

    pub fn called(&mut self, took: Nanos, now: Nanos) {
        self.calls.record(took);
        self.last_end = now;
    }

    pub fn calls(&self) -> u64 {
        self.calls.count()
    }

    pub fn task_ended(&mut self) {
        self.tasks_left -= 1;
    }

    pub fn has_ended(&self) -> bool {
        self.tasks_left == 0
    }

    pub fn failed(&mut self, status: Status) {
        self.failures += 1;
        self.first_failure.get_or_insert(status);
    }

    pub fn report(&self, options: &JournalOptions, ordering: OrderingInForce, order: OrderStatistics) -> JournalReport {
        JournalReport {
            calls: self.calls.clone(),
            runtime: self.last_end.since(self.began),
            commits: self.commits,
            fast_commits: self.fast_commits,
            checkpoints: self.checkpoints,
            failures: self.failures,
            first_failure: self.first_failure,
            unfinished: self.tasks_left,
            ordering,
            order,
            data_bytes: self.calls.count() * u64::from(options.data_blocks.get()) * super::places::BLOCK_BYTES,
        }
    }
}
