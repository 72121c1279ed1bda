//! ublk: a device as `/dev/ublkbN` (Linux `drivers/block/ublk_drv.c`).
//!
//! ```no_run
//! use serve::{ServeOptions, Stop, ublk::Server};
//!
//! let stop = Stop::new()?;
//! let device = ssd::NullDevice::new(1 << 20, 4096, units::Nanos::from_micros(80));
//! let report = Server::open(None)?.run(Box::new(device), &ServeOptions::default(), &stop)?;
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Needs Linux 6.5 with the `ublk_drv` driver (6.6 for zones) and root. Flush,
//! FUA, discard, Write Zeroes and zones are the block layer's own; admin commands,
//! logs and vendor commands need NVMe/TCP.
//!
//! # How a request travels
//!
//! The server keeps one command for each tag of each queue with the driver. The
//! driver completes it when the tag has a request, which the server reads from the
//! queue's descriptors; data is copied with pread and pwrite on the character
//! device (`UBLK_F_USER_COPY`: zones demand it, and no memory is set aside for
//! requests that do not come). The command that commits the result fetches the
//! tag's next request.
//!
//! All queues belong to the one thread of the event loop: the io_uring's descriptor
//! is one of those it waits for.

mod abi;
mod calibrate;
mod commands;
mod control;
mod descriptors;
mod disk;
mod errno;
mod error;
mod front_end;
mod mounts;
mod operation;
mod parameters;
mod server;
mod zones;

pub use error::UblkError;
pub use server::Server;
