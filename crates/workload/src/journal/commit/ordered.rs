//! Order instead of waits: data, journal and record are on their way together, the last of the journal's blocks closes the
//! transaction's epoch and the record is in the next. What is left to wait for is one flush, after everything is accepted.

use block::{BioFlags, Closes, OrderRequest};

use super::{Lane, Log, Transaction, done};
use crate::journal::lane::Sent;
use crate::journal::places::BLOCK_BYTES;
use crate::journal::{CommitMode, JOURNAL};

/// A transaction that has gone to the device and is not durable.
pub(in crate::journal) struct Committing {
    transaction: Transaction,
    sent: Vec<Sent>,
}

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
    if lane.shared.options.commit != CommitMode::OrderedDual {
        return finish(lane, vec![Committing { transaction, sent }]).await;
    }
    let shared = lane.shared.clone();
    shared.committing.borrow_mut().push(Committing { transaction, sent });
    let flushing = async move {
        let thread = shared.flusher.lock().await;
        // Whoever had the turn before may have taken this one along.
        let committing = shared.committing.take();
        if !committing.is_empty() {
            finish(&Lane::new(&shared, &thread), committing).await;
        }
    };
    drop(lane.shared.host.sim.spawn_named("flusher", flushing));
}

/// Waits until all is accepted, and flushes.
async fn finish(lane: &Lane, mut committing: Vec<Committing>) {
    for write in committing.iter_mut().flat_map(|one| one.sent.drain(..)) {
        lane.wait(write).await;
    }
    lane.flush().await;
    for one in committing {
        done(&lane.shared, &one.transaction);
    }
}
