//! What a device that keeps the order of writes may leave: the rules of `docs/ordering.md`.
//!
//! An [`OrderedLog`] has the writes in the order in which the device accepted them, each with the epochs that it belongs to, and
//! what the device has promised: acknowledgements, flushes, FUA. [`OrderedLog::check`] says whether what is visible after a cut is
//! legal, [`OrderedLog::legal_states`] lists everything that is, and [`OrderedLog::survivors`] takes a legal state by lot.
//!
//! Epochs are counted without wrapping here, and a stream that is opened again is another stream. What a write says on the wire is
//! an [`OrderTuple`]; [`crate::Streams`] reads a log of them.

pub(crate) mod arrivals;
mod states;
mod tuple;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub use tuple::{Closing, OrderTuple, WirePlace};

/// An epoch that a write belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EpochId {
    /// The stream, of all that were ever opened.
    pub stream: u64,
    /// Its epoch, counted from the stream's first.
    pub epoch: u64,
    /// The write came when its epoch had been closed by arrival: earlier epochs come before it, and no later one waits for it.
    pub is_late: bool,
}

/// The epochs of a write: up to two, of different streams. None: the write is unordered.
pub type Places = [Option<EpochId>; 2];

/// A write of a log.
#[derive(Clone, Debug)]
struct OrderedWrite {
    blocks: Range<u64>,
    places: Places,
    is_acknowledged: bool,
    is_durable: bool,
}

/// What can be read of each block: the number of the write that it is from. A block that is absent is as before the log.
pub type Visible = BTreeMap<u64, usize>;

/// The writes that a device accepted, in order, and what it promised of them.
#[derive(Clone, Debug, Default)]
pub struct OrderedLog {
    writes: Vec<OrderedWrite>,
    /// Of each flush that is not complete, the writes that it covers.
    flushes: Vec<Vec<usize>>,
}

/// Why a state is not legal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// Nobody wrote that there.
    #[error("block {block} has the content of write {write}, which does not cover it")]
    Elsewhere {
        /// The block.
        block: u64,
        /// The write.
        write: usize,
    },
    /// A promise is broken.
    #[error("write {write} was durable, and block {block} has an older content")]
    Lost {
        /// The block.
        block: u64,
        /// The write.
        write: usize,
    },
    /// The order is broken.
    #[error(
        "write {write} is of epoch {epoch} of stream {stream} and cannot be read from block {block}, \
         while write {later} of a later epoch can be read"
    )]
    Order {
        /// The block.
        block: u64,
        /// What is missing.
        write: usize,
        /// Its epoch.
        epoch: u64,
        /// The stream.
        stream: u64,
        /// What is there in spite of that.
        later: usize,
    },
}

/// What is missing after a cut, gone through in order of acceptance.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    /// Of each stream the first epoch of which something is missing.
    first: BTreeMap<u64, u64>,
}

impl Missing {
    /// Whether a write may be there, as far as what was lost before it says.
    pub fn allows(&self, places: &Places) -> bool {
        places.iter().flatten().all(|place| self.first.get(&place.stream).is_none_or(|first| place.epoch <= *first))
    }

    /// A write is not there, or not all of it.
    pub fn lose(&mut self, places: &Places) {
        for place in places.iter().flatten().filter(|place| !place.is_late) {
            let first = self.first.entry(place.stream).or_insert(place.epoch);
            *first = place.epoch.min(*first);
        }
    }
}

impl OrderedLog {
    /// The device accepts a write: its number, counted from 0.
    pub fn accept(&mut self, blocks: Range<u64>, places: Places) -> usize {
        self.writes.push(OrderedWrite { blocks, places, is_acknowledged: false, is_durable: false });
        self.writes.len() - 1
    }

    /// The device acknowledges a write.
    pub fn acknowledge(&mut self, write: usize) {
        if let Some(write) = self.writes.get_mut(write) {
            write.is_acknowledged = true;
        }
    }

    /// A write survives every cut from now on, as one with FUA when it is acknowledged.
    pub fn make_durable(&mut self, write: usize) {
        if let Some(write) = self.writes.get_mut(write) {
            (write.is_acknowledged, write.is_durable) = (true, true);
        }
    }

    /// A flush begins: its number, counted from 0.
    pub fn flush_begins(&mut self) -> usize {
        let acknowledged = self.writes.iter().enumerate().filter(|(_, write)| write.is_acknowledged);
        self.flushes.push(acknowledged.map(|(number, _)| number).collect());
        self.flushes.len() - 1
    }

    /// A flush completes: everything that was acknowledged before it began is durable.
    pub fn flush_ends(&mut self, flush: usize) {
        for write in self.flushes.get_mut(flush).map(std::mem::take).unwrap_or_default() {
            self.make_durable(write);
        }
    }

    /// How many writes there are.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether what is visible after a cut is legal.
    ///
    /// # Errors
    ///
    /// The first rule that it breaks.
    pub fn check(&self, visible: &Visible) -> Result<(), Violation> {
        // Of each stream the latest epoch of which anything can be read, and from which write.
        let mut latest: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for (&block, &write) in visible {
            let from = self.writes.get(write).filter(|from| from.blocks.contains(&block));
            let from = from.ok_or(Violation::Elsewhere { block, write })?;
            for place in from.places.iter().flatten() {
                let reached = latest.entry(place.stream).or_insert((place.epoch, write));
                if place.epoch > reached.0 {
                    *reached = (place.epoch, write);
                }
            }
        }
        for (number, write) in self.writes.iter().enumerate() {
            let missing =
                || write.blocks.clone().find(|block| visible.get(block).is_none_or(|newest| *newest < number));
            if write.is_durable
                && let Some(block) = missing()
            {
                return Err(Violation::Lost { block, write: number });
            }
            for place in write.places.iter().flatten().filter(|place| !place.is_late) {
                if let Some(&(epoch, later)) = latest.get(&place.stream)
                    && place.epoch < epoch
                    && let Some(block) = missing()
                {
                    let EpochId { stream, epoch, .. } = *place;
                    return Err(Violation::Order { block, write: number, epoch, stream, later });
                }
            }
        }
        Ok(())
    }

    /// A legal state by lot: of the writes that are not durable, those that `survives` chooses, if what must come before them is
    /// there. It is asked in order of acceptance.
    pub fn survivors(&self, mut survives: impl FnMut(usize) -> bool) -> BTreeSet<usize> {
        let mut missing = Missing::default();
        let mut there = BTreeSet::new();
        for (number, write) in self.writes.iter().enumerate() {
            if write.is_durable || (survives(number) && missing.allows(&write.places)) {
                there.insert(number);
            } else {
                missing.lose(&write.places);
            }
        }
        there
    }

    /// What is visible where exactly these writes are there.
    pub fn visible(&self, there: &BTreeSet<usize>) -> Visible {
        let mut visible = Visible::new();
        for number in there {
            for block in self.writes.get(*number).map(|write| write.blocks.clone()).into_iter().flatten() {
                visible.insert(block, *number);
            }
        }
        visible
    }
}
