//! Memory that is there before it is needed.
//!
//! A server whose own block device must be written before the kernel can give
//! it memory stands still for ever. So everything is locked, memory for
//! contents can be set aside beforehand, the kernel is told that this process
//! writes for others (PR_SET_IO_FLUSHER), and a cgroup with a limit, where
//! reclaim waits for writeback, is refused.

use std::fs;
use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;

use super::error::LoopError;
use crate::memory::available_bytes;

/// Locks what this process has and will have, keeps the out-of-memory killer
/// away, and tells the kernel that its memory must not depend on writeback.
/// Gives what was not available, in words for the operator.
pub(crate) fn protect() -> Vec<String> {
    let mut warnings = Vec::new();
    let flusher = configure_io_flusher_behavior(true).is_ok();
    let unkillable = fs::write("/proc/self/oom_score_adj", "-1000").is_ok();
    if !flusher || !unkillable {
        warnings.push(
            "warning: without CAP_SYS_RESOURCE the kernel does not know that this process writes for others, and may \
             choose it when memory runs out"
                .to_owned(),
        );
    }
    keep_freed_memory();
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        let error = io::Error::from(error);
        warnings.push(format!("warning: memory is not locked ({error}); under memory pressure the device may stall"));
    }
    warnings
}

/// Has the allocator keep what is freed and take it again first.
fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallopt takes two integers; a value it does not like changes nothing.
        unsafe {
            // Never give the top of the heap back.
            libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
            // Large blocks come from the heap too, or each would be mapped again.
            libc::mallopt(libc::M_MMAP_MAX, 0);
            // The few short-lived threads share the one heap.
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// Sets `bytes` of memory aside for later: locked, present, and free in this
/// process's allocator. Call after [`protect`].
pub(crate) fn reserve(bytes: u64) -> Result<(), LoopError> {
    if bytes == 0 {
        return Ok(());
    }
    let fail = |source| LoopError::Memory { bytes, what: "reserved", source };
    if let Some(available) = available_bytes()
        && bytes > available / 10 * 9
    {
        let reason = format!("only {available} bytes are available; a smaller device or an --image needs less");
        return Err(fail(io::Error::other(reason)));
    }
    let length = usize::try_from(bytes).map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
    let mut room: Vec<u8> = Vec::new();
    room.try_reserve_exact(length).map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
    // Touched, for a process that may not lock.
    room.resize(length, 0xa5);
    std::hint::black_box(&room);
    Ok(())
}
