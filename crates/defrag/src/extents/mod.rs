//! Where a file's bytes lie on the device, and how many requests reading them takes.
//!
//! [`fiemap`](read_map) asks the kernel, [`ExtentMap`] holds the answer, [`requests`] predicts.
//! Everything but the system call and the queue's limits is a pure function of values.

mod backing;
mod btrfs;
mod extent;
mod fiemap;
mod map;
mod moved;
mod queue;
mod requests;

pub use backing::{Backing, Reference};
pub(crate) use btrfs::btrfs_uuid;
pub use btrfs::{MetadataLayout, backing_of, metadata_layout};
pub use extent::{Extent, ExtentFlags, ExtentKind};
pub use fiemap::{FiemapError, MAX_EXTENTS, WriteBack, read_map, read_map_range};
pub use map::{ExtentMap, Piece};
pub use moved::moved;
pub use queue::{QueueError, limits_of};
pub use requests::{Direction, RequestLimits, requests};
