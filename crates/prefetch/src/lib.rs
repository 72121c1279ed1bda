//! What to prefetch. Policies are told of each access to a file and answer with a [`Plan`]; somebody else carries it out. There is no
//! thread, no clock, no system call and no allocation here: the same code runs inside a hook of a preload library, on state in shared
//! memory, in an agent, and in the simulator.
//!
//! - [`Streams`]: the readers of one file, found in its accesses, and the windows ahead of them.
//! - [`Bulk`]: when parts of a file that is read at random are worth loading.
//! - [`policy`]: what to load, as sibling policies with a table of names.
//! - [`Ledger`]: what was loaded and not read yet, within a budget; [`Whole`]: which files are loaded whole.
//! - [`simulate`]: what a policy would have done for a trace, and an oracle.
//!
//! Only the last three allocate; they are not for hooks.

mod access;
mod bulk;
mod coverage;
mod ledger;
mod mutant;
mod plan;
pub mod policy;
pub mod simulate;
mod streams;
mod whole;

pub use access::{Access, Limits, PAGE_BYTES};
pub use bulk::Bulk;
pub use ledger::{FileNumber, Ledger};
pub use plan::{MAX_RANGES, Plan, Range};
pub use streams::{BASE_WINDOW_BYTES, STREAMS, Streams};
pub use whole::Whole;
