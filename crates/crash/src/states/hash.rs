//! A hash of everything that can be read, kept from moment to moment.

use std::collections::BTreeMap;

use crate::write::{LoggedWrite, Piece};

/// The exclusive or of a term for each unit that is not zero, of its place and bytes: what changes costs, not what is there.
pub(super) struct ImageHash {
    unit_bytes: u64,
    /// By the unit's number.
    terms: BTreeMap<u64, u64>,
    all: u64,
}

impl ImageHash {
    pub(super) fn new(unit_bytes: u32) -> Self {
        Self { unit_bytes: u64::from(unit_bytes), terms: BTreeMap::new(), all: 0 }
    }

    /// Bytes become durable.
    pub(super) fn settle(&mut self, write: &LoggedWrite) {
        for piece in write.whole() {
            let gone: Vec<u64> = self.terms.range(self.units(&piece)).map(|(number, _)| *number).collect();
            for number in gone {
                self.all ^= self.terms.remove(&number).unwrap_or(0);
            }
            piece.digests(self.unit_bytes, |number, digest| {
                let term = term(number, digest);
                self.all ^= term;
                self.terms.insert(number, term);
            });
        }
    }

    fn units(&self, piece: &Piece<'_>) -> std::ops::Range<u64> {
        let unit = self.unit_bytes;
        piece.offset_bytes / unit..(piece.offset_bytes + piece.len_bytes) / unit
    }

    /// Of the durable bytes with `pieces` put over them.
    pub(super) fn with(&self, pieces: &[Piece<'_>]) -> u64 {
        if overlap(pieces) {
            return self.with_one_over_the_other(pieces);
        }
        let mut all = self.all;
        for piece in pieces {
            for (_, term) in self.terms.range(self.units(piece)) {
                all ^= term;
            }
            piece.digests(self.unit_bytes, |number, digest| all ^= term(number, digest));
        }
        all
    }

    fn with_one_over_the_other(&self, pieces: &[Piece<'_>]) -> u64 {
        let mut changed: BTreeMap<u64, u64> = BTreeMap::new();
        for piece in pieces {
            let units = self.units(piece);
            // Only what is not zero already can change, be it durable or of an older piece.
            let durable: Vec<u64> = self.terms.range(units.clone()).map(|(number, _)| *number).collect();
            for number in durable {
                changed.insert(number, 0);
            }
            for (_, term) in changed.range_mut(units) {
                *term = 0;
            }
            piece.digests(self.unit_bytes, |number, digest| {
                changed.insert(number, term(number, digest));
            });
        }
        let of_durable = |number: &u64| self.terms.get(number).copied().unwrap_or(0);
        changed.iter().fold(self.all, |all, (number, term)| all ^ of_durable(number) ^ term)
    }
}

/// Whether two pieces have a byte in common.
fn overlap(pieces: &[Piece<'_>]) -> bool {
    let range = |piece: &Piece<'_>| (piece.offset_bytes, piece.offset_bytes + piece.len_bytes);
    let mut ranges: Vec<(u64, u64)> = pieces.iter().map(range).collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| matches!(pair, [(_, end), (start, _)] if start < end))
}

/// What a unit of these bytes at this place adds: the finaliser of MurmurHash3 over both, so that neither changes of places nor of
/// bytes cancel each other out.
fn term(number: u64, digest: u64) -> u64 {
    let mut mixed = digest ^ (number.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}
