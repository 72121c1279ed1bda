//! What must hold of the commands that reach the device, whatever becomes of them there.

use std::collections::BTreeMap;

use nvme::{Command, Epoch, QueueId, Stream, WriteCommand};

use super::Case;
use super::host::{Meant, Role, Run};
use crate::ordering::{EpochKind, Ordering, StreamPolicyKind};

/// One stream as the device sees it.
#[derive(Default)]
struct OnWire {
    /// The latest epoch, unwrapped, and the blocks of each.
    latest: u64,
    blocks: BTreeMap<u64, u64>,
    /// The epoch whose barrier came last, and the next to come.
    closed: u64,
    queues: BTreeMap<u64, QueueId>,
}

/// The rules of the host.
pub(super) fn check(case: &Case, run: &Run) -> Result<(), String> {
    let (intent, commands) = (run.intent.borrow(), run.commands.borrow());
    let force = run.device.ordering();
    let is_streams = force.ordering == Ordering::Streams;
    let mut streams: BTreeMap<Stream, OnWire> = BTreeMap::new();
    // Of each transaction the latest epoch of its data and journal blocks, in the stream of its commit record.
    let mut latest_of: BTreeMap<(Stream, u64), u64> = BTreeMap::new();
    let mut commits = Vec::new();
    for (queue, command) in commands.iter() {
        let Command::Write(WriteCommand { range, order, .. }) = command else { continue };
        let blocks = range.start.0..range.end().0;
        let meant: Vec<&Meant> = blocks
            .clone()
            .filter_map(|block| intent.by_block.get(&block))
            .map(|write| &intent.writes[*write])
            .collect();
        let Some(first) = meant.first() else { return Err(format!("{command:?} writes what nobody wrote")) };
        // Never a merge across tuples, nor of ordered with unordered, which have no tuple whoever wrote them.
        let is_ordered = |meant: &Meant| meant.role != Role::Unordered;
        let tuple = |meant: &Meant| (meant.role == Role::Commit, meant.own, meant.transaction);
        let is_by_task = is_streams && case.streams.policy == StreamPolicyKind::Task;
        if meant.iter().any(|other| {
            is_ordered(other) != is_ordered(first)
                || is_by_task && is_ordered(first) && (tuple(other) != tuple(first) || other.role != first.role)
        }) {
            return Err(format!("{command:?} is of several epochs: {meant:?}"));
        }
        if force.device.is_none() || !is_ordered(first) {
            if order.is_ordered() || order.is_barrier() {
                return Err(format!("{command:?} has order, and should not"));
            }
            continue;
        }
        order.check().map_err(|_| format!("{command:?} contradicts itself"))?;
        if !order.is_ordered() {
            return Err(format!("{command:?} has lost its order"));
        }
        let mut epochs = Vec::new();
        for (index, (place, close)) in order.places().enumerate() {
            let stream = streams.entry(place.stream).or_default();
            // Identifiers never decrease, and no epoch is left open.
            let epoch = stream
                .latest
                .saturating_add_signed(place.epoch.since(Epoch(stream.latest as u16)).map_or(0, i64::from));
            if epoch < stream.latest {
                return Err(format!("{command:?} goes back to epoch {epoch} of {:?}", place.stream));
            }
            stream.latest = epoch;
            *stream.blocks.entry(epoch).or_default() += u64::from(range.count);
            if epoch != stream.closed && close.is_some() {
                return Err(format!("{command:?} closes epoch {epoch}, and {} is open", stream.closed));
            }
            if epoch > stream.closed {
                return Err(format!("{command:?} comes before the barrier of epoch {}", stream.closed));
            }
            stream.closed += u64::from(close.is_some());
            // An epoch goes through one hardware queue; that of a second stream follows its write's.
            let is_pinned = is_streams && case.streams.epochs == EpochKind::Pinned;
            if index == 0 && is_pinned && stream.queues.insert(epoch, *queue).is_some_and(|other| other != *queue) {
                return Err(format!("{command:?} is in {queue:?}, and others of its epoch are not"));
            }
            epochs.push((place.stream, epoch));
        }
        if is_by_task {
            // A second stream is always the journal's.
            let is_dual = epochs.len() == 2;
            if is_dual != (matches!(first.role, Role::Data { .. }) && case.joins) {
                return Err(format!("{command:?} is of {} streams and {first:?}", epochs.len()));
            }
        }
        let Some((stream, epoch)) = epochs.last().copied() else { continue };
        match first.role {
            Role::Commit => commits.push((stream, first.transaction, epoch)),
            _ => {
                let latest = latest_of.entry((stream, first.transaction)).or_default();
                *latest = epoch.max(*latest);
            }
        }
    }
    for (stream, transaction, epoch) in commits {
        if latest_of.get(&(stream, transaction)).is_some_and(|latest| *latest >= epoch) {
            return Err(format!("the record of transaction {transaction} is in epoch {epoch}, as is what it commits"));
        }
    }
    Ok(())
}
