//! What of a log is durable at a moment, and what may or may not be there.
//!
//! A rule is a file here: it takes the log entry by entry and keeps what is undecided.

mod lying_cache;
mod pending;
mod protected_cache;
mod streams;
mod volatile_cache;

use crate::log::Event;
use crate::order::Places;
use crate::write::LoggedWrite;

pub use lying_cache::LyingCache;
pub use protected_cache::ProtectedCache;
pub use streams::Streams;
pub use volatile_cache::VolatileCache;

/// What may survive, as one kind of device promises it.
pub trait Rule: Clone {
    /// Takes the next entry, which is number `index`. What became durable goes to `settled`, in the order in which it is to be
    /// applied. Returns whether a cut now can leave something that a cut before could not.
    fn step(&mut self, index: usize, event: &Event, settled: &mut Vec<LoggedWrite>) -> bool;

    /// What may or may not be there, in order of submission: of two that overlap, the later one is what is read if both are there.
    fn undecided(&self) -> Vec<&LoggedWrite>;

    /// Where not any of it may be there without the rest: what each undecided write asks of the others, in the same order.
    fn order(&self) -> Option<Vec<Ordered>> {
        None
    }

    /// Whether the last step made states impossible, although nothing of it went to `settled`.
    fn has_narrowed(&self) -> bool {
        false
    }
}

/// What an undecided write has to do with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ordered {
    /// The epochs that it belongs to.
    pub places: Places,
    /// It is durable, but what must be there before it is undecided: it can be read, or something newer.
    pub is_durable: bool,
}
