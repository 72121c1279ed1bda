//! The NVM subsystem as a host sees it: connections, commands and time go in,
//! answers come out. No socket is involved.
#![allow(clippy::unwrap_used)]

mod access;
mod arbitrary;
mod commands;
mod controllers;
mod host;
mod io;
mod model;
