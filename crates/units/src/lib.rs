//! The units every layer of Plumb speaks: nanoseconds, bytes, logical blocks.
//!
//! Newtypes keep a sector from being added to a byte count, and a duration from
//! being read as a size. Text forms follow fio: `4k`, `1m`, `80us`. [`Printable`] is the form
//! of names that somebody else chose. [`ServerCosts`] is what a measured table and who pays by it both have.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bytes;
mod nanos;
mod printable;
mod server_costs;

pub use bytes::{ByteSize, ParseByteSizeError};
pub use nanos::{Nanos, ParseNanosError};
pub use printable::{Printable, is_plain, printable, printable_lines};
pub use server_costs::ServerCosts;
