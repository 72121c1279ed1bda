//! Front-ends that serve a modelled device on the wall clock.
//!
//! The device is the same sans-IO value that virtual-time runs drive. A
//! front-end hands [`backend::Request`]s to a [`backend::Backend`], which splits
//! them into commands, keeps within the device's queues, and gives the answers
//! back when the model says they are done. [`nbd`], [`nvme_tcp`], [`ublk`] and
//! [`fuse_loop`] are the front-ends, one folder each behind one interface; [`control`]
//! cuts the power and injects faults whichever is in use.
//!
//! # Why a loop of its own and not the executor on its wall clock
//!
//! The path of one request is short (socket, device, socket), there are no
//! tasks with state of their own to suspend, and what matters is the time
//! between an event and the instruction that reacts to it. One thread waits in
//! `epoll_pwait2` for sockets and for the device's next event at once; a task,
//! waker and ready list between them would add latency and no clarity.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backend;
mod calibration;
mod clock;
mod complaints;
pub mod control;
mod engine;
mod error;
mod event_loop;
mod front_end;
pub mod fuse_loop;
pub mod latency;
mod log;
mod memory;
pub mod nbd;
pub mod nvme_tcp;
mod output;
mod patience;
mod poller;
mod power;
mod run;
mod socket;
mod stop;
pub mod subsystem;
mod troubles;
pub mod ublk;
mod write_log;

pub use calibration::Calibration;
pub use error::ServeError;
pub use front_end::Clients;
pub use log::{LineWriter, Written};
pub use memory::default_limit_bytes;
pub use power::{PowerLoss, Survival};
pub use run::{ServeOptions, ServeReport};
pub use stop::Stop;
pub use write_log::WriteLog;
