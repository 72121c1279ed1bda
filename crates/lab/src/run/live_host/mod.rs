//! The kernel of this machine: programs on a loop device of their own, on the wall clock.
//!
//! Whatever happens, nothing stays: the file system is unmounted, and the loop device goes with what is behind it.

mod disk;
mod group;
mod processes;
mod served;

use std::sync::{Mutex, MutexGuard};

use super::PlannedRun;

pub(super) use disk::{Backing, LiveDisk};
pub(super) use group::Group;
pub(super) use processes::finished;

/// The device that is a loop device over a sparse file; any other is modelled, and served.
pub(super) const LOOP: &str = "loop";

/// Two runs at once would share the disk under both, and each other's times.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other run is on this machine.
pub(super) fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Why a run cannot be on this machine, or what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum LiveHostError {
    /// There is nothing to mount.
    #[error("host = \"live\" cannot make {file_system}: write ext4, xfs, btrfs or f2fs")]
    FileSystem {
        /// What the spec asks for.
        file_system: linux::FileSystem,
    },
    /// This machine does not let it.
    #[error("host = \"live\" cannot be here: {why}; host = \"linux\" needs no privileges")]
    Unavailable {
        /// What is missing.
        why: String,
    },
    /// A program that sets the device up failed.
    #[error("{program}: {said}")]
    Program {
        /// Which, with its arguments.
        program: String,
        /// Its words.
        said: String,
    },
    /// The server of a modelled device failed.
    #[error("the server of {device}: {said}")]
    Server {
        /// The device.
        device: String,
        /// Its words.
        said: String,
    },
    /// A file of the run.
    #[error("cannot {what}: {source}")]
    File {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl LiveHostError {
    pub(super) fn file(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::File { what, source }
    }
}

/// The release of this machine's kernel.
pub(super) fn release() -> Result<String, LiveHostError> {
    let file = "/proc/sys/kernel/osrelease";
    let text = std::fs::read_to_string(file).map_err(LiveHostError::file(format!("read {file}")))?;
    Ok(text.trim().to_owned())
}

/// A modelled device under the kernel of this machine.
pub(super) fn served<'a>(run: &PlannedRun, device: &'a str) -> Backing<'a> {
    Backing::Served { device, settings: super::linux_host::device_settings(run, run.seed) }
}
