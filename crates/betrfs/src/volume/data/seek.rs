//! `lseek` with `SEEK_DATA` and `SEEK_HOLE`.

use betree::Snapshot;

use super::{GRANULE_BLOCKS, Moment, Volume};
use crate::operations::{Error, InodeNumber, Result, Seek};
use crate::patch::{self, Piece};
use crate::rules::{self, BLOCK_BYTES};
use crate::schema::{self, GRANULE_BYTES, Inode, damaged};

impl Volume {
    pub(in crate::volume) fn seek_file(&self, number: InodeNumber, offset: u64, what: Seek) -> Result<u64> {
        let (Moment { at, .. }, inode) = self.moment_of(number)?;
        rules::regular(&inode.attributes)?;
        let size = inode.attributes.size_bytes;
        if offset >= size {
            return Err(Error::NoSuchAddress);
        }
        let start = offset / BLOCK_BYTES;
        match what {
            Seek::Data => match self.next_data(&at, &inode, start)? {
                Some(block) if block * BLOCK_BYTES < size => Ok(offset.max(block * BLOCK_BYTES)),
                _ => Err(Error::NoSuchAddress),
            },
            Seek::Hole => {
                let mut hole = start;
                // What is not sparse has no hole to look for.
                if !inode.is_sparse {
                    return Ok(size);
                }
                while hole * BLOCK_BYTES < size && self.next_data(&at, &inode, hole)? == Some(hole) {
                    hole = self.data_end(&at, &inode, hole)?;
                }
                Ok(offset.max(hole * BLOCK_BYTES).min(size))
            }
        }
    }

    /// Which blocks of a granule have data, from the keys of it.
    fn data_blocks(&self, at: &Snapshot, inode: &Inode, granule: u64) -> Result<u64> {
        let of_bytes = |bytes: &[u8]| (1 << (bytes.len() as u64).div_ceil(BLOCK_BYTES).min(GRANULE_BLOCKS)) - 1;
        let mut has_data = 0u64;
        if granule == 0 && inode.beside.is_some() {
            has_data = self.start_at(at, inode)?.map_or(0, |value| of_bytes(&value));
        }
        let keys = inode.locality.data_between((granule, 0), (granule, u8::MAX));
        for found in self.store.data_at(at, keys) {
            let (key, value) = found?;
            let (_, part) = schema::part_of(&key)?;
            let Some(block) = part.checked_sub(1) else {
                has_data = of_bytes(&value);
                continue;
            };
            let bit = 1 << (u64::from(block) % GRANULE_BLOCKS);
            let pieces = patch::pieces(&value).ok_or_else(|| damaged("patches on a block"))?;
            if pieces.iter().any(|piece| matches!(piece, Piece::Bytes(..))) {
                has_data |= bit;
            } else if pieces == [Piece::Zeroes(0, BLOCK_BYTES as usize)] {
                has_data &= !bit;
            }
        }
        Ok(has_data)
    }

    /// The first block with data from one on.
    fn next_data(&self, at: &Snapshot, inode: &Inode, block: u64) -> Result<Option<u64>> {
        let mut granule = block / GRANULE_BLOCKS;
        let mut skip = block % GRANULE_BLOCKS;
        loop {
            // The next granule that has a key at all.
            let rest = inode.locality.data_from(granule);
            let found = match granule == 0 && inode.beside.is_some() {
                true => 0,
                false => match self.store.data_at(at, rest).next() {
                    Some(found) => schema::part_of(&found?.0)?.0,
                    None => return Ok(None),
                },
            };
            if found != granule {
                (granule, skip) = (found, 0);
            }
            let has_data = self.data_blocks(at, inode, granule)? >> skip << skip;
            if has_data != 0 {
                return Ok(Some(granule * GRANULE_BLOCKS + u64::from(has_data.trailing_zeros())));
            }
            (granule, skip) = (granule + 1, 0);
        }
    }

    /// The first block without data behind one with data, or of the next granule.
    fn data_end(&self, at: &Snapshot, inode: &Inode, block: u64) -> Result<u64> {
        let granule = block * BLOCK_BYTES / GRANULE_BYTES;
        let skip = block % GRANULE_BLOCKS;
        let run = (self.data_blocks(at, inode, granule)? >> skip).trailing_ones();
        Ok(block + u64::from(run))
    }
}
