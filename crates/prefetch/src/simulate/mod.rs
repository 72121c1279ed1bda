//! What a policy would have done: a trace of accesses, replayed in virtual time on a machine that has a device, a page cache and the
//! kernel's own readahead, with a policy beside it, or with an oracle that knows what will come.
//!
//! Processor time is free except for one charge a read, so times are of storage alone. The real page cache in virtual time is
//! elsewhere (`plumb linux`); this answers in milliseconds, for any trace, and has the oracle.

mod cache;
mod device;
mod machine;
mod oracle;
mod outcome;
pub mod patterns;
mod picture;
mod readahead;
mod run;
mod trace;

#[cfg(test)]
mod tests;

pub use machine::Machine;
pub use oracle::oracle;
pub use outcome::{Mark, Origin, Outcome};
pub use picture::{Pictured, picture};
pub use run::{simulate, timeline};
pub use trace::{Action, Step, Trace};
