//! The control socket: power cuts, faults, statistics and live state of a device
//! that is being served.
//!
//! Requests and replies are lines of JSON on a Unix-domain socket, answered by the
//! event loop itself: [`Request`] in, [`Reply`] out, in order. `docs/control.md` lists
//! them. Whoever may open the socket's file may do everything, so its folder's
//! permissions are the guard.
//!
//! Bounds: 16 clients at a time, a line is of limited length, a client
//! whose replies are not read is not read from, and one request of each client is
//! answered in a pass of the loop.

mod client;
mod execute;
mod line;
mod message;
mod server;

pub use client::{Client, ClientError};
pub(crate) use execute::execute;
pub use message::{NamespaceStatus, QueueStatus, Reply, Request, Status, ZoneEntry, ZoneEventKind, ZonePage};
pub(crate) use server::ControlServer;
