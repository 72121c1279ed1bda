//! What upserts do to values: one built-in operator a file.

mod add;
mod append;
mod patch;

pub use add::Add;
pub use append::Append;
pub use patch::Patch;

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

    /// How long a value can become by an operand. It is asked when a batch is committed, for results longer than
    /// [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) are refused then.
    fn growth(&self, _operand: &[u8]) -> Growth {
        Growth::Unknown
    }
}

/// How long a value can become by an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// No longer than this, or than it was.
    UpTo(usize),
    /// Longer by so much at most.
    By(usize),
    /// That depends on the value.
    Unknown,
    /// The bytes are no operand, and why: the batch is refused.
    Invalid(&'static str),
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
