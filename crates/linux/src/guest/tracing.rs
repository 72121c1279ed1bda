//! Block and NVMe events of the kernel, through tracefs.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{GuestError, attempt};
use super::now_ns;
use crate::plan::{GuestPlan, artifact};
use crate::trace::MARK;

const FOLDER: &str = "/sys/kernel/tracing";
/// Room for events; the newest are kept.
const BUFFER_KIB: u32 = 64 << 10;

/// Recording, from here to [`store`](Self::store).
pub(super) struct Tracing;

impl Tracing {
    pub(super) fn start() -> Result<Self, GuestError> {
        set("buffer_size_kb", &BUFFER_KIB.to_string())?;
        // Virtual time in whole nanoseconds; reading it costs none.
        set("trace_clock", "virtual")?;
        set("events/block/enable", "1")?;
        set("events/nvme/enable", "1")?;
        // One event whose time is known on both clocks.
        set("trace_marker", &format!("{MARK}{}\n", now_ns()))?;
        Ok(Self)
    }

    /// Puts the events into the run's folder.
    pub(super) fn store(self, plan: &GuestPlan) -> Result<(), GuestError> {
        set("tracing_on", "0")?;
        let target = PathBuf::from(&plan.run_folder).join(artifact::KERNEL_TRACE);
        let copied = fs::copy(Path::new(FOLDER).join("trace"), &target);
        attempt(copied, || "cannot store the kernel's events".to_owned()).map(drop)
    }
}

fn set(name: &str, value: &str) -> Result<(), GuestError> {
    attempt(fs::write(Path::new(FOLDER).join(name), value), || format!("cannot set {name} of the kernel's tracing"))
}
