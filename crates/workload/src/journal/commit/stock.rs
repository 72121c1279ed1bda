//! The default, `data=ordered`: each step waits for the one before it. Whoever called fsync has waited for the data.

use block::BioFlags;

use super::{Lane, Log, Transaction, done};
use crate::journal::places::BLOCK_BYTES;

pub(super) async fn commit(lane: &Lane, transaction: Transaction, log: Log) {
    let places = lane.shared.places;
    // Descriptor and metadata leave a plug as one write.
    lane.write(places.journal(log.first), u64::from(log.blocks) * BLOCK_BYTES, BioFlags::META).await;
    let record = BioFlags::META | BioFlags::PREFLUSH | BioFlags::FUA;
    lane.write(places.journal(log.first + log.blocks), BLOCK_BYTES, record).await;
    done(&lane.shared, &transaction);
}
