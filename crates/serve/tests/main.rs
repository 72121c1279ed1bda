//! Everything that holds of the served devices, in one program: each file is a module. A program of its own
//! for each would be linked a dozen times over.
#![allow(clippy::unwrap_used)]

mod backend;
mod clients;
mod common;
mod control;
mod initiator;
mod kept;
mod malformed;
mod nvme_tcp;
mod ordered_log;
mod ordering;
mod places;
mod protocol;
mod survival;
mod write_log;
