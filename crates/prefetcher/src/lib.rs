//! Prefetching for unmodified programs, on a stock kernel.
//!
//! ```text
//! program ── hooks of `preload` ──► `shared` table: files, streams, requests ──► `executor` in the launcher ──► page cache
//! ```
//!
//! `launch` starts a command under the preload library and stays until it ends. Inside of the program there are only hooks, which
//! observe; the executor, a thread of the launcher, opens the files, asks what is resident, loads, and keeps to the memory budget.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod agent;
mod error;
pub mod executor;
pub mod launch;
mod mutants;
#[doc(hidden)]
pub mod preload;
pub mod residency;
pub mod settings;
mod shared;
mod table;
mod watch;

pub use error::PrefetcherError;
pub use table::running;

/// What of `prefetch` the hooks use, under the name that it has inside of the library, too.
mod policies {
    pub use prefetch::policy::Host;
    pub use prefetch::{Access, Bulk, Limits, PAGE_BYTES, Plan, Streams};
}
