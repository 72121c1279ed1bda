//! The first granule's bytes, or the target of a symbolic link: beside an entry where they are few, in the tree `data` otherwise.

use betree::Snapshot;

use super::{Transaction, Volume};
use crate::mutant::{Mutant, mutated};
use crate::operations::{InodeNumber, Result};
use crate::schema::{self, BESIDE_BYTES, Inode, Place, Spot};
use crate::volume::recent::Touched;

impl Volume {
    /// What an inode has there at a moment, without patches.
    pub(super) fn start_at(&self, at: &Snapshot, inode: &Inode) -> Result<Option<Vec<u8>>> {
        let number = inode.attributes.inode;
        let spot = match self.spot_now(inode) {
            spot @ Some(_) if inode.beside.is_some() && mutated(Mutant::BesideFollowsName) => spot,
            _ => inode.beside,
        };
        Ok(match spot {
            Some(spot) => at.get(&self.store.entries, schema::beside_key(spot, number))?,
            None => at.get(&self.store.data, schema::data_key(number, 0, 0))?,
        })
    }

    /// The spot beside the only name of an inode.
    fn spot_now(&self, inode: &Inode) -> Option<Spot> {
        match &inode.place {
            Place::Entry { parent, name } => {
                Some(Spot { directory: *parent, cookie: schema::cookie(self.store.seed, name) })
            }
            Place::Side => None,
        }
    }
}

impl Transaction<'_> {
    /// Puts bytes there, in place of what was there. They go where they belong by their length; nothing is read.
    pub(in crate::volume) fn put_start(&mut self, number: InodeNumber, bytes: &[u8]) -> Result<()> {
        let volume = self.volume;
        let is_new = self.is_new(number);
        let inode = self.inode(number)?;
        let spot = volume.spot_now(inode).filter(|_| bytes.len() <= BESIDE_BYTES);
        let before = std::mem::replace(&mut inode.beside, spot);
        let was_elsewhere = !is_new && inode.attributes.size_bytes > 0 && before != spot;
        if was_elsewhere && !mutated(Mutant::BesideTwice) {
            match before {
                Some(before) => self.batch.remove(&volume.store.entries, schema::beside_key(before, number)),
                None => self.batch.remove(&volume.store.data, schema::data_key(number, 0, 0)),
            }
        }
        match spot {
            Some(spot) => {
                self.touched.push(Touched::Gone(number, 0..1));
                self.batch.insert(&volume.store.entries, schema::beside_key(spot, number), bytes);
                if mutated(Mutant::BesideEarly) {
                    volume.store.commit(&std::mem::take(&mut self.batch))?;
                }
            }
            None => self.put_granule(number, 0, bytes),
        }
        Ok(())
    }

    /// Removes what lies beside an entry.
    pub(super) fn drop_beside(&mut self, number: InodeNumber) -> Result<()> {
        if let Some(spot) = self.inode(number)?.beside.take() {
            self.batch.remove(&self.volume.store.entries, schema::beside_key(spot, number));
        }
        Ok(())
    }
}
