//! A device as `/dev/loopN`: a FUSE file with a loop device in front of it.
//!
//! ```no_run
//! use serve::fuse_loop::{LoopOptions, Server};
//! use serve::{ServeOptions, Stop};
//!
//! let server = Server::new(LoopOptions::default())?;
//! let device = ssd::NullDevice::new(1 << 20, 512, units::Nanos::from_micros(80));
//! let report = server.run(Box::new(device), &ServeOptions::default(), &Stop::new()?)?;
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Both are in every kernel and need no module, which makes this the way to have
//! a real block device where modules cannot be loaded. It needs root. What a
//! loop device cannot say: Force Unit Access (it arrives as a write and then a
//! flush), zones, write hints, several queues, and whether a hole was a
//! Dataset Management or a Write Zeroes command that may deallocate.

mod calibrate;
mod error;
mod front_end;
mod jobs;
mod leftovers;
mod loop_device;
mod memory;
mod probe_device;
mod server;
mod step;
mod users;
mod watchdog;
mod workload_group;

pub use error::LoopError;
pub use fuse::WatchdogProgram;
pub use server::{LoopOptions, Server};
pub use watchdog::watchdog_main;
