//! NVMe over Fabrics on TCP (NVMe TCP Transport Specification 1.0c, "TCP").
//!
//! ```no_run
//! use serve::nvme_tcp::{Listen, Server};
//! use serve::subsystem::SubsystemConfig;
//! use serve::{ServeOptions, Stop};
//!
//! let listen: Listen = "tcp:4420".parse()?;
//! let config = SubsystemConfig::new("nqn.2014-08.org.example:plumb", "null");
//! let device = ssd::NullDevice::new(1 << 20, 512, units::Nanos::from_micros(80));
//! let server = Server::bind(&listen, config)?;
//! let report = server.run(Box::new(device), &ServeOptions::default(), &Stop::new()?)?;
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The layers, from the wire inwards: `connection` is one host's connection
//! without its socket, PDUs in and PDUs out; `commands` are the commands it has
//! not answered and the data they wait for; `client` adds the socket and the
//! times; `front_end` is all clients and the controllers behind them, which are
//! [`crate::subsystem`]'s.
//!
//! Limits: no TLS. An address that other machines reach is bound only when the
//! subsystem restricts its hosts.

mod calibrate;
mod client;
mod commands;
mod connection;
#[cfg(test)]
mod connection_test;
mod front_end;
mod input;
mod limits;
mod listen;
mod probe;
mod reply;
mod server;
#[cfg(test)]
mod session_test;
mod sgl;

pub use limits::Limits;
pub use listen::{Listen, ParseListenError};
pub use server::Server;
