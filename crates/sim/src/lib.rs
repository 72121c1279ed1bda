//! A single-threaded async executor on a virtual or a wall clock.
//!
//! The same task runs on both: in virtual time the clock jumps to the next
//! timer when every task waits; on the wall clock the thread parks until then.
//! Sans-IO values such as a modelled SSD join the clock as [`EventSource`]s.

mod executor;
pub mod rng;
pub mod sync;

pub use executor::{EventSource, Executor, Handle, JoinHandle};
