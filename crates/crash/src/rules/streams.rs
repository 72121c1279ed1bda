//! A device that keeps the order of writes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::pending::Pending;
use super::{Ordered, Rule};
use crate::log::{Event, FlushId, WriteId};
use crate::order::arrivals::{Arrivals, Change};
use crate::write::LoggedWrite;

/// A device with a volatile write cache that keeps the order of writes which belong to streams ([`crate::order`],
/// `docs/ordering.md`): flushes, FUA and writes without order are as with [`VolatileCache`](super::VolatileCache); a write of a
/// stream is there only with everything of earlier epochs, and not before those are complete.
#[derive(Clone, Debug)]
pub struct Streams {
    block_bytes: u64,
    arrivals: Arrivals,
    /// What was submitted and is not accepted, by entry; and the entry of each name.
    waiting: BTreeMap<usize, Waiting>,
    names: BTreeMap<WriteId, usize>,
    /// What is accepted and undecided, by turn of acceptance.
    pending: Pending,
    ordered: BTreeMap<usize, Ordered>,
    turns: usize,
    /// The turn of each entry that is pending.
    turn_of: BTreeMap<usize, usize>,
    /// Stream and epoch of what later epochs wait for, and how many pending writes are of it.
    epochs: BTreeMap<(u64, u64), usize>,
    /// Turns of writes with FUA that did not complete.
    forced: BTreeSet<usize>,
    /// Of each outstanding flush, the turns that it covers.
    flushes: BTreeMap<FlushId, Vec<usize>>,
    has_narrowed: bool,
    #[cfg(test)]
    defect: Option<Defect>,
}

/// A deliberate defect, for tests.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Defect {
    /// A second stream is forgotten.
    DualDropped,
    /// A flush covers nothing.
    FlushIgnored,
    /// A write without order is of the present epoch of stream 1.
    UnorderedOrdered,
    /// A write is accepted when it comes.
    Eager,
}

#[derive(Clone, Debug)]
struct Waiting {
    write: LoggedWrite,
    fua: bool,
    ordered: Ordered,
}

impl Streams {
    /// Of a device with logical blocks of `block_bytes`, which is what hosts count.
    pub fn new(block_bytes: u32) -> Self {
        Self {
            block_bytes: u64::from(block_bytes.max(1)),
            arrivals: Arrivals::default(),
            waiting: BTreeMap::new(),
            names: BTreeMap::new(),
            pending: Pending::default(),
            ordered: BTreeMap::new(),
            turns: 0,
            turn_of: BTreeMap::new(),
            epochs: BTreeMap::new(),
            forced: BTreeSet::new(),
            flushes: BTreeMap::new(),
            has_narrowed: false,
            #[cfg(test)]
            defect: None,
        }
    }

    fn submit(&mut self, index: usize, event: &Event) -> bool {
        let Event::Write { id, offset_bytes, content, fua, order } = event else { return false };
        let write = LoggedWrite::new(index, *id, *offset_bytes, content);
        let mut waiting = Waiting { write, fua: *fua, ordered: Ordered::default() };
        #[cfg_attr(not(test), expect(unused_mut))]
        let mut order = *order;
        #[cfg(test)]
        match self.defect {
            Some(Defect::DualDropped) => order.second = crate::order::WirePlace::default(),
            Some(Defect::UnorderedOrdered) if !order.is_ordered() => order.first = self.arrivals.present(1),
            _ => {}
        }
        self.names.insert(*id, index);
        if !order.is_ordered() {
            self.waiting.insert(index, waiting);
            self.accept(index);
            return true;
        }
        let (blocks, mut changes) = (content.len_bytes() / self.block_bytes, Vec::new());
        if let Some(places) = self.arrivals.write(index, blocks, &order, &mut changes) {
            waiting.ordered.places = places;
        }
        // What the device refuses is never accepted, unless it completes after all.
        self.waiting.insert(index, waiting);
        self.change(&changes);
        #[cfg(test)]
        if self.defect == Some(Defect::Eager) {
            self.accept(index);
        }
        !changes.is_empty()
    }

    fn change(&mut self, changes: &[Change]) {
        for change in changes {
            match *change {
                Change::Accepted(entry) => self.accept(entry),
                Change::Late(entry, stream) => self.make_late(entry, stream),
            }
        }
    }

    /// A write that waits is accepted.
    fn accept(&mut self, entry: usize) {
        let Some(Waiting { write, fua, ordered }) = self.waiting.remove(&entry) else { return };
        let turn = self.turns;
        self.turns += 1;
        self.turn_of.insert(entry, turn);
        for place in ordered.places.iter().flatten().filter(|place| !place.is_late) {
            *self.epochs.entry((place.stream, place.epoch)).or_default() += 1;
        }
        if fua {
            self.forced.insert(turn);
        }
        self.pending.accept(turn, write);
        self.ordered.insert(turn, ordered);
    }

    fn make_late(&mut self, entry: usize, stream: u64) {
        let turn = self.turn_of.get(&entry);
        let waiting = self.waiting.get_mut(&entry).map(|waiting| &mut waiting.ordered);
        let Some(ordered) = waiting.or(turn.and_then(|turn| self.ordered.get_mut(turn))) else { return };
        for place in ordered.places.iter_mut().flatten().filter(|place| place.stream == stream && !place.is_late) {
            place.is_late = true;
            if turn.is_some() {
                leave(&mut self.epochs, (place.stream, place.epoch));
            }
        }
    }

    fn complete(&mut self, index: usize, id: WriteId, settled: &mut Vec<LoggedWrite>) -> bool {
        let Some(entry) = self.names.remove(&id) else { return false };
        let mut changes = Vec::new();
        self.arrivals.completed(entry, &mut changes);
        let had_waited = self.waiting.contains_key(&entry);
        self.change(&changes);
        self.accept(entry);
        let turn = self.pending.complete(index, id).filter(|turn| self.forced.remove(turn));
        self.make_durable(turn.into_iter().collect(), settled);
        turn.is_some() || had_waited || !changes.is_empty()
    }

    /// These survive every cut from now on. What has nothing undecided before it is settled.
    fn make_durable(&mut self, turns: Vec<usize>, settled: &mut Vec<LoggedWrite>) {
        for turn in &turns {
            if let Some(ordered) = self.ordered.get_mut(turn) {
                ordered.is_durable = true;
                self.has_narrowed = true;
            }
        }
        if turns.is_empty() {
            return;
        }
        loop {
            let epochs = &self.epochs;
            let is_first = |ordered: &Ordered| {
                let first =
                    |stream| epochs.range((stream, 0)..=(stream, u64::MAX)).next().map(|((_, epoch), _)| *epoch);
                ordered
                    .places
                    .iter()
                    .flatten()
                    .all(|place| first(place.stream).is_none_or(|first| place.epoch <= first))
            };
            let due = self.ordered.iter().filter(|(_, ordered)| ordered.is_durable && is_first(ordered));
            let due: Vec<usize> = due.map(|(turn, _)| *turn).collect();
            if due.is_empty() {
                return;
            }
            for turn in due {
                if let Some(ordered) = self.ordered.remove(&turn) {
                    for place in ordered.places.iter().flatten().filter(|place| !place.is_late) {
                        leave(&mut self.epochs, (place.stream, place.epoch));
                    }
                }
                let before = settled.len();
                self.pending.settle(turn, settled);
                for write in settled.iter().skip(before) {
                    self.turn_of.remove(&write.entry);
                }
            }
        }
    }
}

/// One write fewer is of this epoch.
fn leave(epochs: &mut BTreeMap<(u64, u64), usize>, epoch: (u64, u64)) {
    if let Some(writes) = epochs.get_mut(&epoch) {
        *writes -= 1;
        if *writes == 0 {
            epochs.remove(&epoch);
        }
    }
}

impl Rule for Streams {
    fn step(&mut self, index: usize, event: &Event, settled: &mut Vec<LoggedWrite>) -> bool {
        self.has_narrowed = false;
        match event {
            Event::Write { .. } => self.submit(index, event),
            Event::Completed(id) => self.complete(index, *id, settled),
            Event::FlushSubmitted(flush) => {
                self.flushes.insert(*flush, self.pending.completed());
                false
            }
            Event::FlushCompleted(flush) => {
                let covered = self.flushes.remove(flush).unwrap_or_default();
                #[cfg(test)]
                let covered = if self.defect == Some(Defect::FlushIgnored) { Vec::new() } else { covered };
                self.make_durable(covered, settled);
                true
            }
            Event::StreamOpened { stream, first } => {
                self.arrivals.open(*stream, *first);
                false
            }
            Event::StreamClosed(stream) => {
                self.arrivals.close(*stream);
                false
            }
            Event::Mark(_) => false,
        }
    }

    fn undecided(&self) -> Vec<&LoggedWrite> {
        self.pending.undecided()
    }

    fn order(&self) -> Option<Vec<Ordered>> {
        Some(self.ordered.values().copied().collect())
    }

    fn has_narrowed(&self) -> bool {
        self.has_narrowed
    }
}
