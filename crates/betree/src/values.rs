//! Large values lie apart: a value is written once, to a place of its own, and what goes through the log and the trees is
//! the place.
//!
//! The write path gets free blocks lent for that ([`crate::space::Space::lend`]). A value is on its place before the
//! frame that names it is in the log, so the flush that makes the frame durable makes the value durable. Where
//! only the frame survives a cut, the checksum in the place tells, and the log ends before it.

use std::collections::VecDeque;

use crate::extents::{Extent, Extents};

/// Blocks that are lent.
#[derive(Default)]
pub(crate) struct Pool {
    /// Nothing was written there.
    unused: Extents,
    /// Of values that no checkpoint has, with the last message of their batches.
    used: VecDeque<(u64, Extent)>,
    used_blocks: u64,
    /// Of those, the ones that came since memtables were last sealed.
    unsealed_blocks: u64,
    /// Generation of the next checkpoint when blocks were last lent, or later.
    generation: u64,
    /// The most that somebody asked for when there was less; 0 where nobody did.
    pub wanted_blocks: u64,
}

impl Pool {
    pub fn unused_blocks(&self) -> u64 {
        self.unused.blocks()
    }

    pub fn used_blocks(&self) -> u64 {
        self.used_blocks
    }

    pub fn unsealed_blocks(&self) -> u64 {
        self.unsealed_blocks
    }

    /// Generation that values are born in: no later than that of the first checkpoint that has them.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// More blocks, and the generation of the next checkpoint.
    pub fn lend(&mut self, extents: Vec<Extent>, generation: u64) {
        extents.into_iter().for_each(|extent| self.unused.release(extent));
        self.generation = generation;
    }

    /// A place for each length in blocks, side by side where that is possible; none where there is no room for all.
    pub fn allocate(&mut self, lengths: &[u64]) -> Option<Vec<Extent>> {
        let mut next = self.unused.allocate(lengths.iter().sum::<u64>().max(1));
        let mut places = Vec::with_capacity(lengths.len());
        for blocks in lengths.iter().copied() {
            let start = match &mut next {
                Some(next) => Some(std::mem::replace(next, *next + blocks)),
                None => self.unused.allocate(blocks),
            };
            match start {
                Some(start) => places.push(Extent { start, blocks }),
                None => {
                    self.give_back(&places);
                    return None;
                }
            }
        }
        Some(places)
    }

    /// Nothing came of a batch.
    pub fn give_back(&mut self, places: &[Extent]) {
        places.iter().for_each(|place| self.unused.release(*place));
    }

    /// The batch whose last message has this number refers to these.
    pub fn commit(&mut self, msn: u64, places: &[Extent]) {
        for place in places {
            self.used.push_back((msn, *place));
            self.used_blocks += place.blocks;
            self.unsealed_blocks += place.blocks;
        }
    }

    /// Memtables were sealed.
    pub fn sealed(&mut self) {
        self.unsealed_blocks = 0;
    }

    /// The places that a checkpoint of everything up to `msn` has.
    pub fn up_to(&self, msn: u64) -> Vec<Extent> {
        self.used.iter().take_while(|(at, _)| *at <= msn).map(|(_, place)| *place).collect()
    }

    /// Such a checkpoint is durable.
    pub fn checkpointed(&mut self, msn: u64, generation: u64) {
        while let Some((at, place)) = self.used.front().copied()
            && at <= msn
        {
            self.used.pop_front();
            self.used_blocks -= place.blocks;
        }
        self.generation = generation;
    }

    /// Gives up everything unused.
    pub fn take_unused(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.unused).iter().collect()
    }
}
