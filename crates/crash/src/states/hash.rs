//! A hash of everything that can be read, kept from moment to moment.

use std::collections::BTreeMap;

use twox_hash::XxHash3_64;

use crate::write::{LoggedWrite, Piece};

/// The exclusive or of a hash for each unit that is not zero, of its place and bytes: what changes costs, not what is there.
pub(super) struct ImageHash {
    unit_bytes: u64,
    units: BTreeMap<u64, u64>,
    all: u64,
}

impl ImageHash {
    pub(super) fn new(unit_bytes: u32) -> Self {
        Self { unit_bytes: u64::from(unit_bytes), units: BTreeMap::new(), all: 0 }
    }

    /// Bytes become durable.
    pub(super) fn settle(&mut self, write: &LoggedWrite) {
        for piece in write.whole() {
            let unit = self.unit_bytes;
            let range = piece.offset_bytes / unit..(piece.offset_bytes + piece.len_bytes) / unit;
            let gone: Vec<u64> = self.units.range(range).map(|(number, _)| *number).collect();
            for number in gone {
                self.all ^= self.units.remove(&number).unwrap_or(0);
            }
            for (number, hash) in hashes(&piece, unit) {
                self.all ^= hash;
                self.units.insert(number, hash);
            }
        }
    }

    /// Of the durable bytes with `pieces` put over them.
    pub(super) fn with(&self, pieces: &[Piece<'_>]) -> u64 {
        let unit = self.unit_bytes;
        let mut changed: BTreeMap<u64, u64> = BTreeMap::new();
        for piece in pieces {
            let range = piece.offset_bytes / unit..(piece.offset_bytes + piece.len_bytes) / unit;
            if piece.bytes.is_none() {
                // Only what is not zero already can change, be it durable or of an older piece.
                let durable: Vec<u64> = self.units.range(range.clone()).map(|(number, _)| *number).collect();
                for number in durable {
                    changed.insert(number, 0);
                }
                for (_, hash) in changed.range_mut(range) {
                    *hash = 0;
                }
            } else {
                for number in range {
                    changed.insert(number, 0);
                }
                changed.extend(hashes(piece, unit));
            }
        }
        let of_durable = |number: &u64| self.units.get(number).copied().unwrap_or(0);
        changed.iter().fold(self.all, |all, (number, hash)| all ^ of_durable(number) ^ hash)
    }
}

/// Of each unit that is not zero.
fn hashes<'a>(piece: &Piece<'a>, unit_bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<'a> {
    let first = piece.offset_bytes / unit_bytes;
    let units = piece.bytes.unwrap_or_default().chunks(unit_bytes as usize);
    units.zip(first..).filter(|(bytes, _)| bytes.iter().any(|byte| *byte != 0)).map(|(bytes, number)| {
        // A hash of 0 would make a unit look like zeroes.
        (number, XxHash3_64::oneshot_with_seed(number, bytes).max(1))
    })
}
