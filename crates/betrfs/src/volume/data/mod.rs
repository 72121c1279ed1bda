//! What files hold: granules of 64 KiB with patches on their blocks (`schema`), the first of a small file beside an entry.
//!
//! A granule that is written whole, or from its beginning to the end of the file, is one value: it replaces what was there, and
//! nothing is read. Of others each block gets a patch, and nothing is read either. Beyond the end of the file everything reads
//! as zeroes, so growing needs no write; shrinking puts patches of zeroes on the rest of its last granule.

mod holes;
mod read;
mod seek;
mod start;
mod walk;
mod write;

pub(super) use read::Granule;
pub(super) use walk::{Goal, Walks};

use super::recent::Touched;
use super::transaction::Transaction;
use super::{Moment, Volume};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Caller, InodeNumber, Kind, Result};
use crate::rules::{self, BLOCK_BYTES};
use crate::schema::{self, GRANULE_BYTES, Inode};

/// Blocks of a granule.
const GRANULE_BLOCKS: u64 = GRANULE_BYTES / BLOCK_BYTES;
/// So many keys are removed one by one rather than as a range, of which the store has few in memory.
const SINGLE_REMOVES: u64 = 4;
/// Where the step that does it by a range is left out.
const SINGLE_REMOVES_WITHOUT_MESSAGE: u64 = 4096;

/// Units of `st_blocks` in a block.
const BLOCK_UNITS: u64 = BLOCK_BYTES / 512;

/// A part of a file in one granule or block.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Which granule or block.
    index: u64,
    begin: u64,
    end: u64,
}

/// The parts of a range in pieces of a size.
fn parts(begin: u64, end: u64, unit_bytes: u64) -> impl Iterator<Item = Part> + Clone {
    (begin / unit_bytes..end.div_ceil(unit_bytes)).map(move |index| Part {
        index,
        begin: begin.max(index * unit_bytes),
        end: end.min((index + 1) * unit_bytes),
    })
}

/// Granule of a block, and the part of the key that has its patches.
fn place_of(block: u64) -> (u64, u8) {
    (block / GRANULE_BLOCKS, 1 + (block % GRANULE_BLOCKS) as u8)
}

impl Part {
    /// Whether it has all of its unit that a file of this size has.
    fn is_whole(self, unit_bytes: u64, size_bytes: u64) -> bool {
        let begin = self.index * unit_bytes;
        self.begin == begin && self.end >= size_bytes.min(begin + unit_bytes)
    }
}

/// Whether a range has whole granules alone, as far as it goes.
pub(super) fn range_is_whole(begin: u64, end: u64) -> bool {
    begin.is_multiple_of(GRANULE_BYTES) && end.is_multiple_of(GRANULE_BYTES)
}

/// What a write changes of an inode, but for its patches.
pub(super) fn note_write(inode: &mut Inode, caller: &Caller<'_>, offset: u64, end: u64, kill_privileges: bool) {
    let size = inode.attributes.size_bytes;
    let block_of = |bytes: u64| bytes.div_ceil(BLOCK_BYTES);
    let mut blocks = block_of(end).saturating_sub(block_of(size).max(offset / BLOCK_BYTES));
    if inode.is_sparse {
        blocks += block_of(end.min(size)).saturating_sub(offset / BLOCK_BYTES);
    }
    inode.is_sparse |= offset / BLOCK_BYTES > block_of(size);
    inode.attributes.blocks = inode.attributes.blocks.saturating_add(blocks * BLOCK_UNITS);
    inode.attributes.size_bytes = size.max(end);
    bound_blocks(inode);
    if kill_privileges {
        rules::kill_privileges(&mut inode.attributes);
    }
    (inode.attributes.modified, inode.attributes.changed) = (caller.now, caller.now);
}

/// No more space than the size needs.
fn bound_blocks(inode: &mut Inode) {
    let most = inode.attributes.size_bytes.div_ceil(BLOCK_BYTES) * BLOCK_UNITS;
    inode.attributes.blocks = inode.attributes.blocks.min(most);
}

impl Transaction<'_> {
    /// Writes a granule of the tree `data` whole.
    fn put_granule(&mut self, number: InodeNumber, index: u64, bytes: &[u8]) -> Result<()> {
        let key = self.inode(number)?.locality.data_key(index, 0);
        self.batch.insert(&self.volume.store.data, key, bytes);
        self.touched.push(match bytes.len() as u64 {
            ..BLOCK_BYTES => Touched::Gone(number, index..index + 1),
            _ => Touched::Written((number, index), bytes.into()),
        });
        Ok(())
    }

    /// Removes all that an inode holds.
    pub(super) fn remove_data(&mut self, inode: &Inode) {
        if matches!(inode.attributes.kind, Kind::File | Kind::Symlink) && !mutated(Mutant::DataLeaks) {
            self.remove_granules(inode, 0);
        }
    }

    /// Removes the granules of an inode from one on.
    fn remove_granules(&mut self, inode: &Inode, first: u64) {
        let data = &self.volume.store.data;
        let number = inode.attributes.inode;
        let end = inode.attributes.size_bytes.div_ceil(GRANULE_BYTES);
        self.touched.push(Touched::Gone(number, first..u64::MAX));
        let beside = inode.beside.as_ref().filter(|_| first == 0);
        if let Some(spot) = beside.filter(|_| !mutated(Mutant::BesideLeaks)) {
            self.batch.remove(&self.volume.store.entries, schema::beside_key(spot, number));
        }
        let single_removes =
            if self.volume.options.steps.range_message { SINGLE_REMOVES } else { SINGLE_REMOVES_WITHOUT_MESSAGE };
        if !inode.is_patched && end.saturating_sub(first) <= single_removes {
            for granule in first + u64::from(beside.is_some())..end {
                self.batch.remove(data, inode.locality.data_key(granule, 0));
            }
        } else if first < end {
            inode.locality.data_from(first).into_iter().for_each(|keys| self.batch.remove_range(data, keys));
        }
    }
}

impl Volume {
    /// The target of a symbolic link.
    pub(super) fn target(&self, now: &Moment, inode: &Inode) -> Result<Vec<u8>> {
        self.start_at(&now.at, inode)?.ok_or_else(|| schema::damaged("a symbolic link without a target"))
    }
}
