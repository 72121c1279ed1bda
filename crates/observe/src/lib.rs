//! What programs and the kernel do to files, and what is left of it.
//!
//! [`calls`] follows a command, its threads and its children, and lists what they asked of the files below a folder, each call with
//! the positions at which it began and was over. [`tree`] reads all files below a folder. Both are in the terms of
//! [`crash::files`], which judges the one by the other.
//!
//! The kernel's tracepoints say what all programs do: as text of an instance of [`tracefs`], or to programs of [`bpf`] that run
//! where they are. Whom and what to look at is found by [`processes`], [`cgroups`] and [`mounts`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bpf;
pub mod calls;
pub mod cgroups;
mod error;
pub mod mounts;
pub mod processes;
pub mod tracefs;
pub mod tree;

pub use error::FileError;
