//! The kernel of this machine: programs on a loop device of their own, on the wall clock.
//!
//! Whatever happens, nothing stays: the file system is unmounted, and the loop device goes with what is behind it.

mod disk;
mod group;
mod processes;
mod served;

use std::sync::{Mutex, MutexGuard};

use super::Stand;
use crate::error::{LabError, LinuxHostError, LiveHostError};
use crate::spec::{HostKind, Spec};

pub(crate) use disk::{Backing, LiveDisk};
pub(crate) use group::Group;
pub(crate) use processes::finished;

pub(super) const HOST: super::Host =
    super::Host { kind: HostKind::Live, models_device: |spec| spec.stack.device != LOOP, check };

/// The device that is a loop device over a sparse file; any other is modelled, and served.
pub(crate) const LOOP: &str = "loop";

fn check(spec: &Spec) -> Result<(), LabError> {
    if let Some(option) = spec.stack.linux.order_key() {
        let reason = "the kernel of this machine knows no streams: write stack.host = \"linux\"".to_owned();
        return Err(LinuxHostError::Setting { option: option.to_owned(), reason }.into());
    }
    if spec.stack.linux.charge.as_os_str().is_empty() {
        return Ok(());
    }
    let message =
        "stack.linux.charge has no meaning under host = \"live\", where the processor's work takes the time it takes";
    Err(LabError::Unfit { message: message.to_owned() })
}

/// Two runs at once would share the disk under both, and each other's times.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other run is on this machine.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The release of this machine's kernel.
pub(crate) fn release() -> Result<String, LiveHostError> {
    let file = "/proc/sys/kernel/osrelease";
    let text = std::fs::read_to_string(file).map_err(LiveHostError::file(format!("read {file}")))?;
    Ok(text.trim().to_owned())
}

/// A modelled device under the kernel of this machine.
pub(crate) fn served<'a>(stand: Stand<'_>, device: &'a str) -> Backing<'a> {
    Backing::Served { device, settings: super::linux::device_settings(stand, stand.seed) }
}
