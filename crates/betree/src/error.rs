//! What can go wrong in a store.

use storage::StorageError;

use crate::mutant::{Mutant, mutated};

/// The format that this program writes.
pub(crate) const FORMAT_VERSION: u32 = 7;

/// The result of an operation on a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage below failed.
    #[error("storage: {0}")]
    Storage(#[from] StorageError),
    /// A block is not what its checksum or its form says it should be.
    #[error("corrupt: {what}, block of {stored_bytes} bytes at {offset_bytes}")]
    Corrupt {
        /// What is wrong.
        what: String,
        /// Where.
        offset_bytes: u64,
        /// How long.
        stored_bytes: u64,
    },
    /// There is no store on this storage.
    #[error("no valid superblock: this is no store, or both copies of it are damaged")]
    NotAStore,
    /// There is a store already.
    #[error("there is a store on this storage already: open it, or clear its first 64 KiB")]
    AlreadyAStore,
    /// The storage is too small for a store with these options.
    #[error("the storage has {capacity_bytes} bytes, and a store with these options needs {needed_bytes}")]
    TooSmall {
        /// What there is.
        capacity_bytes: u64,
        /// What is needed.
        needed_bytes: u64,
    },
    /// Another version of the program made the store.
    #[error("the store has format {version} and features {features:#x}; this program reads format {}", FORMAT_VERSION)]
    Unsupported {
        /// Format version of the store.
        version: u32,
        /// Features that a program must know to use it.
        features: u64,
    },
    /// No room: delete something; deletes succeed on a full store.
    #[error("the store is full")]
    Full,
    /// A key, a value or a batch is larger than the store takes.
    #[error("{what} of {bytes} bytes: at most {max_bytes} are possible")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How large.
        bytes: usize,
        /// The bound.
        max_bytes: usize,
    },
    /// An upsert names an operator that was not registered.
    #[error("upsert operator {id} is not registered: give it to Options::operator")]
    UnknownOperator {
        /// Its number.
        id: u16,
    },
    /// An operand that its operator does not understand.
    #[error("upsert operator {id} does not take this operand: {what}")]
    InvalidOperand {
        /// The operator's number.
        id: u16,
        /// What is wrong with the operand.
        what: &'static str,
    },
    /// A condition of a batch did not hold; nothing of the batch happened.
    #[error("a condition of the batch does not hold")]
    Conflict,
    /// The name is not in the store.
    #[error("there is no {what} {name:?}")]
    NoSuchName {
        /// A tree or a snapshot.
        what: &'static str,
        /// The name asked for.
        name: String,
    },
    /// The name is taken.
    #[error("there is a {what} {name:?} already")]
    NameTaken {
        /// A tree or a snapshot.
        what: &'static str,
        /// The name asked for.
        name: String,
    },
    /// A tree, a batch or a view of one store was given to another.
    #[error("a tree, a batch or a view of another store")]
    OtherStore,
    /// The tree was removed, after this handle of it was made.
    #[error("the tree was removed")]
    TreeRemoved,
    /// The store was opened to be read.
    #[error("the store was opened read-only")]
    ReadOnly,
    /// An earlier write failed, so nothing more is written: open the store again.
    #[error("an earlier write failed; open the store again, which recovers what was acknowledged")]
    PreviousIo,
}

impl Error {
    /// Whether something could not be read as it was written. It concerns whoever needs that, and nobody else.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Storage(_)) && !mutated(Mutant::DamageSpreads)
    }
}
