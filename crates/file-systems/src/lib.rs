//! The file systems that Plumb puts on devices: one table of what makes, mounts and checks each, and of the Debian package that
//! has the programs. A file system is added here, by a name and a row.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod kind;
mod tools;

pub use kind::{FileSystem, UnknownFileSystem};
pub use tools::{Tool, Tools};
