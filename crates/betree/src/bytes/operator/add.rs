//! Counters.

use super::{Growth, Operator};

/// Adds to a counter: value and operand are 64-bit little-endian numbers, and the sum wraps around. A value that is
/// absent or of another length counts as 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Add;

impl Add {
    fn number(bytes: &[u8]) -> u64 {
        bytes.try_into().map(u64::from_le_bytes).unwrap_or(0)
    }
}

impl Operator for Add {
    fn apply(&self, existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let sum = existing.map_or(0, Self::number).wrapping_add(Self::number(operand));
        Some(sum.to_le_bytes().to_vec())
    }

    fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.apply(Some(older), newer)
    }

    fn growth(&self, _operand: &[u8]) -> Growth {
        Growth::UpTo(size_of::<u64>())
    }
}
