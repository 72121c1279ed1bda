//! Putting large values apart, before their batch is logged.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use storage::{BLOCK_BYTES, Buffer};

use super::commit::BatchSize;
use super::{Engine, TreeState, View, locked};
use crate::bytes::message::Message;
use crate::bytes::parts::{append_sums, are_worthwhile};
use crate::bytes::pointer::{BlockPointer, Codec, checksum};
use crate::bytes::tree_id::TreeId;
use crate::changes::{Batches, Change};
use crate::error::{Error, Result};
use crate::extents::Extent;
use crate::io::ahead::{ReadAhead, Wanted};
use crate::io::{BlockIo, Compression, Kind, Purpose, compress, shrinks};
use crate::mutant::{Mutant, mutated};
use crate::space::Space;
use crate::values::Pool;

/// A batch as it goes into the log.
pub(super) struct Prepared<'a> {
    pub changes: Cow<'a, [Change]>,
    /// Where its large values lie.
    pub places: Vec<Extent>,
    /// Generation in which these are born.
    pub birth: u64,
}

impl Prepared<'_> {
    pub fn value_blocks(&self) -> u64 {
        self.places.iter().map(|place| place.blocks).sum()
    }

    /// Whether a value would count as moved, though it comes behind the move.
    pub fn counts_as_moved(&self, view: &View) -> bool {
        let is_late = |tree: &TreeId| view.version.trees.get(tree).is_some_and(|tree| self.birth <= tree.moved_at);
        let in_tree =
            |change: &Change| matches!(change, Change::Point { tree, message: Message::Place(_), .. } if is_late(tree));
        !mutated(Mutant::MovedBeforeItCame) && self.changes.iter().any(in_tree)
    }
}

/// Whether a message's value lies apart.
pub(super) fn lies_apart(message: &Message<'_>, apart_bytes: usize) -> bool {
    matches!(message, Message::Insert(value) if !value.is_empty() && value.len() >= apart_bytes)
}

/// A value as it is stored apart.
struct Packed {
    codec: Codec,
    stored: Vec<u8>,
    checksum: u128,
}

/// Compressed, where that is of use; or with checksums of its parts, where these cost little.
fn pack(value: &[u8], compression: Compression) -> Packed {
    let (codec, mut stored) = compress(value, compression);
    if codec == Codec::Plain && are_worthwhile(stored.len()) {
        let checksum = append_sums(&mut stored);
        return Packed { codec: Codec::Parts, stored, checksum };
    }
    let checksum = checksum(&stored);
    Packed { codec, stored, checksum }
}

impl Engine {
    /// Blocks of values that may lie apart and be in no checkpoint: recovery reads them. Like the log's, a quarter of them
    /// may come before memtables are sealed.
    pub(super) fn value_room_blocks(&self) -> u64 {
        (4 * self.log_blocks).min(self.io.capacity_blocks() / 8).max(1)
    }

    /// Writes large values to their places. Where no blocks are at hand the batch stays as it is, and its values
    /// go through log and nodes as others do, if they can.
    pub(super) fn prepare<'a>(&self, changes: &'a [Change], size: &BatchSize) -> Result<Prepared<'a>> {
        let as_it_is = Prepared { changes: Cow::Borrowed(changes), places: Vec::new(), birth: 0 };
        let large: Vec<bool> = changes
            .iter()
            .map(|change| match change {
                Change::Point { message, .. } => {
                    lies_apart(message, size.apart_bytes) || (!size.must_lie_apart && self.fills_blocks(message))
                }
                _ => false,
            })
            .collect();
        if !large.contains(&true) {
            return Ok(as_it_is);
        }
        let packed: Vec<_> = changes
            .iter()
            .zip(&large)
            .filter(|(_, large)| **large)
            .filter_map(|(change, _)| match change {
                Change::Point { message: Message::Insert(value), .. } => {
                    Some((value.len(), pack(value, self.options.compression)))
                }
                _ => None,
            })
            .collect();
        let lengths: Vec<u64> =
            packed.iter().map(|(_, packed)| packed.stored.len().div_ceil(BLOCK_BYTES) as u64).collect();
        let mut places = self.places(&lengths);
        if places.is_none() && size.must_lie_apart {
            // What was lent is in use by batches that no checkpoint has.
            self.checkpoint()?;
            places = self.places(&lengths);
        }
        let (places, birth) = match places {
            Some(found) => found,
            None if size.must_lie_apart => return Err(Error::Full),
            None => return Ok(as_it_is),
        };
        let mut writes = Vec::with_capacity(packed.len());
        let mut pointers = Vec::with_capacity(packed.len());
        for ((raw_bytes, Packed { codec, stored, checksum }), place) in packed.into_iter().zip(&places) {
            pointers.push(BlockPointer {
                start: place.start,
                stored_bytes: stored.len() as u32,
                raw_bytes: raw_bytes as u32,
                codec,
                birth,
                checksum,
            });
            writes.push((Purpose::Values, place.start, Buffer::padded(&stored)));
        }
        self.guard(self.io.write_later(writes))?;
        let mut pointers = pointers.into_iter();
        let apart = |(change, large): (&Change, &bool)| match (change, *large) {
            (Change::Point { tree, key, .. }, true) => match pointers.next() {
                Some(pointer) => Change::Point { tree: *tree, key: key.clone(), message: Message::Place(pointer) },
                None => change.clone(),
            },
            _ => change.clone(),
        };
        Ok(Prepared { changes: changes.iter().zip(&large).map(apart).collect(), places, birth })
    }

    /// Whether a value of a few blocks fills them, alone and uncompressed: in a basement with others it would take more, and
    /// be written again whenever that is.
    fn fills_blocks(&self, message: &Message<'_>) -> bool {
        let Message::Insert(value) = message else { return false };
        let bytes = value.len();
        self.options.large_value_bytes != usize::MAX
            && !mutated(Mutant::FullBlocksShare)
            && bytes >= BLOCK_BYTES
            && bytes.next_multiple_of(BLOCK_BYTES) - bytes <= bytes / 16
            && !shrinks(value, self.options.compression)
    }

    /// A place for each length, and the generation in which what is written there is born.
    fn places(&self, lengths: &[u64]) -> Option<(Vec<Extent>, u64)> {
        let allocate = |pool: &mut Pool| pool.allocate(lengths).map(|places| (places, pool.generation()));
        {
            let mut pool = locked(&self.pool);
            if let Some(found) = allocate(&mut pool) {
                return Some(found);
            }
            pool.wanted_blocks = pool.wanted_blocks.max(lengths.iter().sum());
        }
        if let Ok(mut state) = self.trees.try_lock() {
            self.lend(&mut state);
        }
        allocate(&mut locked(&self.pool))
    }

    /// Lends the write path more of the free blocks, if it has asked for some and they are not needed otherwise.
    pub(super) fn lend(&self, state: &mut TreeState) {
        // A piece of work that holds the space brings back its own idea of it.
        if state.flight.holds_space() {
            return;
        }
        let mut pool = locked(&self.pool);
        let (wanted, unused) = ((self.value_room_blocks() / 2).max(pool.wanted_blocks), pool.unused_blocks());
        if pool.wanted_blocks == 0 || (unused * 2 >= wanted && unused >= pool.wanted_blocks) {
            return;
        }
        let spare = self.spare_bytes() / BLOCK_BYTES as u64;
        let lent = state.space.lend((wanted - unused).min(spare / 2));
        pool.lend(lent, state.generation);
        self.free_blocks.store(state.space.free_blocks(), Ordering::Release);
    }

    /// Takes back what was lent and not used. Nothing may be in flight.
    pub(super) fn take_back(&self, state: &mut TreeState) {
        let mut pool = locked(&self.pool);
        pool.wanted_blocks = 0;
        pool.take_unused().into_iter().for_each(|extent| state.space.give_back(extent));
        self.free_blocks.store(state.space.free_blocks(), Ordering::Release);
    }

    /// Of a batch that was replayed: where its values lie is not free.
    pub(super) fn take_places_again(&self, space: &mut Space, changes: &[Change], msn: u64) -> Result<()> {
        let mut pool = locked(&self.pool);
        for pointer in places_of(changes).filter(|_| !mutated(Mutant::PlacesForgotten)) {
            let place = Extent::of(&pointer);
            if !space.lend_again(place) {
                return Err(Error::Corrupt {
                    what: "log: a value lies where something else does".to_owned(),
                    offset_bytes: pointer.offset_bytes(),
                    stored_bytes: u64::from(pointer.stored_bytes),
                });
            }
            pool.commit(msn, &[place]);
        }
        Ok(())
    }
}

/// Where large values of a batch lie.
fn places_of(changes: &[Change]) -> impl Iterator<Item = BlockPointer> {
    changes.iter().filter_map(|change| match change {
        Change::Point { message, .. } => message.place(),
        _ => None,
    })
}

/// Whether the values of a frame are where it says, as far as its batches are newer than the checkpoint. Where the frame
/// was not flushed, they may not be.
pub(super) fn are_whole(io: &BlockIo, payload: &[u8], after_msn: u64) -> Result<bool> {
    if mutated(Mutant::LostValueAccepted) {
        return Ok(true);
    }
    for batch in Batches::of(payload) {
        // What does not decode is somebody else's finding.
        let Ok((first_msn, changes)) = batch else { return Ok(true) };
        let places: Vec<BlockPointer> = places_of(&changes).filter(|_| first_msn > after_msn).collect();
        if places.len() > 1 {
            ReadAhead::of(places.iter().map(|pointer| Wanted::new(*pointer, Kind::Value))).finish(io);
        }
        for pointer in places {
            match io.value(&pointer) {
                Ok(_) => {}
                Err(Error::Corrupt { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(true)
}
