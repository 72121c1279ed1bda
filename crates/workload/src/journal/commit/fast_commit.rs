//! Fast commits (fs/ext4/fast_commit.c): a task writes what changed into a block of an area of its own in the log, its last block with
//! PREFLUSH and FUA. One at a time is made, for everybody who waits then; when the area is full a full commit empties it.

use std::rc::Rc;

use block::BioFlags;

use super::{Lane, commit};
use crate::journal::Shared;
use crate::journal::options::FAST_COMMIT_BLOCKS;
use crate::journal::places::BLOCK_BYTES;

/// Tasks whose changes one block holds: an inode of 160 bytes, its range, a tag and a tail.
const TASKS_PER_BLOCK: u32 = 16;

/// A task's data is written: joins the running transaction, and commits it unless somebody else does.
pub(in crate::journal) async fn join(shared: &Rc<Shared>, lane: &Lane) {
    let number = {
        let mut transactions = shared.transactions.borrow_mut();
        let running = transactions.running();
        running.members += 1;
        running.number
    };
    let turn = shared.fast.lock().await;
    // Whoever had the turn before may have taken this one along.
    let taken = {
        let mut transactions = shared.transactions.borrow_mut();
        if transactions.running().number > number { None } else { transactions.take() }
    };
    let Some(transaction) = taken else { return };
    let blocks = transaction.members.div_ceil(TASKS_PER_BLOCK);
    let first = {
        let mut transactions = shared.transactions.borrow_mut();
        let first = transactions.fast_blocks;
        transactions.fast_blocks = if first + blocks > FAST_COMMIT_BLOCKS { 0 } else { first + blocks };
        (first + blocks <= FAST_COMMIT_BLOCKS).then_some(first)
    };
    let Some(first) = first else {
        // The journal's thread does the full commit of an empty area; the task sleeps meanwhile.
        commit(&Lane::new(shared, &shared.thread), transaction).await;
        drop(turn);
        return;
    };
    // The area is the last part of the log.
    let area = shared.options.log_blocks();
    let mut sent = Vec::new();
    for block in first..first + blocks {
        let is_tail = block + 1 == first + blocks;
        let flags = if is_tail { BioFlags::PREFLUSH | BioFlags::FUA } else { BioFlags::empty() };
        sent.push(lane.send(shared.places.journal(area + block), BLOCK_BYTES, flags | BioFlags::META, None).await);
    }
    for write in sent {
        lane.wait(write).await;
    }
    let mut measured = shared.measured.borrow_mut();
    measured.commits += 1;
    measured.fast_commits += 1;
    drop(turn);
}
