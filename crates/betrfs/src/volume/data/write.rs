//! `write` and `copy_file_range`: nothing is read before it is written.

use super::{GRANULE_BLOCKS, Part, Transaction, Volume, note_write, parts, place_of};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Attributes, Caller, Error, InodeNumber, Result};
use crate::patch::{self, PATCH};
use crate::rules::{self, BLOCK_BYTES, range_end};
use crate::schema::GRANULE_BYTES;
use crate::volume::gather::Write;

const BLOCK: usize = BLOCK_BYTES as usize;

impl Volume {
    pub(in crate::volume) fn write_file(
        &self,
        caller: &Caller<'_>,
        number: InodeNumber,
        offset_bytes: u64,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<Attributes> {
        range_end(offset_bytes, data.len() as u64)?;
        if data.is_empty() {
            let attributes = self.settled(|| self.attributes(number))?;
            return rules::regular(&attributes).map(|()| attributes);
        }
        let write = Write { inode: number, offset: offset_bytes, data, kill_privileges };
        if let Some(attributes) = self.hold(caller, write)? {
            return Ok(attributes);
        }
        let (mut offset, mut result) = (offset_bytes, Err(Error::Invalid));
        for piece in data.chunks(self.options.write_bytes_max.max(BLOCK)) {
            result = self.change(Some(piece.len()), |transaction| {
                transaction.write(caller, number, offset, piece, kill_privileges)?;
                Ok(transaction.inode(number)?.attributes)
            });
            if result.is_err() {
                break;
            }
            offset += piece.len() as u64;
        }
        result
    }

    pub(in crate::volume) fn copy(
        &self,
        caller: &Caller<'_>,
        (source, from): (InodeNumber, u64),
        (target, to): (InodeNumber, u64),
        length_bytes: u64,
    ) -> Result<u64> {
        let size = self.attributes(source)?;
        rules::regular(&size)?;
        rules::regular(&self.attributes(target)?)?;
        let length = length_bytes.min(size.size_bytes.saturating_sub(from));
        range_end(to, length)?;
        if source == target && from < to + length && to < from + length {
            return Err(Error::Invalid);
        }
        let mut buffer = vec![0; self.options.write_bytes_max.max(BLOCK).min(length as usize)];
        let mut done = 0;
        while done < length {
            let bytes = buffer.len().min((length - done) as usize);
            let copied = self.change(Some(bytes), |transaction| {
                let inode = self.inode(source)?;
                let now = self.moment(transaction.exclusive);
                let bytes = self.read_inode(&now, &inode, from + done, &mut buffer[..bytes])?;
                if bytes > 0 {
                    transaction.write(caller, target, to + done, &buffer[..bytes], true)?;
                }
                Ok(bytes as u64)
            });
            match copied {
                // Cut short by somebody else.
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

impl Transaction<'_> {
    /// Writes to a file; its size and times change with it.
    pub(in crate::volume) fn write(
        &mut self,
        caller: &Caller<'_>,
        number: InodeNumber,
        offset: u64,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<()> {
        let end = range_end(offset, data.len() as u64)?;
        let data_tree = &self.volume.store.data;
        let inode = self.inode(number)?;
        rules::regular(&inode.attributes)?;
        let size = inode.attributes.size_bytes;
        let was_patched = inode.is_patched;
        let bytes_of = |part: Part| &data[(part.begin - offset) as usize..(part.end - offset) as usize];
        let is_whole = |part: &Part| part.is_whole(GRANULE_BYTES, size);
        // Granules that are replaced follow each other: patches on them go with one range.
        let replaced =
            parts(offset, end, GRANULE_BYTES).filter(|part| is_whole(part) && part.index * GRANULE_BYTES < size);
        let (first, last) = (replaced.clone().next(), replaced.last());
        let clears = was_patched && !mutated(Mutant::PatchesNotCleared);
        if let (true, Some(first), Some(last)) = (clears, first, last) {
            for keys in inode.locality.data_between((first.index, 1), (last.index, u8::MAX)) {
                self.batch.remove_range(data_tree, keys);
            }
        }
        let mut is_patched = was_patched;
        for part in parts(offset, end, GRANULE_BYTES) {
            if is_whole(&part) {
                match part.index {
                    0 => self.put_start(number, bytes_of(part))?,
                    index => self.put_granule(number, index, bytes_of(part))?,
                }
                continue;
            }
            is_patched = true;
            for block in parts(part.begin, part.end, BLOCK_BYTES) {
                self.patch_block(number, block, bytes_of(block), size)?;
            }
        }
        let inode = self.inode(number)?;
        inode.is_patched = is_patched && !mutated(Mutant::PatchedNotSaid);
        note_write(inode, caller, offset, end, kill_privileges);
        Ok(())
    }

    /// Puts bytes on a block. Where the block has nothing else, what is below is of no account.
    fn patch_block(&mut self, number: InodeNumber, part: Part, bytes: &[u8], size: u64) -> Result<()> {
        let data = &self.volume.store.data;
        let (granule, key) = place_of(part.index);
        let key = self.inode(number)?.locality.data_key(granule, key);
        let skip = (part.begin - part.index * BLOCK_BYTES) as usize;
        if part.is_whole(BLOCK_BYTES, size) || part.index * BLOCK_BYTES >= size {
            let value = match mutated(Mutant::BelowShowsThrough) {
                true => patch::bytes(skip, bytes),
                false => patch::whole(skip, bytes),
            };
            self.batch.insert(data, key, value);
        } else {
            self.batch.upsert(data, key, PATCH, patch::bytes(skip, bytes));
        }
        Ok(())
    }

    /// Zeroes a range of a granule in its blocks.
    pub(super) fn zero_blocks(&mut self, number: InodeNumber, begin: u64, end: u64, size: u64) -> Result<()> {
        let data = &self.volume.store.data;
        for part in parts(begin, end, BLOCK_BYTES) {
            debug_assert!(part.index / GRANULE_BLOCKS == begin / GRANULE_BYTES);
            let (granule, key) = place_of(part.index);
            let key = self.inode(number)?.locality.data_key(granule, key);
            if part.is_whole(BLOCK_BYTES, size) {
                self.batch.insert(data, key, patch::zeroes(0, BLOCK));
            } else {
                let skip = (part.begin - part.index * BLOCK_BYTES) as usize;
                self.batch.upsert(data, key, PATCH, patch::zeroes(skip, (part.end - part.begin) as usize));
            }
        }
        Ok(())
    }
}
