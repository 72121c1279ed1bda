//! fio job files, block traces, a journal and streams over zones, run against a modelled stack.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod fio;
mod host;
pub mod journal;
pub mod replay;
pub mod zoned;

pub use host::{Host, IoCosts};
