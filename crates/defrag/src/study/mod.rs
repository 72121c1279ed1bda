//! The published experiments on real files: data in pieces, a tool, and what its I/O costs afterwards.
//!
//! A [`Cell`] says what lies on the file system (laid out in pieces, or aged by use), which I/O is done to it and which
//! tool defragments it first. [`run`] does all of that in a folder of an empty file system and says what it measured:
//! requests that the device got, bytes that the tool had written, times. The tool is always the program that a person
//! would start: `plumb defrag trace` and `run`, or the file system's own.
//!
//! It is the same on a loop device and under a real kernel in virtual time: nothing here knows where it runs.
//!
//! Source: Park and Eom, FragPicker, SOSP '21, section 5; layouts, sizes and tools from its artifact.

mod access;
mod cell;
mod database;
mod device;
mod error;
mod interleaved;
mod measured;
mod spec;
mod tool;
mod tree;

pub use cell::{CellPlace, pass, run};
pub use error::StudyError;
pub use measured::Measured;
pub use spec::{Cell, Database, Group, Interleaved, Operation, Pattern, Tool, Tree};
