//! What programs do to files, and what is left of it.
//!
//! [`calls`] follows a command, its threads and its children, and lists what they asked of the files below a folder, each call with
//! the positions at which it began and was over. [`tree`] reads all files below a folder. Both are in the terms of
//! [`crash::files`], which judges the one by the other.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod calls;
pub mod tree;
