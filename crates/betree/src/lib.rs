//! A Bε-tree engine.
//!
//! A Bε-tree is a B-tree whose inner nodes hold *messages* on their way to the leaves. Changing a key writes a small
//! message near the root and reads nothing; messages move down many at a time, so the work of rewriting a leaf is
//! shared by all that arrive in it together. Deleting a range of any size is one message. Entries lie in key order, so
//! a scan reads the storage in long runs.
//!
//! ```text
//!             root     pivots        g           p
//!                      buffers   a+ c-  |  h+ [j..m)-  |  q+        newest messages
//!                              /            |             \
//!             leaves      a b c d f     g h i j k l m    p q r s    values, in basements
//! ```
//!
//! A flush takes all that waits for one child and merges it into the child: here `h` gets its new value, and `j`, `k`
//! and `l` go away.
//!
//! `docs/betree-format.md` has the format and the rules that make it survive power cuts.
//!
//! ```
//! use betree::{Add, Batch, Database, Durability, Options};
//!
//! let storage = storage::Memory::new(64 << 20);
//! let options = Options::default().operator(1, Add);
//! let database = Database::create(storage, options, 0x5eed)?;
//! let tree = database.tree("visits")?;
//!
//! let mut batch = Batch::new();
//! batch.insert(&tree, "page/1", "first");
//! batch.upsert(&tree, "count", 1, 1u64.to_le_bytes()); // adds without reading
//! database.commit(&batch, Durability::Sync)?;
//!
//! let before = database.snapshot();
//! tree.remove_range("page/".."page0", Durability::Sync)?;
//! assert_eq!(tree.get("page/1")?, None);
//! assert_eq!(before.get(&tree, "page/1")?, Some(b"first".to_vec()));
//! assert_eq!(tree.iter().count(), 1);
//! # Ok::<(), betree::Error>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(test)]
extern crate self as betree;

mod api;
mod bytes;
mod cache;
mod catalog;
mod changes;
mod checkpoint;
mod deleted;
mod engine;
mod error;
mod extents;
mod families;
mod flush;
mod io;
mod log;
mod memtable;
mod merge;
mod mutant;
mod nodes;
mod options;
mod pacing;
#[cfg(test)]
mod proof;
mod refusal;
mod shared;
mod space;
mod step;
mod superblock;
mod tree;
mod turns;
mod values;

pub use api::{
    Batch, Database, Entry, Iter, Keys, Latency, Lost, Repaired, Snapshot, Stats, Ticket, Tree, Value, dump, repair,
    verify,
};
pub use bytes::operator::{Add, Append, Growth, Operator, Operators, Patch};
pub use error::{Error, Result};
pub use flush::{ChildLoad, FlushPlan, FlushPolicy, NodeLoad};
pub use io::Compression;
pub use options::{Durability, KEY_BYTES_MAX, Options, VALUE_BYTES_MAX};
pub use pacing::{Pacing, PacingLoad};
pub use shared::SharedValue;
