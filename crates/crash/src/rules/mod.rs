//! What of a log is durable at a moment, and what may or may not be there.
//!
//! A rule is a file here: it takes the log entry by entry and keeps what is undecided.

mod lying_cache;
mod pending;
mod protected_cache;
mod volatile_cache;

use crate::log::Event;
use crate::write::LoggedWrite;

pub use lying_cache::LyingCache;
pub use protected_cache::ProtectedCache;
pub use volatile_cache::VolatileCache;

/// What may survive, as one kind of device promises it.
pub trait Rule: Clone {
    /// Takes the next entry, which is number `index`. What became durable goes to `settled`, in the order in which it is to be
    /// applied. Returns whether a cut now can leave something that a cut before could not.
    fn step(&mut self, index: usize, event: &Event, settled: &mut Vec<LoggedWrite>) -> bool;

    /// What may or may not be there, in order of submission: of two that overlap, the later one is what is read if both are there.
    fn undecided(&self) -> Vec<&LoggedWrite>;
}
