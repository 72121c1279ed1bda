//! The first granule's bytes, or the target of a symbolic link: beside an entry where they are few, in the tree `data` otherwise.

use betree::Snapshot;

use super::{Transaction, Volume};
use crate::mutant::{Mutant, mutated};
use crate::operations::{InodeNumber, Result};
use crate::schema::{self, BESIDE_BYTES, Inode, Place};
use crate::volume::recent::Touched;

impl Volume {
    /// What an inode has there at a moment, without patches.
    pub(in crate::volume) fn start_at(&self, at: &Snapshot, inode: &Inode) -> Result<Option<Vec<u8>>> {
        let number = inode.attributes.inode;
        let spot = match &inode.place {
            Place::Entry { parent, name } if inode.beside.is_some() && mutated(Mutant::BesideFollowsName) => {
                Some(self.store.locality_at(at, *parent)?.spot(self.store.seed, name))
            }
            _ => inode.beside.clone(),
        };
        Ok(match spot {
            Some(spot) => at.get(&self.store.entries, schema::beside_key(&spot, number))?,
            None => at.get(&self.store.data, inode.locality.data_key(0, 0))?,
        })
    }
}

impl Transaction<'_> {
    /// Puts bytes there, in place of what was there. They go where they belong by their length; nothing is read.
    pub(in crate::volume) fn put_start(&mut self, number: InodeNumber, bytes: &[u8]) -> Result<()> {
        let volume = self.volume;
        let is_new = self.is_new(number);
        let spot = match self.inode(number)?.place.clone() {
            Place::Entry { parent, name } if bytes.len() <= BESIDE_BYTES => {
                Some(self.locality(parent)?.spot(volume.store.seed, &name))
            }
            _ => None,
        };
        let inode = self.inode(number)?;
        let before = std::mem::replace(&mut inode.beside, spot.clone());
        let was_elsewhere = !is_new && inode.attributes.size_bytes > 0 && before != spot;
        if was_elsewhere && !mutated(Mutant::BesideTwice) {
            match before {
                Some(before) => self.batch.remove(&volume.store.entries, schema::beside_key(&before, number)),
                None => {
                    let key = inode.locality.data_key(0, 0);
                    self.batch.remove(&volume.store.data, key);
                }
            }
        }
        match spot {
            Some(spot) => {
                self.touched.push(Touched::Gone(number, 0..1));
                self.batch.insert(&volume.store.entries, schema::beside_key(&spot, number), bytes);
                if mutated(Mutant::BesideEarly) {
                    volume.store.commit(&std::mem::take(&mut self.batch))?;
                }
            }
            None => self.put_granule(number, 0, bytes)?,
        }
        Ok(())
    }

    /// Removes what lies beside an entry.
    pub(super) fn drop_beside(&mut self, number: InodeNumber) -> Result<()> {
        if let Some(spot) = self.inode(number)?.beside.take() {
            self.batch.remove(&self.volume.store.entries, schema::beside_key(&spot, number));
        }
        Ok(())
    }
}
