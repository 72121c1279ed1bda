//! Changes of size, and `fallocate`.

use super::{BLOCK_UNITS, Transaction, Volume, bound_blocks};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Allocate, Attributes, Caller, Error, InodeNumber, Result};
use crate::rules::{self, BLOCK_BYTES, range_end};
use crate::schema::GRANULE_BYTES;
use crate::volume::recent::Touched;

impl Volume {
    pub(in crate::volume) fn allocate(
        &self,
        caller: &Caller<'_>,
        number: InodeNumber,
        mode: Allocate,
        offset: u64,
        length: u64,
    ) -> Result<Attributes> {
        let room = match mode {
            // Looked for, so that a file that cannot be filled is refused at once.
            Allocate::Extend | Allocate::KeepSize => Some(usize::try_from(length).map_err(|_| Error::NoSpace)?),
            Allocate::PunchHole => None,
            _ => Some(0),
        };
        self.change(room, |transaction| {
            let inode = transaction.inode(number)?;
            rules::regular(&inode.attributes)?;
            if length == 0 {
                return Err(Error::Invalid);
            }
            let end = range_end(offset, length)?;
            let size = inode.attributes.size_bytes;
            match mode {
                Allocate::Extend => transaction.set_size(number, size.max(end))?,
                Allocate::KeepSize => {}
                Allocate::PunchHole | Allocate::ZeroRangeKeepSize => transaction.punch(number, offset, end)?,
                Allocate::ZeroRange => {
                    transaction.punch(number, offset, end)?;
                    transaction.set_size(number, size.max(end))?;
                }
                Allocate::CollapseRange => {
                    rules::whole_blocks(offset, length)?;
                    if end >= size {
                        return Err(Error::Invalid);
                    }
                    transaction.shift(caller, number, (end, offset))?;
                }
                Allocate::InsertRange => {
                    rules::whole_blocks(offset, length)?;
                    if offset >= size {
                        return Err(Error::Invalid);
                    }
                    range_end(size, length)?;
                    transaction.shift(caller, number, (offset, end))?;
                }
            }
            let attributes = &mut transaction.inode(number)?.attributes;
            (attributes.modified, attributes.changed) = (caller.now, caller.now);
            Ok(*attributes)
        })
    }
}

impl Transaction<'_> {
    fn set_size(&mut self, number: InodeNumber, after: u64) -> Result<()> {
        let attributes = &mut self.inode(number)?.attributes;
        let before = std::mem::replace(&mut attributes.size_bytes, after);
        self.resize(number, before, after)
    }

    /// What a file holds follows its size, which has changed already.
    pub(in crate::volume) fn resize(&mut self, number: InodeNumber, before: u64, after: u64) -> Result<()> {
        let block_of = |bytes: u64| bytes.div_ceil(BLOCK_BYTES);
        if after > before {
            let inode = self.inode(number)?;
            inode.is_sparse |= block_of(after) > block_of(before);
            return Ok(());
        }
        let mut old = self.inode(number)?.clone();
        old.attributes.size_bytes = before;
        let short = u64::from(mutated(Mutant::RangeOneShort));
        self.remove_granules(&old, after.div_ceil(GRANULE_BYTES) + short);
        let granule_end = after.next_multiple_of(GRANULE_BYTES).min(before);
        if after < granule_end && !mutated(Mutant::TailNotZeroed) {
            self.zero_blocks(number, after, granule_end, before)?;
        }
        let inode = self.inode(number)?;
        inode.is_patched = after > 0 && (inode.is_patched || after < granule_end);
        inode.is_sparse &= after > 0;
        inode.beside = inode.beside.take().filter(|_| after > 0);
        bound_blocks(inode);
        Ok(())
    }

    /// Makes a range a hole, as far as the file reaches.
    fn punch(&mut self, number: InodeNumber, begin: u64, end: u64) -> Result<()> {
        let size = self.inode(number)?.attributes.size_bytes;
        let end = end.min(size);
        if begin >= end {
            return Ok(());
        }
        // Granules from one to another lie in it as far as the file has them; there may be more of them than can be counted through.
        let first = begin.div_ceil(GRANULE_BYTES);
        let behind = if end == size { end.div_ceil(GRANULE_BYTES) } else { end / GRANULE_BYTES };
        let edges = match first <= behind {
            true => [(begin, end.min(first * GRANULE_BYTES)), (behind * GRANULE_BYTES, end)],
            false => [(begin, end), (end, end)],
        };
        let mut is_patched = false;
        for (begin, end) in edges.into_iter().filter(|(begin, end)| begin < end) {
            self.zero_blocks(number, begin, end, size)?;
            is_patched = true;
        }
        if first < behind {
            let last = behind - 1;
            let end = if mutated(Mutant::HoleKeepsPatches) { 0 } else { u8::MAX };
            for keys in self.inode(number)?.locality.data_between((first, 0), (last, end)) {
                self.batch.remove_range(&self.volume.store.data, keys);
            }
            self.touched.push(Touched::Gone(number, first..last + 1));
            if first == 0 && !mutated(Mutant::HoleKeepsBeside) {
                self.drop_beside(number)?;
            }
        }
        let inode = self.inode(number)?;
        inode.is_patched |= is_patched;
        if !inode.is_sparse {
            let blocks = (end / BLOCK_BYTES).saturating_sub(begin.div_ceil(BLOCK_BYTES));
            inode.attributes.blocks = inode.attributes.blocks.saturating_sub(blocks * BLOCK_UNITS);
        }
        inode.is_sparse = true;
        bound_blocks(inode);
        Ok(())
    }

    /// Moves everything from one offset on to another, in one batch: only so much as fits one.
    fn shift(&mut self, caller: &Caller<'_>, number: InodeNumber, (from, to): (u64, u64)) -> Result<()> {
        let inode = self.volume.inode(number)?;
        let size = inode.attributes.size_bytes;
        let moved = usize::try_from(size - from).map_err(|_| Error::NotSupported)?;
        if moved > self.volume.options.write_bytes_max {
            return Err(Error::NotSupported);
        }
        let mut bytes = vec![0; moved];
        let now = self.volume.moment(self.exclusive);
        self.volume.read_inode(&now, &inode, from, &mut bytes)?;
        self.set_size(number, from.min(to))?;
        self.set_size(number, to)?;
        self.write(caller, number, to, &bytes, false)
    }
}
