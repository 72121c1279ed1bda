//! FragPicker (SOSP '21): defragments only what the I/O touches, on real files.
//!
//! A request of the application that covers several pieces of a file becomes
//! several requests of the device: it is *split*. `access` says which ranges of
//! which files are read and written, `extents` where they lie, `plan` which of
//! them split and what moving them would cost and save, `migrate` moves a range
//! by the file system's own safe means, and `run` carries a plan out.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod access;
pub mod analysis;
mod btrfs_items;
pub mod extents;
mod file;
mod free_space;
mod io;
pub mod map;
pub mod migrate;
mod path_text;
pub mod plan;
mod priority;
mod range;
pub mod run;
pub mod scan;
pub mod study;
pub mod verify;

pub use file::FileId;
pub use free_space::{FreeSpace, KeepFree, ParseKeepFreeError};
pub use io::{Access, IoKind};
pub use range::ByteRange;
