//! What a power cut may leave behind.
//!
//! Everybody who can be asked about power cuts (a modelled host, a program under a real kernel, a served device, a storage engine,
//! a mover of files) writes the same thing down: a [`Log`] of writes with their bytes, flushes and discards, as the device saw
//! them. Everything else is a question to that log:
//!
//! 1. A [`Rule`] says what is *durable* at each moment and what is *undecided*: with [`VolatileCache`] everything that a completed
//!    flush or FUA write covers is durable, and any part of the rest may be there or not.
//! 2. [`Moments`] walks from one moment to the next at which a cut could leave something new.
//! 3. A [`StatePlan`] names distinct states: a moment, and the units of undecided writes that survived. All of them up to a bound, or a
//!    seeded sample that covers every moment. Two states with the same bytes are one state.
//! 4. [`shrink()`] finds the fewest lost writes with which a state is still bad.
//!
//! ```text
//! log      W1   W2   done1  done2  flush  W3   flushed   W4
//!                                                 │
//! durable at a cut here:  W1 W2                   │ undecided: W3
//! states: {}, {W3}, and each part of W3 in units of the device's atomic write
//! ```
//!
//! Of a device that keeps the order of writes, [`order`] says which states are legal, and [`Streams`] is the rule of its logs: not any
//! part may then be there without the rest, and a [`PartOrder`] says which.
//!
//! A test that asks a device itself what a cut left undecided has no log: a [`Choice`] says which of those writes survive.
//!
//! A write may be torn between multiples of what the device writes whole or not at all when the power goes (NVM command set 2.1.4,
//! AWUPF); any of its parts may then be there.
//!
//! ```
//! use crash::{Amount, Event, Log, StatePlan, VolatileCache};
//! use units::Nanos;
//!
//! let mut log = Log::new(1 << 20, 512)?;
//! let write = log.next_write();
//! log.push(Nanos(0), Event::write(write, 4096, &[7; 1024]))?;
//! log.push(Nanos(5), Event::Completed(write))?;
//! // Neither sector, either sector, or both.
//! let plan = StatePlan::new(&log, &VolatileCache::default(), 0, 512, Amount::Exhaustive { parts_max: 16 });
//! assert_eq!(plan.states.len(), 4);
//! # Ok::<(), crash::LogError>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cuts;
pub mod files;
mod image;
mod log;
mod moments;
pub mod order;
mod rules;
mod shrink;
mod states;
mod write;

pub use cuts::{Cut, Cuts};
pub use image::{BLOCK_BYTES, Image};
pub use log::{Content, Entry, Event, FlushId, Log, LogError, LogReader, LogWriter, Source, Stored, WriteId};
pub use moments::Moments;
pub use rules::{LyingCache, Ordered, ProtectedCache, Rule, Streams, VolatileCache};
pub use shrink::{Shrunk, shrink};
pub use states::{
    Amount, Choice, EXHAUSTIVE_PARTS_MAX, PartOrder, SUBSETS_WALKED, State, StatePlan, Survivors, Timeline,
    parts_by_write,
};
pub use write::{LoggedWrite, Piece};
