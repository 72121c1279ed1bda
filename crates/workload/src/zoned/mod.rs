//! Streams of one kind of operation each on a zoned device: how published measurements of zoned drives drove them.
//!
//! A [`Bench`] is a device on a clock of its own. [`start`] lets the threads of a stream work on it, with the times of
//! their host ([`HostPath`]) in each operation, and a [`Tally`] says what came of it.

mod bench;
mod operation;
mod path;
mod slot;
mod stream;

pub use bench::{Bench, BlockLayer, CommandError, Rig, Zone, ZonedError, Zones};
pub use operation::{Operation, UnknownOperation};
pub use path::HostPath;
pub use stream::{SharedTally, StreamPlan, Tally, Window, start};
