//! Transactions: who waits for one, and where in the log it goes.

use std::rc::Rc;

use sim::sync::Notify;

use super::lane::Sent;

/// A transaction (`struct transaction_s`).
pub(super) struct Transaction {
    /// Counted from 0.
    pub number: u64,
    /// Tasks whose inodes it has.
    pub members: u32,
    /// Data that nobody has waited for: it must be there before the flush.
    pub data: Vec<Sent>,
    /// Its record has gone to the device, and everything is durable.
    pub signals: Rc<Signals>,
}

/// What a transaction tells those who wait for it.
#[derive(Default)]
pub(super) struct Signals {
    pub dispatched: Notify,
    pub done: Notify,
}

/// The running transaction and the log.
#[derive(Default)]
pub(super) struct Transactions {
    running: Option<Transaction>,
    /// Transactions begun, and fast commits since the last full one.
    begun: u64,
    pub fast_blocks: u32,
    /// The next block of the log, and blocks in use since the log last began.
    head: u32,
    used: u32,
    /// Tasks whose inodes are in the log and not at home: as many as ever were in one transaction.
    pub dirty_inodes: u32,
}

impl Transactions {
    /// The transaction that takes changes now.
    pub fn running(&mut self) -> &mut Transaction {
        let begun = &mut self.begun;
        self.running.get_or_insert_with(|| {
            *begun += 1;
            Transaction { number: *begun - 1, members: 0, data: Vec::new(), signals: Rc::default() }
        })
    }

    /// Takes the running transaction to commit it: further changes are of the next.
    pub fn take(&mut self) -> Option<Transaction> {
        let taken = self.running.take_if(|running| running.members > 0)?;
        self.dirty_inodes = self.dirty_inodes.max(taken.members);
        Some(taken)
    }

    /// Whether so many blocks fit in three quarters of a log.
    pub fn has_room(&self, blocks: u32, journal_blocks: u32) -> bool {
        self.used + blocks <= journal_blocks / 4 * 3
    }

    /// Blocks of the log, in one piece: where they begin. What is left at its end stays unused.
    pub fn allocate(&mut self, blocks: u32, journal_blocks: u32) -> u32 {
        if self.head + blocks > journal_blocks {
            self.used += journal_blocks - self.head;
            self.head = 0;
        }
        let first = self.head;
        self.head += blocks;
        self.used += blocks;
        first
    }

    /// Everything in the log is at home.
    pub fn checkpointed(&mut self) {
        self.used = 0;
    }
}
