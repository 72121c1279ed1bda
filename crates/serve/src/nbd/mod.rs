//! The Network Block Device protocol, fixed newstyle (NBD `doc/proto.md`).
//!
//! ```no_run
//! use serve::nbd::{Listen, Server};
//! use serve::{ServeOptions, Stop};
//!
//! let listen: Listen = "unix:/run/plumb.sock".parse()?;
//! let stop = Stop::new()?;
//! let device = ssd::NullDevice::new(1 << 20, 512, units::Nanos::from_micros(80));
//! let report = Server::bind(&listen)?.run(Box::new(device), &ServeOptions::default(), &stop)?;
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: NBD has no authentication and this server no TLS. Requests must be
//! whole logical blocks, as the advertised block size says; others are refused
//! with `NBD_EINVAL`. Block status, extended headers, resize, cache and fast
//! zero are not offered.

mod calibrate;
mod connection;
mod export;
mod front_end;
mod handshake;
mod limits;
mod listen;
pub mod proto;
mod server;
mod transmission;

pub use limits::Limits;
pub use listen::{Listen, ParseListenError};
pub use server::Server;
