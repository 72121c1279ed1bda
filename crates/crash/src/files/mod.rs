//! What files must be there after a power cut.
//!
//! ```text
//! calls with their positions in the log ─► Promises ─► promised(until) ─► judge(found) ─► violations
//! ```
//!
//! A program asks its file system for durability: `fsync`, `fdatasync`, `sync`, `O_SYNC`. [`Promises`] replays what it asked, and
//! knows at each position of the device's log which contents, sizes and names must be there after a power cut, and which else may
//! be there because a call had begun. What a file system promises beyond POSIX is in [`Rules`], with its source.

mod calls;
mod found;

pub use calls::{Action, Allocation, Call, Data, Durability, FileId, FilePath, Moment};
pub use found::{Contents, Entry, FILE_BLOCK_BYTES, Found, Node};
