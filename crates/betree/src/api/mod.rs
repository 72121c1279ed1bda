//! What a user of the crate sees.

mod batch;
mod closed;
mod database;
mod iter;
mod left;
mod repair;
mod snapshot;
mod stats;
mod ticket;
mod tree;

pub use batch::Batch;
pub use closed::{dump, verify};
pub use database::Database;
pub use iter::{Iter, Keys};
pub use repair::{Lost, Repaired, repair};
pub use snapshot::Snapshot;
pub use stats::{Latency, Stats};
pub use ticket::Ticket;
pub use tree::Tree;

/// A value.
pub type Value = Vec<u8>;
/// A key and its value.
pub type Entry = (Vec<u8>, Value);
