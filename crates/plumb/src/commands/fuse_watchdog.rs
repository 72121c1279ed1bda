//! The watchdog of `plumb serve --loop` and `plumb fs mount`, a process of its own; not for people.

use std::process::ExitCode;

use clap::Args;

use super::Done;
use crate::failure::Failure;

/// What the server says when it starts its watchdog.
#[derive(Args)]
pub struct FuseWatchdogArguments {
    /// The connection's number, the stall in milliseconds, and the device's label
    #[arg(num_args = 3)]
    watched: Vec<String>,
}

/// Watches until the server says goodbye or dies.
pub fn fuse_watchdog(arguments: &FuseWatchdogArguments) -> Done {
    match serve::fuse_loop::watchdog_main(&arguments.watched) {
        // The connection has ended before anybody could look after it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(ExitCode::SUCCESS),
        ended => ended.map(|()| ExitCode::SUCCESS).map_err(|error| Failure::Machine(error.to_string())),
    }
}
