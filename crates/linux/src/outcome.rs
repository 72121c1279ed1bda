//! What a run came to.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::charge::Charges;

/// How the command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It exited with this status.
    Exited(u8),
    /// A signal killed it.
    Signaled(i32),
}

impl Ended {
    /// The exit status as a shell gives it: 128 and the signal's number for a signal.
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Signaled(signal) => u8::try_from(128 + signal).unwrap_or(255),
        }
    }

    /// Whether it exited with status 0.
    pub fn success(self) -> bool {
        self == Self::Exited(0)
    }
}

/// A device beside the first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MoreDevice {
    /// Its profile, as it was asked for.
    pub profile: String,
    /// As the kernel showed it, such as `/dev/ublkb1`.
    pub node: String,
    /// What `plumb serve --json` said of it at its end.
    pub report: Option<serde_json::Value>,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the command ended.
    pub ended: Ended,
    /// Its standard output; empty where that went elsewhere.
    pub stdout: Vec<u8>,
    /// Its standard error; empty where that went elsewhere.
    pub stderr: Vec<u8>,
    /// Virtual time (the kernel's `CLOCK_MONOTONIC`) when the command began.
    pub began: Nanos,
    /// Virtual time when it had ended.
    pub done: Nanos,
    /// The kernel's release, such as `6.12.117`.
    pub kernel: String,
    /// The device as the kernel showed it, such as `/dev/ublkb0`; without one the memory device.
    pub device_node: String,
    /// What `plumb serve --json` said of the device at its end; nothing without a model.
    pub device: Option<serde_json::Value>,
    /// Those beside it, in their order.
    pub more_devices: Vec<MoreDevice>,
    /// Events of the kernel and spans of the device, where they were asked for.
    pub trace: Option<crate::trace::Recorded>,
    /// What driver and device have of each write and flush, where it was asked for.
    pub commands: Option<crate::trace::Commands>,
    /// What the processor's work for the command cost; free where there is no table.
    pub charge: Option<Charges>,
    /// The log of the kernel and of the server inside.
    pub log: String,
    /// How long the whole took on the wall clock.
    pub wall: Duration,
}

impl Outcome {
    /// Virtual time that the command took.
    pub fn virtual_time(&self) -> Nanos {
        self.done.since(self.began)
    }

    /// `free` or `charged`.
    pub fn processor_time(&self) -> &'static str {
        Charges::word(self.charge.as_ref())
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}
