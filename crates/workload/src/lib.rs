//! fio job files, block traces and a journal, run against a modelled stack.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod fio;
mod host;
pub mod journal;
pub mod replay;

pub use host::{Host, IoCosts};
