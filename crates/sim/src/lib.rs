//! A single-threaded async executor on a virtual or a wall clock.
//!
//! The same task runs on both: in virtual time the clock jumps to the next
//! timer when every task waits; on the wall clock the thread parks until then.
//! Sans-IO values such as a modelled SSD join the clock as [`EventSource`]s.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cpu;
mod executor;
pub mod rng;
pub mod sync;

pub use executor::{Aborted, Closed, EventSource, Executor, Handle, Injector, JoinHandle, Sleep, WallConfig};
