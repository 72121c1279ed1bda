//! `read`.

use std::sync::Arc;

use betree::Snapshot;

use super::{GRANULE_BLOCKS, Goal, Moment, Part, Volume, parts, place_of};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Caller, Error, InodeNumber, Result};
use crate::patch;
use crate::rules::{self, BLOCK_BYTES};
use crate::schema::{self, GRANULE_BYTES, Inode, damaged};

/// What a file has of a granule.
pub(in crate::volume) struct Granule {
    pub index: u64,
    /// By the parts of its keys.
    pub parts: Vec<(u8, Vec<u8>)>,
}

impl Volume {
    /// The first granule from one on that an inode had something of at a moment. Patches on the granule's own bytes are put on.
    pub(in crate::volume) fn granule_at(&self, at: &Snapshot, inode: &Inode, from: u64) -> Result<Option<Granule>> {
        let data = &self.store.data;
        if !inode.is_patched && !inode.is_sparse {
            let end = inode.attributes.size_bytes.div_ceil(GRANULE_BYTES);
            if from >= end {
                return Ok(None);
            }
            let value = match from {
                0 => self.start_at(at, inode)?,
                _ => at.get(data, inode.locality.data_key(from, 0))?,
            };
            if let Some(value) = value {
                return Ok(Some(Granule { index: from, parts: vec![(0, value.to_vec())] }));
            }
            // Only damage has taken it away, which may have made the file of any size: what comes next is looked for.
        }
        let mut found: Option<Granule> = None;
        if from == 0 && inode.beside.is_some() {
            found = self.start_at(at, inode)?.map(|value| Granule { index: 0, parts: vec![(0, value)] });
        }
        for entry in self.store.data_at(at, inode.locality.data_from(from)) {
            let (key, value) = entry?;
            let (index, part) = schema::part_of(&key)?;
            match &mut found {
                None => found = Some(Granule { index, parts: vec![(part, value.to_vec())] }),
                Some(granule) if granule.index == index => granule.parts.push((part, value.to_vec())),
                Some(_) => break,
            }
        }
        found.map(|granule| granule.put_together(inode.attributes.size_bytes)).transpose()
    }

    pub(in crate::volume) fn read_file(
        &self,
        caller: &Caller<'_>,
        number: InodeNumber,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        // One moment, without the gate: nobody waits for what the storage reads.
        let (now, inode) = self.moment_of(number)?;
        rules::regular(&inode.attributes)?;
        if offset_bytes == 0 {
            self.walk(Goal::Files, &now, &inode);
        }
        let length = self.read_inode(&now, &inode, offset_bytes, buffer)?;
        let may_note = self.options.notes_accesses && !self.store.is_past();
        let notes = may_note && rules::notes_access(&inode.attributes, caller.now);
        if notes && !self.hold_access(number, caller.now) {
            // No change overtakes what is held.
            if !mutated(Mutant::AccessOvertakes) {
                self.settle()?;
            }
            match self.change(None, |transaction| transaction.note_access(number, caller.now)) {
                // What can be read is read.
                Err(Error::NoSpace) if !mutated(Mutant::AccessNeedsRoom) => {}
                noted => noted?,
            }
        }
        Ok(length)
    }

    /// A read that is overtaken by a change just when it has begun.
    #[cfg(test)]
    pub(crate) fn read_overtaken(
        &self,
        number: InodeNumber,
        change: impl FnOnce() -> Result<()>,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let (now, inode) = self.moment_of(number)?;
        change()?;
        self.read_inode(&now, &inode, 0, buffer)
    }

    /// Bytes of a file at a moment; how many there were.
    pub(super) fn read_inode(
        &self,
        now: &Moment,
        inode: &Inode,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let length = inode.attributes.size_bytes.saturating_sub(offset_bytes).min(buffer.len() as u64) as usize;
        if length == 0 {
            return Ok(0);
        }
        let parts: Vec<Part> = parts(offset_bytes, offset_bytes + length as u64, GRANULE_BYTES).collect();
        let number = inode.attributes.inode;
        let recent: Vec<Option<Arc<[u8]>>> = {
            let recent = self.recent();
            parts.iter().map(|part| recent.get((number, part.index), now.changes)).collect()
        };
        // The others are read together: granules that lie side by side are one request.
        let apart = |part: &Part| part.index > 0 || inode.beside.is_none();
        let others = parts.iter().zip(&recent).filter(|(part, recent)| apart(part) && recent.is_none());
        let keys: Vec<_> = others.map(|(part, _)| inode.locality.data_key(part.index, 0)).collect();
        let mut stored = now.at.get_many(&self.store.data, &keys)?.into_iter();
        let mut rest = &mut buffer[..length];
        for (part, recent) in parts.into_iter().zip(recent) {
            let (bytes, after) = rest.split_at_mut((part.end - part.begin) as usize);
            rest = after;
            match recent {
                Some(recent) => put(part, Some(&recent), bytes),
                None if apart(&part) => put(part, stored.next().flatten().as_deref(), bytes),
                None => put(part, self.start_at(&now.at, inode)?.as_deref(), bytes),
            }
        }
        if inode.is_patched {
            // One scan for all, which reads ahead.
            self.put_patches(now, inode, offset_bytes, &mut buffer[..length])?;
        }
        Ok(length)
    }

    /// Puts the patches on bytes of a file from `begin` on, which may be of several granules.
    fn put_patches(&self, now: &Moment, inode: &Inode, begin: u64, bytes: &mut [u8]) -> Result<()> {
        let (at, data, end) = (&now.at, &self.store.data, begin + bytes.len() as u64);
        let mut put_on = |block: u64, value: &[u8]| {
            let pieces = patch::pieces(value).ok_or_else(|| damaged("patches on a block"))?;
            // The part of the block that is wanted.
            let (from, to) = ((block * BLOCK_BYTES).max(begin), ((block + 1) * BLOCK_BYTES).min(end));
            if from < to {
                let target = &mut bytes[(from - begin) as usize..(to - begin) as usize];
                patch::put_on(&pieces, (from - block * BLOCK_BYTES) as usize, target);
            }
            Ok(())
        };
        let (first, last) = (begin / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
        if first == last {
            let (granule, key) = place_of(first);
            return match at.get(data, inode.locality.data_key(granule, key))? {
                Some(value) => put_on(first, &value),
                None => Ok(()),
            };
        }
        for found in self.store.data_at(at, inode.locality.data_between(place_of(first), place_of(last))) {
            let (key, value) = found?;
            let (granule, key) = schema::part_of(&key)?;
            if key == 0 {
                // The bytes of the granule are there already.
                continue;
            }
            put_on(granule * GRANULE_BLOCKS + u64::from(key) - 1, &value)?;
        }
        Ok(())
    }
}

/// A part of a granule, by what lies there: zeroes behind it.
fn put(part: Part, granule: Option<&[u8]>, bytes: &mut [u8]) {
    let skip = (part.begin - part.index * GRANULE_BYTES) as usize;
    let stored = granule.unwrap_or_default().get(skip..).unwrap_or_default();
    let length = stored.len().min(bytes.len());
    bytes[..length].copy_from_slice(&stored[..length]);
    bytes[length..].fill(0);
}

impl Granule {
    /// Bytes with patches on them become bytes, as far as the file goes; patches alone stay what they are.
    pub(in crate::volume) fn put_together(mut self, size_bytes: u64) -> Result<Self> {
        if self.parts.len() == 1 || self.parts.first().is_none_or(|(part, _)| *part != 0) {
            return Ok(self);
        }
        let length = size_bytes.saturating_sub(self.index * GRANULE_BYTES).min(GRANULE_BYTES) as usize;
        let mut bytes = vec![0; GRANULE_BYTES as usize];
        for (part, value) in &self.parts {
            match part.checked_sub(1).map(|block| usize::from(block) * BLOCK_BYTES as usize) {
                None => {
                    let place = bytes.get_mut(..value.len()).ok_or_else(|| damaged("a granule that is too long"))?;
                    place.copy_from_slice(value);
                }
                Some(begin) => {
                    let pieces = patch::pieces(value).ok_or_else(|| damaged("patches on a block"))?;
                    let block = bytes.get_mut(begin..begin + BLOCK_BYTES as usize);
                    patch::put_on(&pieces, 0, block.ok_or_else(|| damaged("a patch on no block"))?);
                }
            }
        }
        bytes.truncate(length);
        self.parts = vec![(0, bytes)];
        Ok(self)
    }
}
