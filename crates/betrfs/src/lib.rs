//! A POSIX file system as a value, on the Bε-tree engine.
//!
//! [`Operations`] is what it does, without a transport: a FUSE server, the tests, and the enumerator of crash states call the
//! same trait.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod acl;
mod fsck;
mod model;
mod mutant;
mod operations;
mod patch;
#[cfg(test)]
mod proof;
mod refusal;
mod rules;
mod schema;
mod served;
mod steps;
mod volume;

pub use fsck::{Finding, Repair, check, repair};
pub use model::Model;
pub use operations::{
    Allocate, Attributes, Caller, Cookie, DirectoryEntry, Error, InodeNumber, Kind, Name, Operations, Permissions,
    RenameFlags, Result, Seek, SetAttributes, SetXattr, Statistics, Timestamp, XattrName,
};
pub use schema::Schema;
pub use served::{
    Computing, MountedFindings, Moved, Served, check_mounted, clone_mounted_tree, drop_mounted_snapshot, grow_mounted,
    keep_mounted_snapshot, quiesce_mounted, remove_mounted_tree, trim_mounted,
};
pub use steps::{Steps, UnknownStep};
pub use volume::{Volume, VolumeOptions};
