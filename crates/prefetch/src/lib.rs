//! What to prefetch. Policies are told of each access to a file and answer with a [`Plan`]; somebody else carries it out. There is no
//! thread, no clock, no system call and no allocation here: the same code runs inside a hook of a preload library, on state in shared
//! memory, in an agent, and in the simulator.
//!
//! - [`Streams`]: the readers of one file, found in its accesses, and the windows ahead of them.

mod access;
mod plan;
mod streams;

pub use access::{Access, Limits, PAGE_BYTES};
pub use plan::{MAX_RANGES, Plan, Range};
pub use streams::{BASE_WINDOW_BYTES, STREAMS, Streams};
