//! A real Linux kernel in virtual time.
//!
//! User-Mode Linux is Linux as an ordinary process; in its time-travel mode the
//! processor costs nothing and the clock jumps to the next timer. A modelled
//! device served inside it shows its latencies to the kernel's own drivers,
//! file systems and any program, the same on every machine.
//!
//! [`Kernel`] finds or builds the kernel; [`Linux`] says what to run in it;
//! [`Outcome`] is what came of it. Inside, the plumb program itself is the first
//! process ([`guest::main`]) and serves the device.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod boot;
mod charge;
mod choice;
pub mod crash;
mod environment;
mod error;
pub mod guest;
mod kernel;
pub mod ordering;
mod outcome;
mod plan;
mod run;
pub mod trace;

pub use boot::memory_folder;
pub use charge::{Charges, OWN_SWITCH};
pub use choice::{FrontEnd, UnknownChoice};
pub use environment::{Environment, environment};
pub use error::LinuxError;
pub use file_systems::FileSystem;
pub use kernel::{BuildProgress, Kernel, Recipe, cache_folder, find_program};
pub use ordering::{Epochs, FsyncAs, StreamPolicy, Streams, SubmissionCpus};
pub use outcome::{Ended, MoreDevice, Outcome};
pub use run::{DEFAULT_MEMORY_BYTES, Device, Input, Limits, Linux, OutputStreams};
