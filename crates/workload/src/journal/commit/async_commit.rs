//! `journal_async_commit,data=writeback`: the record goes with the journal's blocks, since its checksum tells whether they are all
//! there, and one flush comes after them.

use block::BioFlags;

use super::{Lane, Log, Transaction, done};
use crate::journal::places::BLOCK_BYTES;

pub(super) async fn commit(lane: &Lane, transaction: Transaction, log: Log) {
    let places = lane.shared.places;
    let bytes = u64::from(log.blocks) * BLOCK_BYTES;
    let blocks = lane.send(places.journal(log.first), bytes, BioFlags::META, None).await;
    let record = lane.send(places.journal(log.first + log.blocks), BLOCK_BYTES, BioFlags::META, None).await;
    lane.wait(blocks).await;
    lane.wait(record).await;
    lane.flush().await;
    done(&lane.shared, &transaction);
}
