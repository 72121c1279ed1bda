//! One file a subcommand.

pub mod app;
pub mod calibrate;
mod calibrate_cpu;
pub mod completion;
pub mod control;
pub mod control_inject;
pub mod crash;
pub mod crash_offline;
pub mod crash_report;
pub mod defrag;
pub mod defrag_study;
pub mod fs;
pub mod fuse_watchdog;
pub mod kv;
pub mod linux;
pub mod linux_kernel;
pub mod linux_order;
pub mod linux_report;
pub mod list;
pub mod man;
pub mod merge;
pub mod prefetch;
pub mod report;
pub mod run;
pub mod serve;
pub mod show;
pub mod signals;
pub mod validate;
pub mod validate_host;
pub mod zns;

use std::path::Path;
use std::process::ExitCode;

use crate::failure::Failure;

/// The run failed, fell short, or missed an enforced expectation.
pub const EXIT_FAILED: u8 = 1;
/// Bad usage or input.
pub const EXIT_USAGE: u8 = 2;
/// Interrupted by a signal.
pub const EXIT_INTERRUPTED: u8 = 130;

/// What a subcommand comes to.
pub type Done = Result<ExitCode, Failure>;

/// What was made of a new file, which is not left behind where that failed.
pub fn made<T>(path: &Path, was_there: bool, made: Result<T, Failure>) -> Result<T, Failure> {
    if made.is_err() && !was_there {
        // What is said of the first failure is what helps.
        let _ = std::fs::remove_file(path);
    }
    made
}
