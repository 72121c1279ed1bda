//! The journal's thread and the ways to commit: one a file.

mod async_commit;
pub(super) mod fast_commit;
pub(super) mod ordered;
mod stock;

use std::rc::Rc;

use block::BioFlags;

use super::lane::Lane;
use super::places::BLOCK_BYTES;
use super::transaction::Transaction;
use super::{CommitMode, Shared};

/// Whether data and journal go in order instead of being waited for.
pub(super) fn is_ordered(mode: CommitMode) -> bool {
    matches!(mode, CommitMode::Ordered | CommitMode::OrderedDual)
}

/// The journal's thread (kjournald2): commits the running transaction whenever somebody wants it.
pub(super) async fn thread(shared: Rc<Shared>) {
    let lane = Lane::new(&shared, &shared.thread);
    loop {
        let wanted = shared.wanted.notified();
        let taken = shared.transactions.borrow_mut().take();
        match taken {
            Some(transaction) => commit(&lane, transaction).await,
            None if shared.measured.borrow().has_ended() => return,
            None => wanted.await,
        }
    }
}

/// Commits a transaction (jbd2_journal_commit_transaction).
async fn commit(lane: &Lane, transaction: Transaction) {
    let shared = &lane.shared;
    let blocks = journal_blocks(shared, &transaction);
    let journal = shared.options.log_blocks();
    if !shared.transactions.borrow().has_room(blocks + 1, journal) {
        checkpoint(lane).await;
    }
    let first = shared.transactions.borrow_mut().allocate(blocks + 1, journal);
    let log = Log { first, blocks };
    match shared.options.commit {
        CommitMode::Stock | CommitMode::FastCommit => stock::commit(lane, transaction, log).await,
        CommitMode::AsyncCommit => async_commit::commit(lane, transaction, log).await,
        CommitMode::Ordered | CommitMode::OrderedDual => ordered::commit(lane, transaction, log).await,
    }
}

/// Where a transaction is in the log: descriptor and metadata, and the record behind them.
#[derive(Clone, Copy)]
struct Log {
    first: u32,
    blocks: u32,
}

/// Descriptor and metadata of a transaction, in blocks.
fn journal_blocks(shared: &Shared, transaction: &Transaction) -> u32 {
    1 + shared.options.metadata_blocks.get() + transaction.members.saturating_sub(1)
}

/// A transaction is durable.
fn done(shared: &Shared, transaction: &Transaction) {
    shared.measured.borrow_mut().commits += 1;
    transaction.signals.dispatched.notify_all();
    transaction.signals.done.notify_all();
}

/// Writes metadata home, so that the log can begin again (jbd2_log_do_checkpoint, jbd2_update_log_tail): the tail moves only when
/// what it leaves behind is durable.
async fn checkpoint(lane: &Lane) {
    let shared = &lane.shared;
    let inodes = shared.transactions.borrow().dirty_inodes;
    let mut writes = Vec::new();
    for block in 0..shared.options.metadata_blocks.get() + inodes {
        writes.push(lane.send(shared.places.home(block), BLOCK_BYTES, BioFlags::META, None).await);
    }
    for write in writes {
        lane.wait(write).await;
    }
    lane.flush().await;
    lane.write(shared.places.superblock(), BLOCK_BYTES, BioFlags::META | BioFlags::FUA).await;
    shared.transactions.borrow_mut().checkpointed();
    shared.measured.borrow_mut().checkpoints += 1;
}
