//! Writes in sequence are gathered until they make whole granules, which are written once and need no patches.
//!
//! Nobody can tell: whatever looks at the file, changes anything, or makes something durable settles what is held before. So after a power
//! cut the file system is as some prefix of the calls left it, as it is without.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::data::{note_write, range_is_whole};
use super::{Store, Volume};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Attributes, Caller, Error, InodeNumber, Result, Timestamp};
use crate::rules;
use crate::schema::{GRANULE_BYTES, Inode};

/// What was written last, if more may follow it.
#[derive(Debug, Default)]
pub(super) struct Gather {
    held: Option<Held>,
    /// Where the last write ended: one there goes on with it.
    end: Option<(InodeNumber, u64)>,
    /// Something that was held did not fit any more, and nobody has heard of it.
    was_lost: bool,
}

/// Writes of one file, one behind the other, that no batch has.
#[derive(Debug)]
struct Held {
    /// As it is without them, and with them.
    before: Inode,
    inode: Inode,
    offset: u64,
    data: Vec<u8>,
    kill_privileges: bool,
    /// When the last of them was.
    now: Timestamp,
    /// So many bytes of them are whole writes that end with a granule, the last of them at this time.
    whole: Option<(usize, Timestamp)>,
}

impl Held {
    fn new(before: Inode, write: &Write<'_>, now: Timestamp) -> Self {
        let Write { offset, kill_privileges, .. } = *write;
        Self { inode: before.clone(), before, offset, data: Vec::new(), kill_privileges, now, whole: None }
    }

    fn end(&self) -> (InodeNumber, u64) {
        (self.inode.attributes.inode, self.offset + self.data.len() as u64)
    }
}

/// One write.
#[derive(Clone, Copy)]
pub(super) struct Write<'a> {
    pub inode: InodeNumber,
    pub offset: u64,
    pub data: &'a [u8],
    pub kill_privileges: bool,
}

impl Write<'_> {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

impl Volume {
    fn gather(&self) -> MutexGuard<'_, Gather> {
        self.gather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out what is held. Whoever looks at the store itself calls it before.
    ///
    /// # Errors
    ///
    /// What the storage met; then it is held still.
    pub fn settle(&self) -> Result<()> {
        if self.is_gathering.load(Ordering::Acquire) && !mutated(Mutant::GatheredOvertaken) {
            let mut gather = self.gather();
            self.carry_out(&mut gather)?;
        }
        Ok(())
    }

    /// The same for who looks at one inode only.
    pub(super) fn settle_of(&self, inode: InodeNumber) -> Result<()> {
        if self.is_gathering.load(Ordering::Acquire) && !mutated(Mutant::GatheredNotSeen) {
            let mut gather = self.gather();
            if gather.held.as_ref().is_some_and(|held| held.end().0 == inode) {
                self.carry_out(&mut gather)?;
            }
        }
        Ok(())
    }

    /// The same for who makes everything durable, and hears of what did not fit.
    pub(super) fn settle_to_last(&self) -> Result<()> {
        if mutated(Mutant::GatheredNotSynced) {
            return Ok(());
        }
        let mut gather = self.gather();
        self.carry_out(&mut gather)?;
        if std::mem::take(&mut gather.was_lost) { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Holds a write that goes on with the last one, or may be gone on with; its file's attributes, or nothing where it is to be
    /// carried out now. What was held and is not gone on with is carried out.
    pub(super) fn hold(&self, caller: &Caller<'_>, write: Write<'_>) -> Result<Option<Attributes>> {
        let mut gather = self.gather();
        let goes_on = match &gather.held {
            Some(held) => held.end() == (write.inode, write.offset) && held.kill_privileges == write.kill_privileges,
            None => write.offset.is_multiple_of(GRANULE_BYTES) || gather.end == Some((write.inode, write.offset)),
        };
        gather.end = Some((write.inode, write.end()));
        let is_whole = gather.held.is_none() && range_is_whole(write.offset, write.end());
        let limit = self.options.write_bytes_max;
        if !goes_on || is_whole || write.data.len() >= limit {
            self.carry_out(&mut gather)?;
            return Ok(None);
        }
        // A write is in one batch, and a batch has whole writes.
        if let Some(held) = gather.held.as_mut().filter(|held| held.data.len() + write.data.len() > limit)
            && let Some((bytes, now)) = held.whole.take()
        {
            self.write_held(held, bytes, now)?;
            held.data.drain(..bytes);
            held.offset += bytes as u64;
            let _gate = self.shared();
            held.before = self.inode(write.inode)?;
        }
        if gather.held.as_ref().is_some_and(|held| held.data.len() + write.data.len() > limit) {
            self.carry_out(&mut gather)?;
        }
        let known = gather.held.as_ref().map(|held| (held.before.clone(), held.offset));
        let (before, offset) = match known {
            Some(known) => known,
            None => {
                let _gate = self.shared();
                (self.inode(write.inode)?, write.offset)
            }
        };
        rules::regular(&before.attributes)?;
        // As one write of all that is held will leave it.
        let mut inode = before.clone();
        note_write(&mut inode, caller, offset, write.end(), write.kill_privileges);
        self.admit(write.data.len())?;
        let attributes = inode.attributes;
        let held = gather.held.get_or_insert_with(|| Held::new(before, &write, caller.now));
        held.data.extend_from_slice(write.data);
        (held.inode, held.now) = (inode, caller.now);
        if write.end().is_multiple_of(GRANULE_BYTES) {
            held.whole = Some((held.data.len(), caller.now));
        }
        self.is_gathering.store(true, Ordering::Release);
        Ok(Some(attributes))
    }

    /// Carries out all that is held. What has no room is lost, and said to who makes things durable; for what has no file any more
    /// there is nobody to ask.
    fn carry_out(&self, gather: &mut Gather) -> Result<()> {
        let Some(held) = &gather.held else { return Ok(()) };
        match self.write_held(held, held.data.len(), held.now) {
            Err(Error::NoSpace) => gather.was_lost = true,
            Ok(()) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
        gather.held = None;
        self.is_gathering.store(false, Ordering::Release);
        Ok(())
    }

    /// Carries out the first bytes of what is held, the last of them written at a time. There was room for them when they came.
    fn write_held(&self, held: &Held, bytes: usize, now: Timestamp) -> Result<()> {
        let caller = Caller { uid: 0, gid: 0, groups: &[], umask: 0, now };
        let Some(data) = held.data.get(..bytes).filter(|data| !data.is_empty()) else { return Ok(()) };
        let number = held.inode.attributes.inode;
        self.change(None, |transaction| transaction.write(&caller, number, held.offset, data, held.kill_privileges))
    }

    /// What only the store has, once what is held is in it.
    pub(crate) fn settled_store(&self) -> Result<(&Store, u64)> {
        self.settle()?;
        Ok(self.now())
    }
}
