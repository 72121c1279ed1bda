//! What files must be there after a power cut.
//!
//! ```text
//! calls with their positions in the log ─► Promises ─► promised(until) ─► judge(found) ─► violations
//! ```
//!
//! A program asks its file system for durability: `fsync`, `fdatasync`, `sync`, `O_SYNC`. [`Promises`] replays what it asked, and
//! knows at each position of the device's log which contents, sizes and names must be there after a power cut, and which else may
//! be there because a call had begun. What a file system promises beyond POSIX is in [`Rules`], with its source.
//!
//! Everything that changes has a history: each sector of a file, its size, each name in a folder. A durability call covers what
//! was over when it began. Of a history may be left what no covered version supersedes and whose call began before the cut:
//!
//! ```text
//! write A  ──┤├──                             superseded: A is covered, and B, later, is too
//! write B        ──┤├──                       may be left
//! write C                   ──┤├──            may be left: it was not over when fsync began
//! fsync                   ├────┤ promise      from here on
//! ```

mod calls;
mod found;
mod history;
mod judge;
mod promises;
mod rules;
mod tree;
mod unsynced;
mod violation;

pub use calls::{Action, Allocation, Call, Data, Durability, FileId, FilePath, Moment};
pub use found::{Contents, Entry, FILE_BLOCK_BYTES, Found, Node};
pub use judge::{Expectation, Known, judge, judge_beside};
pub use promises::Promises;
pub use rules::Rules;
pub use unsynced::{Change, Unsynced};
pub use violation::{Fault, Instead, PromisedBy, Violation};
