//! What upserts do to values.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A rule by which an operand changes a value. It must be a pure function, and stay the same function as long as the
/// store lives: the engine applies it whenever the operand meets its value, perhaps weeks later and more than once for
/// different readers.
pub trait Operator: Send + Sync {
    /// The value that `operand` makes of `existing`; `None` deletes the key.
    fn apply(&self, existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>>;

    /// One operand that does what `older` and then `newer` do, where there is one. It keeps what waits for a key that
    /// is changed often short.
    fn join(&self, _older: &[u8], _newer: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

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
}

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
}

/// The registered operators by number.
#[derive(Clone, Default)]
pub struct Operators {
    table: BTreeMap<u16, Arc<dyn Operator>>,
}

impl Operators {
    /// Gives a number to an operator.
    pub fn register(&mut self, id: u16, operator: Arc<dyn Operator>) {
        self.table.insert(id, operator);
    }

    /// The operator with a number.
    pub fn get(&self, id: u16) -> Option<&dyn Operator> {
        self.table.get(&id).map(Arc::as_ref)
    }
}
