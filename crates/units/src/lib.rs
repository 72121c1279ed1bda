//! The units every layer of Plumb speaks: nanoseconds, bytes, logical blocks.
//!
//! Newtypes keep a sector from being added to a byte count, and a duration from
//! being read as a size. Text forms follow fio: `4k`, `1m`, `80us`.

mod bytes;
mod nanos;

pub use bytes::{ByteSize, ParseByteSizeError};
pub use nanos::{Nanos, ParseNanosError};
