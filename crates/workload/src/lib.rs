//! fio job files and block traces, run against a modelled stack.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod fio;
mod host;
pub mod replay;

pub use host::{Host, IoCosts};
