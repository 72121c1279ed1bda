//! Files and calls on them, as a program that runs into a power cut has made them.

mod calls;
mod found;

pub use calls::{Action, Allocation, Call, Data, Durability, FileId, FilePath, Moment};
pub use found::{Contents, Entry, FILE_BLOCK_BYTES, Found, Node};
