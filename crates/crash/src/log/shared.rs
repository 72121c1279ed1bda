//! Contents that a log has already: each block is written down once.

use std::collections::BTreeMap;

use twox_hash::XxHash3_128;

/// What is shared: blocks of so many bytes, between multiples of it on the device, or the rest of one.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Blocks that are remembered: 16 GiB, by some 200 MB of names. Later ones are written down each time.
const BLOCKS_MAX: usize = 4 << 20;

static ZEROES: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Whether all bytes of a block are zero.
pub(super) fn is_zero(block: &[u8]) -> bool {
    ZEROES.get(..block.len()) == Some(block)
}

/// What a part of a write is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// So many zeroes.
    Zeroes(u64),
    /// So many bytes that begin at this place of the file.
    There(u64, u64),
    /// So many that are not there.
    New(u64),
}

/// Which blocks are where in the file.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// By a hash of 128 bits: who logs is not an adversary.
    places: BTreeMap<u128, u64>,
}

impl Blocks {
    /// What a write of these bytes to `offset_bytes` consists of, neighbours of a kind as one.
    pub(super) fn parts(&self, offset_bytes: u64, bytes: &[u8]) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for block in split(offset_bytes, bytes) {
            let len = block.len() as u64;
            let there = || self.places.get(&XxHash3_128::oneshot(block));
            let part = if is_zero(block) {
                Part::Zeroes(len)
            } else {
                there().map_or(Part::New(len), |place| Part::There(*place, len))
            };
            match (parts.last_mut(), part) {
                (Some(Part::Zeroes(before)), Part::Zeroes(_)) => *before += len,
                (Some(Part::New(before)), Part::New(_)) => *before += len,
                (Some(Part::There(place, before)), Part::There(next, _)) if *place + *before == next => *before += len,
                _ => parts.push(part),
            }
        }
        parts
    }

    /// The new ones among these parts are in the file from `place` on.
    pub(super) fn keep(&mut self, offset_bytes: u64, bytes: &[u8], parts: &[Part], mut place: u64) {
        let mut first = 0;
        for part in parts {
            let (Part::Zeroes(len) | Part::There(_, len) | Part::New(len)) = *part;
            if matches!(part, Part::New(_)) {
                let new = bytes.get(first as usize..(first + len) as usize).unwrap_or_default();
                for block in split(offset_bytes + first, new) {
                    if self.places.len() < BLOCKS_MAX {
                        self.places.entry(XxHash3_128::oneshot(block)).or_insert(place);
                    }
                    place += block.len() as u64;
                }
            }
            first += len;
        }
    }
}

/// Bytes that go to `offset_bytes` of the device, block by block.
fn split(offset_bytes: u64, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let block = BLOCK_BYTES as u64;
    let head = (block - offset_bytes % block) % block;
    let (head, rest) = bytes.split_at((head as usize).min(bytes.len()));
    std::iter::once(head).filter(|head| !head.is_empty()).chain(rest.chunks(BLOCK_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_shared_where_they_lie_on_the_device() {
        let mut blocks = Blocks::default();
        let letters = |text: &str| -> Vec<u8> {
            text.bytes().flat_map(|letter| [if letter == b'.' { 0 } else { letter }; BLOCK_BYTES]).collect()
        };
        let bytes = letters("ab..c");
        let parts = blocks.parts(0, &bytes);
        assert_eq!(parts, [Part::New(8192), Part::Zeroes(8192), Part::New(4096)]);
        blocks.keep(0, &bytes, &parts, 100);
        let again = blocks.parts(40960, &letters("abxc.b"));
        let there = |block: u64, count: u64| Part::There(100 + block * 4096, count * 4096);
        assert_eq!(again, [there(0, 2), Part::New(4096), there(2, 1), Part::Zeroes(4096), there(1, 1)]);
        // Half a block is another block.
        assert_eq!(blocks.parts(512, &letters("a")), [Part::New(4096)]);
    }
}
