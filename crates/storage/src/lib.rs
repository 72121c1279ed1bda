//! The seam between a storage engine and what keeps its bytes.
//!
//! A [`Storage`] is a fixed number of bytes in blocks of [`BLOCK_BYTES`]. Work goes through a [`Queue`]: submit reads,
//! writes, flushes and discards, then take completions, which may come in any order. An engine opens one queue for
//! each thread and cannot tell what is below:
//!
//! | storage | what it is |
//! |---|---|
//! | [`Memory`] | pages in memory |
//! | [`File`] | a file or a block device, through io_uring and without the page cache where that is possible |
//! | [`Modelled`] | a modelled SSD, disk or card in virtual time, with power cuts |
//! | [`Faulty`] | a wrapper that fails, shortens, delays or corrupts the n-th request |
//! | [`Recorded`] | a wrapper that keeps what a power cut could leave at each moment |
//! | [`Unflushed`] | a wrapper that lets no flush through |
//!
//! # What survives a power cut
//!
//! The rule is NVMe's (NVM command set, Flush): a flush that completed makes every write durable that had *completed
//! before the flush was submitted*, on any queue. Of the other writes any subset may survive, whole or in part, down
//! to the device's atomic unit. Writes that are outstanding together have no order.
//!
//! ```
//! use storage::{Buffer, Memory, QueueExt, Storage};
//!
//! let storage = Memory::new(1 << 20);
//! let mut queue = storage.open_queue()?;
//! let mut page = Buffer::zeroed(4096);
//! page[..5].copy_from_slice(b"hello");
//! queue.write(8192, page)?;
//! queue.flush()?;
//! assert_eq!(&queue.read(8192, 4096)?[..5], b"hello");
//! # Ok::<(), storage::StorageError>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod buffer;
mod error;
mod faulty;
mod file;
mod memory;
mod modelled;
mod queue;
mod recorded;
mod unflushed;
mod uring;

pub use buffer::Buffer;
pub use error::{Operation, StorageError};
pub use faulty::{Fault, FaultKind, Faults, Faulty};
pub use file::{File, FileEngine, FileOptions};
pub use memory::Memory;
pub use modelled::{Modelled, ModelledError, ModelledOptions, PowerLoss};
pub use queue::{Completion, Queue, QueueExt, Request, Storage, Tag};
pub use recorded::{Recorded, Recording};
pub use unflushed::Unflushed;

/// The bytes of a [`Memory`].
pub use crash::Image;

/// The unit of offsets and lengths.
pub const BLOCK_BYTES: usize = 4096;

const _: () = assert!(BLOCK_BYTES == crash::BLOCK_BYTES, "an image shares bytes in blocks");
