//! Order instead of waits: data, journal and record are on their way together, the last of the journal's blocks closes the
//! transaction's epoch and the record is in the next. What is left to wait for is one flush, after everything is accepted.

use block::{BioFlags, Closes, OrderRequest};

use super::{Lane, Log, Transaction, done};
use crate::journal::lane::Sent;
use crate::journal::places::BLOCK_BYTES;
use crate::journal::{CommitMode, JOURNAL};

pub(super) async fn commit(lane: &Lane, mut transaction: Transaction, log: Log) {
    let places = lane.shared.places;
    let order = |closes| Some(OrderRequest { owner: JOURNAL, joins: None, closes });
    let bytes = u64::from(log.blocks) * BLOCK_BYTES;
    let blocks = lane.send(places.journal(log.first), bytes, BioFlags::META, order(Closes::OWN)).await;
    let at = places.journal(log.first + log.blocks);
    let mut record = lane.send(at, BLOCK_BYTES, BioFlags::META, order(Closes::empty())).await;
    record.bio.dispatched().await;
    transaction.signals.dispatched.notify_all();
    let mut sent = std::mem::take(&mut transaction.data);
    sent.extend([blocks, record]);
    if lane.shared.options.commit == CommitMode::OrderedDual {
        let shared = lane.shared.clone();
        let flushing = async move {
            let thread = shared.flusher.lock().await;
            finish(&Lane::new(&shared, &thread), transaction, sent).await;
        };
        drop(lane.shared.host.sim.spawn_named("flusher", flushing));
    } else {
        finish(lane, transaction, sent).await;
    }
}

/// Waits until all is accepted, and flushes.
async fn finish(lane: &Lane, transaction: Transaction, sent: Vec<Sent>) {
    for write in sent {
        lane.wait(write).await;
    }
    lane.flush().await;
    done(&lane.shared, &transaction);
}
