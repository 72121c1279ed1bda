//! Patches on a block: what writes of parts of it said, newest first where they overlap, without what is below.
//!
//! A write of a few bytes is an upsert with one patch, and reads nothing. Patches on patches are patches again, so the value of a
//! block's key is a sorted list of pieces that neither overlap nor, where both have bytes, touch. Its length is bounded by
//! the block's: at most 5 bytes for each 2 of it.

use betree::{Growth, Operator};

use crate::mutant::{Mutant, mutated};
use crate::rules::BLOCK_BYTES;

const BLOCK: usize = BLOCK_BYTES as usize;
/// The number of the operator in the store.
pub(crate) const PATCH: u16 = 16;

const HEADER_BYTES: usize = 4;
/// A piece of zeroes has only a header.
const ZEROES: u16 = 0x8000;

/// A part of a block: bytes, or as many zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece<'a> {
    Bytes(usize, &'a [u8]),
    Zeroes(usize, usize),
}

impl<'a> Piece<'a> {
    pub fn begin(self) -> usize {
        match self {
            Self::Bytes(begin, _) | Self::Zeroes(begin, _) => begin,
        }
    }

    pub fn end(self) -> usize {
        match self {
            Self::Bytes(begin, bytes) => begin + bytes.len(),
            Self::Zeroes(begin, length) => begin + length,
        }
    }

    /// The part of it in a range, if there is any.
    fn clip(self, begin: usize, end: usize) -> Option<Self> {
        let (from, to) = (self.begin().max(begin), self.end().min(end));
        (from < to).then(|| match self {
            Self::Bytes(start, bytes) => Self::Bytes(from, &bytes[from - start..to - start]),
            Self::Zeroes(..) => Self::Zeroes(from, to - from),
        })
    }

    fn encode(self, to: &mut Vec<u8>) {
        let length = (self.end() - self.begin()) as u16;
        to.extend((self.begin() as u16).to_le_bytes());
        match self {
            Self::Bytes(_, bytes) => {
                to.extend(length.to_le_bytes());
                to.extend(bytes);
            }
            Self::Zeroes(..) => to.extend((length | ZEROES).to_le_bytes()),
        }
    }
}

/// One patch with these bytes.
pub(crate) fn bytes(begin: usize, bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER_BYTES + bytes.len());
    Piece::Bytes(begin, bytes).encode(&mut value);
    value
}

/// One patch of zeroes.
pub(crate) fn zeroes(begin: usize, length: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER_BYTES);
    Piece::Zeroes(begin, length).encode(&mut value);
    value
}

/// Bytes with zeroes around them: all of a block.
pub(crate) fn whole(begin: usize, bytes: &[u8]) -> Vec<u8> {
    let end = begin + bytes.len();
    let mut value = Vec::with_capacity(3 * HEADER_BYTES + bytes.len());
    if begin > 0 {
        Piece::Zeroes(0, begin).encode(&mut value);
    }
    Piece::Bytes(begin, bytes).encode(&mut value);
    if end < BLOCK {
        Piece::Zeroes(end, BLOCK - end).encode(&mut value);
    }
    value
}

/// The pieces of a value; `None` where it is none.
pub(crate) fn pieces(mut value: &[u8]) -> Option<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut last = 0;
    while let Some(([b0, b1, l0, l1], rest)) = value.split_first_chunk::<HEADER_BYTES>() {
        let begin = usize::from(u16::from_le_bytes([*b0, *b1]));
        let header = u16::from_le_bytes([*l0, *l1]);
        let length = usize::from(header & !ZEROES);
        if begin < last || length == 0 || begin + length > BLOCK {
            return None;
        }
        last = begin + length;
        if header & ZEROES != 0 {
            pieces.push(Piece::Zeroes(begin, length));
            value = rest;
        } else {
            let (bytes, rest) = rest.split_at_checked(length)?;
            pieces.push(Piece::Bytes(begin, bytes));
            value = rest;
        }
    }
    value.is_empty().then_some(pieces)
}

/// The patches that do `older` and then `newer`.
fn merge(older: &[Piece<'_>], newer: &[Piece<'_>]) -> Vec<u8> {
    let (older, newer) = if mutated(Mutant::PatchesReversed) { (newer, older) } else { (older, newer) };
    let mut merged: Vec<Piece<'_>> = Vec::with_capacity(older.len() + newer.len());
    let mut gap_begin = 0;
    let mut rest = older;
    // What is older stays in the gaps between the newer.
    let ends = newer.iter().map(|piece| Some(*piece)).chain([None]);
    for next in ends {
        let gap_end = next.map_or(BLOCK, Piece::begin);
        while let Some((first, after)) = rest.split_first() {
            if first.begin() >= gap_end {
                break;
            }
            merged.extend(first.clip(gap_begin, gap_end));
            if first.end() > gap_end {
                break;
            }
            rest = after;
        }
        if let Some(piece) = next {
            merged.push(piece);
            gap_begin = piece.end();
        }
    }
    encode(&merged)
}

/// Pieces in order as a value; those of one kind that touch become one.
fn encode(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut value = Vec::new();
    let mut rest = pieces;
    while let Some(first) = rest.first().copied() {
        let is_zeroes = matches!(first, Piece::Zeroes(..));
        let mut end = first.begin();
        let touching = rest.iter().take_while(|piece| {
            let joins = piece.begin() == end && matches!(piece, Piece::Zeroes(..)) == is_zeroes;
            end = piece.end();
            joins
        });
        let count = touching.count();
        let (run, after) = rest.split_at(count);
        let end = run.last().map_or(first.end(), |piece| piece.end());
        if is_zeroes {
            Piece::Zeroes(first.begin(), end - first.begin()).encode(&mut value);
        } else {
            value.extend((first.begin() as u16).to_le_bytes());
            value.extend(((end - first.begin()) as u16).to_le_bytes());
            for piece in run {
                if let Piece::Bytes(_, bytes) = piece {
                    value.extend(*bytes);
                }
            }
        }
        rest = after;
    }
    value
}

/// The operator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patches;

impl Operator for Patches {
    fn apply(&self, existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        // A value that is none is left for fsck to find.
        match (existing.map(pieces), pieces(operand)) {
            (_, None) | (Some(None), _) => existing.map(<[u8]>::to_vec),
            (None, Some(_)) => Some(operand.to_vec()),
            (Some(Some(older)), Some(newer)) => Some(merge(&older, &newer)),
        }
    }

    fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(merge(&pieces(older)?, &pieces(newer)?))
    }

    fn growth(&self, operand: &[u8]) -> Growth {
        match pieces(operand) {
            Some(_) => Growth::UpTo(BLOCK * (HEADER_BYTES + 1)),
            None => Growth::Invalid("patches that overlap, or leave their block"),
        }
    }
}

/// Puts patches on a block's bytes, which are as many as are wanted from `begin` on.
pub(crate) fn put_on(pieces: &[Piece<'_>], begin: usize, block: &mut [u8]) {
    let end = begin + block.len();
    for piece in pieces.iter().filter_map(|piece| piece.clip(begin, end)) {
        let target = &mut block[piece.begin() - begin..piece.end() - begin];
        match piece {
            Piece::Bytes(_, bytes) => target.copy_from_slice(bytes),
            Piece::Zeroes(..) => target.fill(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one() -> impl Strategy<Value = Vec<u8>> {
        (0..BLOCK, 1..200usize, any::<Option<u8>>()).prop_map(|(begin, length, byte)| {
            let length = length.min(BLOCK - begin);
            match byte {
                Some(byte) => bytes(begin, &vec![byte; length]),
                None => zeroes(begin, length),
            }
        })
    }

    proptest! {
        #[test]
        fn patches_on_patches_are_writes_in_order(list in prop::collection::vec(one(), 1..40), split in 0usize..40) {
            let mut block = vec![7; BLOCK];
            for patch in &list {
                put_on(&pieces(patch).unwrap(), 0, &mut block);
            }
            let fold = |list: &[Vec<u8>]| list.iter().fold(None, |value: Option<Vec<u8>>, patch| Patches.apply(value.as_deref(), patch));
            // Joined in any groups they do the same.
            let (first, second) = list.split_at(split.min(list.len()));
            let whole = fold(&list).unwrap();
            let grouped = match (fold(first), fold(second)) {
                (Some(older), Some(newer)) => Patches.join(&older, &newer).unwrap(),
                (one, other) => one.or(other).unwrap(),
            };
            prop_assert_eq!(&grouped, &whole);
            let mut patched = vec![7; BLOCK];
            put_on(&pieces(&whole).unwrap(), 0, &mut patched);
            prop_assert_eq!(patched, block);
        }

        #[test]
        fn any_bytes_are_patches_or_none(value: Vec<u8>, other: Vec<u8>) {
            let _ = (pieces(&value), Patches.apply(Some(&value), &other), Patches.join(&value, &other));
        }
    }
}
