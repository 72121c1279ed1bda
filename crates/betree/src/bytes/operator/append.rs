//! Values that grow at their end.

use super::{Growth, Operator};

/// Appends the operand to the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append;

impl Operator for Append {
    fn apply(&self, existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        Some([existing.unwrap_or_default(), operand].concat())
    }

    fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.apply(Some(older), newer)
    }

    fn growth(&self, operand: &[u8]) -> Growth {
        Growth::By(operand.len())
    }
}
