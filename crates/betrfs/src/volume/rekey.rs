//! What a rename moves where keys begin with paths: everything below.
//!
//! An inode that gets another place has its keys where the old one was. What is small is moved in the same batch. The rest stays where it
//! is, which the inode says, and is listed as owed: whoever has time moves it, step by step. A step moves some entries of a directory, or
//! some granules of a file, in the order of their keys, and the inode says in the same batch how far it has come. What is in a directory
//! gets other places by that, and is moved along or listed itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Volume;
use super::data::Granule;
use super::recent::Touched;
use super::transaction::Transaction;
use crate::mutant::{Mutant, mutated};
use crate::operations::{Cookie, Error, InodeNumber, Kind, Result};
use crate::schema::{self, Entry, GRANULE_BYTES, Inode, Locality, Moving, Place, Schema};

/// What an entry takes in a batch, about, with what is beside it.
const ENTRY_BYTES: usize = 1024;
/// What a key takes in a batch besides its place, about.
const KEY_BYTES: usize = 64;

/// How much may still be moved in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    entries: u64,
    bytes: usize,
}

impl Budget {
    /// Nothing is moved.
    pub fn none() -> Self {
        Self { entries: 0, bytes: 0 }
    }

    fn is_spent(&self) -> bool {
        self.entries == 0 || self.bytes == 0
    }

    fn spend(&mut self, entries: u64, bytes: usize) {
        self.entries = self.entries.saturating_sub(entries);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Whether all of an inode fits, by what it says of itself: what is below the directories in one it does not say.
    fn has_room_for(&self, inode: &Inode) -> bool {
        match inode.attributes.kind {
            Kind::Directory => {
                let most = self.entries.min((self.bytes / ENTRY_BYTES) as u64);
                inode.entries == 0 || inode.entries <= most && inode.attributes.links <= 2
            }
            _ => inode.attributes.size_bytes <= self.bytes as u64,
        }
    }
}

impl Volume {
    /// What a call moves along. Nothing where space is short: what is moved takes it twice for a while.
    pub(super) fn budget(&self) -> Budget {
        let bytes = self.options.write_bytes_max;
        match self.store.schema {
            Schema::Path if self.has_room(2 * bytes) => Budget { entries: self.options.moved_entries_max, bytes },
            _ => Budget::none(),
        }
    }

    /// Moves some of what lies where its path does not say; whether there may be more.
    pub(super) fn move_owed(&self) -> Result<bool> {
        if mutated(Mutant::NothingIsMoved) || self.store.is_past() || !self.may_move.load(Ordering::Acquire) {
            return Ok(false);
        }
        self.settle()?;
        // Whoever owes more says so again.
        self.may_move.store(false, Ordering::Release);
        let next = self.next_owed();
        self.may_move.fetch_or(!matches!(next, Ok(None)), Ordering::AcqRel);
        let Some(number) = next? else { return Ok(false) };
        let (entries, bytes) = (self.options.moved_entries_max.max(1), self.options.write_bytes_max);
        // What is moved takes space twice for a while; what waits for space is no worse than it was.
        if !self.has_room(2 * bytes) {
            return Ok(false);
        }
        let step = self.change(None, |transaction| match transaction.inode(number).map(|inode| inode.owes) {
            Ok(true) => transaction.rekey(number, &mut Budget { entries, bytes }),
            // Meanwhile it was removed.
            Ok(false) | Err(Error::Stale) => {
                transaction.batch.remove(&self.store.system, schema::debt_key(number));
                Ok(())
            }
            Err(error) => Err(error),
        });
        match step {
            Ok(()) => Ok(true),
            Err(Error::NoSpace) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How many inodes are to be moved, and how many of them are on the way.
    #[cfg(test)]
    pub(crate) fn owed(&self) -> Result<(usize, usize)> {
        let (mut owed, mut under_way) = (0, 0);
        for found in self.store.system.range(schema::debts()) {
            let inode = self.store.inode(schema::parse_debt_key(&found?.0)?)?;
            owed += 1;
            under_way += usize::from(inode.locality.place().is_some_and(|(_, moving)| moving.is_some()));
        }
        Ok((owed, under_way))
    }

    /// What is to be moved next: of the first that is listed, or of what it is in, what is highest up, so that nothing is moved twice.
    fn next_owed(&self) -> Result<Option<InodeNumber>> {
        let _gate = self.shared();
        let from = self.owed_from.load(Ordering::Relaxed);
        let (all, mut found) = (schema::debts(), None);
        // Those before were paid, but for new ones.
        for from in [schema::debt_key(InodeNumber(from)), all.start] {
            found = found.or_else(|| self.store.system.range(from..all.end.clone()).next());
        }
        let Some(first) = found else { return Ok(None) };
        let mut highest = schema::parse_debt_key(&first?.0)?;
        self.owed_from.store(highest.0, Ordering::Relaxed);
        let mut this = match self.inode(highest) {
            Err(Error::Stale) => return Ok(Some(highest)),
            inode => inode?,
        };
        let mut seen = BTreeSet::new();
        while let Place::Entry { parent, .. } = this.place {
            if !seen.insert(parent) {
                return Err(schema::damaged("a directory that is below itself"));
            }
            this = self.inode(parent)?;
            if this.owes {
                highest = parent;
            }
        }
        Ok(Some(highest))
    }
}

impl Transaction<'_> {
    /// Where an inode at a place is to have what it holds.
    pub fn wanted(&self, place: &Place, kind: Kind, number: InodeNumber) -> Result<Locality> {
        let store = self.store();
        match place {
            Place::Entry { parent, name } if store.schema == Schema::Path => {
                let key = self.locality(*parent)?.entry_key(store.seed, name);
                Ok(Locality::named(store.schema, &key, name.len(), kind, number))
            }
            _ => Ok(Locality::unnamed(store.schema, number)),
        }
    }

    /// Gives an inode a place. What it holds comes along as far as the budget goes.
    pub fn place(&mut self, number: InodeNumber, place: Place, budget: &mut Budget) -> Result<()> {
        self.inode(number)?.place = place;
        if self.store().schema == Schema::Inode {
            return Ok(());
        }
        let beside = self.take_beside(number, budget)?;
        let inode = self.inode(number)?;
        if inode.locality.place().is_some_and(|(_, moving)| moving.is_none()) && budget.has_room_for(inode) {
            self.rekey(number, budget)?;
        }
        if let Some(bytes) = beside {
            let key = self.inode(number)?.locality.data_key(0, 0);
            self.batch.insert(&self.store().data, key, bytes);
        }
        Ok(())
    }

    /// Moves what lies beside an inode's entry to its entry of now. Where it has none, that is left to the caller.
    fn take_beside(&mut self, number: InodeNumber, budget: &mut Budget) -> Result<Option<Vec<u8>>> {
        let store = self.store();
        let inode = self.inode(number)?.clone();
        let spot = match &inode.place {
            Place::Entry { parent, name } => Some(self.locality(*parent)?.spot(store.seed, name)),
            Place::Side => None,
        };
        if mutated(Mutant::MoveWithoutBeside) {
            return Ok(None);
        }
        let Some(before) = inode.beside.as_ref().filter(|before| spot.as_ref() != Some(before)) else {
            return Ok(None);
        };
        let bytes = self.volume.start_at(&store.moment(), &inode)?;
        let bytes = bytes.ok_or_else(|| schema::damaged("a beginning that is not beside its entry"))?;
        budget.spend(0, bytes.len());
        self.batch.remove(&store.entries, schema::beside_key(before, number));
        self.inode(number)?.beside = spot.clone();
        match spot {
            Some(spot) => self.batch.insert(&store.entries, schema::beside_key(&spot, number), bytes),
            None => return Ok(Some(bytes)),
        }
        Ok(None)
    }

    /// Moves what an inode holds to where it is to be, as far as the budget goes.
    fn rekey(&mut self, number: InodeNumber, budget: &mut Budget) -> Result<()> {
        let inode = self.inode(number)?;
        let (place, kind) = (inode.place.clone(), inode.attributes.kind);
        let (is_empty, before) = (inode.is_empty(), inode.locality.clone());
        let wanted = self.wanted(&place, kind, number)?;
        let (Some((from, moving)), Some((to, _))) = (before.place(), wanted.place()) else { return Ok(()) };
        if before == wanted {
            return Ok(());
        }
        if is_empty && moving.is_none() {
            self.inode(number)?.locality = wanted;
            return Ok(());
        }
        let moving = moving.cloned().unwrap_or(Moving { to: to.clone(), below: 0 });
        if *from == moving.to {
            // Only damage leads there: everything is where it belongs.
            self.inode(number)?.locality = Locality::by_path(number, moving.to, None);
            return Ok(());
        }
        let (from, target, begin) = (from.clone(), moving.to.clone(), moving.below);
        let mut end = match kind {
            Kind::Directory => self.move_entries(number, &from, moving, budget)?,
            _ => self.move_data(number, &from, moving, budget)?,
        };
        if mutated(Mutant::MoveInTwoBatches) {
            self.store().commit(&std::mem::take(&mut self.batch))?;
        }
        if mutated(Mutant::MoveForgetsEnd) {
            end = end.map(|_| begin);
        }
        let left = end.map(|below| (from, Some(Moving { to: target.clone(), below })));
        let (at, moving) = left.unwrap_or((target, None));
        self.inode(number)?.locality = Locality::by_path(number, at, moving);
        Ok(())
    }

    /// Moves entries of a directory; the cookie before which they are moved, or nothing where all are.
    fn move_entries(
        &mut self,
        number: InodeNumber,
        from: &Arc<[u8]>,
        moving: Moving,
        budget: &mut Budget,
    ) -> Result<Option<u64>> {
        let store = self.store();
        let old = Locality::by_path(number, from.clone(), None);
        let (to, mut below) = (moving.to, moving.below);
        let found = store.names_at(&store.moment(), &old, Cookie(below.saturating_sub(1)));
        for entry in found {
            let (key, value) = entry?;
            let (_, Cookie(cookie), name) = schema::parse_entry_key(store.schema, &key)?;
            // What has equal hashes goes together.
            if budget.is_spent() && cookie >= below {
                return Ok(Some(below));
            }
            below = cookie + 1;
            let moving = Some(Moving { to: to.clone(), below });
            self.inode(number)?.locality = Locality::by_path(number, from.clone(), moving);
            budget.spend(1, 2 * key.len() + value.len());
            self.batch.remove(&store.entries, &key);
            match Entry::decode(store.schema, &key, &value)? {
                Entry::Embedded(inode) => {
                    let (inner, place) = (inode.attributes.inode, inode.place.clone());
                    self.adopt(inode);
                    self.place(inner, place, budget)?;
                }
                Entry::Link { .. } if mutated(Mutant::MoveWithoutLinks) => {}
                Entry::Link { .. } => {
                    let key = self.locality(number)?.entry_key(store.seed, name);
                    self.batch.insert(&store.entries, key, value);
                }
            }
        }
        Ok(None)
    }

    /// Moves granules of a file, with their patches put on; the one before which they are moved, or nothing where all are.
    fn move_data(
        &mut self,
        number: InodeNumber,
        from: &Arc<[u8]>,
        moving: Moving,
        budget: &mut Budget,
    ) -> Result<Option<u64>> {
        let store = self.store();
        let old = Locality::by_path(number, from.clone(), None);
        let new = Locality::by_path(number, moving.to.clone(), None);
        let size_bytes = self.inode(number)?.attributes.size_bytes;
        let (mut end, mut is_left) = (moving.below, false);
        let mut pending: Option<Granule> = None;
        let mut found = store.data_at(&store.moment(), old.data_from(moving.below));
        loop {
            let next = found.next().transpose()?;
            let at = next.as_ref().map(|(key, _)| schema::part_of(key)).transpose()?;
            if let Some(whole) = pending.take_if(|granule| at.is_none_or(|(index, _)| index != granule.index)) {
                let whole = whole.put_together(size_bytes)?;
                let bytes = whole.parts.iter().map(|(_, value)| value.len() + 2 * (from.len() + KEY_BYTES)).sum();
                // One is moved in any case, and no more than fit a batch.
                if end > moving.below && (budget.is_spent() || bytes > budget.bytes) {
                    is_left = true;
                    break;
                }
                end = whole.index + 1;
                budget.spend(0, bytes);
                for (part, value) in whole.parts {
                    self.batch.insert(&store.data, new.data_key(whole.index, part), value);
                }
            }
            let (Some((_, value)), Some((index, part))) = (next, at) else { break };
            let granule = pending.get_or_insert(Granule { index, parts: Vec::new() });
            if part == 0 || !mutated(Mutant::MoveWithoutPatches) {
                granule.parts.push((part, value.to_vec()));
            }
        }
        // What was in memory had its patches apart.
        self.touched.push(Touched::Gone(number, moving.below..end));
        if end > moving.below && !mutated(Mutant::MoveLeavesOld) {
            let keys = old.data_between((moving.below, 0), (end - 1, u8::MAX));
            keys.into_iter().for_each(|keys| self.batch.remove_range(&store.data, keys));
        }
        Ok(is_left.then_some(end))
    }
}

impl Inode {
    /// Whether it holds nothing that lies under its own keys.
    fn is_empty(&self) -> bool {
        match self.attributes.kind {
            Kind::Directory => self.entries == 0,
            Kind::File | Kind::Symlink => {
                let size = self.attributes.size_bytes;
                size == 0 || self.beside.is_some() && !self.is_patched && size <= GRANULE_BYTES
            }
            _ => true,
        }
    }
}
