//! When the next slice may be written.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

/// Why nothing more is to be moved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The user asked for it.
    Cancelled,
    /// As many bytes were written as the budget allows.
    Budget,
    /// Free space is as little as is to be kept.
    KeepFree,
    /// Tasks wait longer for I/O than `--until-psi` allows.
    Pressure,
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Cancelled => "cancelled",
            Self::Budget => "the budget is spent",
            Self::KeepFree => "no more free space is left than is to be kept (--keep-free)",
            Self::Pressure => "tasks wait for I/O longer than --until-psi allows",
        })
    }
}

/// Asked before each slice of a few megabytes; waits or ends the move.
pub trait Pace {
    /// `bytes` are to be written next.
    fn before(&mut self, bytes: u64) -> ControlFlow<Stop>;

    /// Whether it may wait.
    fn waits(&self) -> bool {
        false
    }

    /// Whether it wants to be asked before the slice is done: the run is to end, or to stop for a while.
    fn interrupts(&self) -> bool {
        false
    }
}

/// Never waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Pace for Unlimited {
    fn before(&mut self, _bytes: u64) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }
}
