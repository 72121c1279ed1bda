//! Writes in sequence are gathered until they make whole granules, which are written once and need no patches.
//!
//! Nobody can tell: whatever looks at the file, changes anything, or makes something durable settles what is held before. So after a power
//! cut the file system is as some prefix of the calls left it, as it is without. That another file was read meanwhile is held behind the
//! writes, since who packs files into one reads and writes in turn.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::accesses::Accesses;
use super::data::{note_write, range_is_whole};
use super::{Store, Volume};
use crate::mutant::{Mutant, mutated};
use crate::operations::{Attributes, Caller, Error, InodeNumber, Result, Timestamp};
use crate::rules;
use crate::schema::{GRANULE_BYTES, Inode, Place};

/// What was written last, if more may follow it.
#[derive(Debug, Default)]
pub(super) struct Gather {
    held: Option<Held>,
    /// Where the last write ended: one there goes on with it.
    end: Option<(InodeNumber, u64)>,
    /// How often what was held was carried out.
    carried_out: u64,
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
    /// When other files were read meanwhile.
    accesses: Accesses,
    /// What of this ends with a granule.
    whole: Option<Part>,
}

/// The first of what is held: whole writes, the last of them at a time, and accesses.
#[derive(Clone, Copy, Debug)]
struct Part {
    bytes: usize,
    now: Timestamp,
    accesses: usize,
}

impl Held {
    fn new(before: Inode, write: &Write<'_>, now: Timestamp) -> Self {
        let Write { offset, kill_privileges, .. } = *write;
        Self {
            inode: before.clone(),
            before,
            offset,
            data: Vec::new(),
            kill_privileges,
            now,
            accesses: Accesses::default(),
            whole: None,
        }
    }

    fn all(&self) -> Part {
        Part { bytes: self.data.len(), now: self.now, accesses: self.accesses.len() }
    }

    fn end(&self) -> (InodeNumber, u64) {
        (self.inode.attributes.inode, self.offset + self.data.len() as u64)
    }

    fn writes(&self, inode: InodeNumber) -> bool {
        self.end().0 == inode
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

    /// The same for who looks at what one inode has.
    pub(super) fn settle_of(&self, inode: InodeNumber) -> Result<()> {
        if self.is_gathering.load(Ordering::Acquire) && !mutated(Mutant::GatheredNotSeen) {
            let mut gather = self.gather();
            if gather.held.as_ref().is_some_and(|held| held.writes(inode)) {
                self.carry_out(&mut gather)?;
            }
        }
        Ok(())
    }

    /// Attributes that `look` finds, as they are with all calls that had returned by now.
    pub(super) fn settled(&self, look: impl Fn() -> Result<Attributes>) -> Result<Attributes> {
        if !self.is_gathering.load(Ordering::Acquire) || mutated(Mutant::GatheredNotFound) {
            return look();
        }
        for _ in 0..2 {
            let before = self.gather().carried_out;
            let found = look()?;
            let mut gather = self.gather();
            match &gather.held {
                Some(held) if held.writes(found.inode) => self.carry_out(&mut gather)?,
                _ if gather.carried_out != before => {}
                Some(held) => return Ok(held.accesses.seen(found)),
                None => return Ok(found),
            }
        }
        // Others carry out a part all the time.
        self.settle()?;
        look()
    }

    /// What a list of a directory does not find in the store; writes that are held of a file in it are carried out.
    pub(super) fn settled_list(&self, directory: InodeNumber) -> Result<Accesses> {
        let mut gather = self.gather();
        let Some(held) = gather.held.as_ref().filter(|_| !mutated(Mutant::GatheredNotSeen)) else {
            return Ok(Accesses::default());
        };
        match &held.inode.place {
            Place::Entry { parent, .. } if *parent != directory => {}
            _ => self.carry_out(&mut gather)?,
        }
        Ok(gather.held.as_ref().map(|held| held.accesses.clone()).unwrap_or_default())
    }

    /// Holds that a file was read, behind the writes of another that are held; `false` where there are none, or no room.
    pub(super) fn hold_access(&self, inode: InodeNumber, now: Timestamp) -> bool {
        if !self.is_gathering.load(Ordering::Acquire) || mutated(Mutant::AccessOvertakes) {
            return false;
        }
        let mut gather = self.gather();
        let Some(held) = &mut gather.held else { return false };
        !held.writes(inode) && held.accesses.hold(inode, now)
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
        let gather = &mut *self.gather();
        let goes_on = match &gather.held {
            Some(held) => held.end() == (write.inode, write.offset) && held.kill_privileges == write.kill_privileges,
            None => write.offset.is_multiple_of(GRANULE_BYTES) || gather.end == Some((write.inode, write.offset)),
        };
        gather.end = Some((write.inode, write.end()));
        let is_whole = gather.held.is_none() && range_is_whole(write.offset, write.end());
        let limit = self.options.write_bytes_max;
        if !goes_on || is_whole || write.data.len() >= limit {
            self.carry_out(gather)?;
            return Ok(None);
        }
        // A write is in one batch, and a batch has whole writes.
        if let Some(held) = gather.held.as_mut().filter(|held| held.data.len() + write.data.len() > limit)
            && let Some(part) = held.whole.take()
        {
            self.write_held(held, part)?;
            held.data.drain(..part.bytes);
            held.accesses.forget_first(part.accesses);
            held.offset += part.bytes as u64;
            gather.carried_out += 1;
            let _gate = self.shared();
            held.before = self.inode(write.inode)?;
        }
        if gather.held.as_ref().is_some_and(|held| held.data.len() + write.data.len() > limit) {
            self.carry_out(gather)?;
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
        let held_bytes = gather.held.as_ref().map_or(0, |held| held.data.len());
        self.admit_beside(held_bytes, write.data.len())?;
        let attributes = inode.attributes;
        let held = gather.held.get_or_insert_with(|| Held::new(before, &write, caller.now));
        held.data.extend_from_slice(write.data);
        (held.inode, held.now) = (inode, caller.now);
        if write.end().is_multiple_of(GRANULE_BYTES) {
            held.whole = Some(held.all());
        }
        self.is_gathering.store(true, Ordering::Release);
        Ok(Some(attributes))
    }

    /// Carries out all that is held. What has no room is lost, and said to who makes things durable; for what has no file any more
    /// there is nobody to ask.
    fn carry_out(&self, gather: &mut Gather) -> Result<()> {
        let Some(held) = &gather.held else { return Ok(()) };
        match self.write_held(held, held.all()) {
            Err(Error::NoSpace) => gather.was_lost = !mutated(Mutant::LossNotSaid),
            Ok(()) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
        gather.held = None;
        gather.carried_out += 1;
        self.is_gathering.store(false, Ordering::Release);
        Ok(())
    }

    /// Carries out the first of what is held. There was room for it when it came.
    fn write_held(&self, held: &Held, part: Part) -> Result<()> {
        let caller = Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: part.now };
        let accesses = match part.accesses {
            _ if mutated(Mutant::AccessForgotten) => 0,
            _ if mutated(Mutant::AccessEarly) => held.accesses.len(),
            count => count,
        };
        let Some(data) = held.data.get(..part.bytes) else { return Ok(()) };
        let number = held.inode.attributes.inode;
        self.change(None, |transaction| {
            if !data.is_empty() {
                transaction.write(&caller, number, held.offset, data, held.kill_privileges)?;
            }
            held.accesses.first(accesses).try_for_each(|(inode, now)| transaction.note_access(inode, now))
        })
    }

    /// What only the store has, once what is held is in it.
    pub(crate) fn settled_store(&self) -> Result<(&Store, u64)> {
        self.settle()?;
        Ok(self.now())
    }
}
