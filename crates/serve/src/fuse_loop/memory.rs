//! Memory that is there before it is needed.
//!
//! A server whose own block device must be written before the kernel can give
//! it memory stands still for ever. So everything is locked, memory for
//! contents can be set aside beforehand, the kernel is told that this process
//! writes for others (PR_SET_IO_FLUSHER), and a cgroup with a limit, where
//! reclaim waits for writeback, is refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;

use super::error::LoopError;

/// A memory cgroup with a limit that this process is in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) group: PathBuf,
    /// The root of its hierarchy.
    pub(crate) outside: PathBuf,
    pub(crate) limit_bytes: u64,
}

/// Locks what this process has and will have, keeps the out-of-memory killer
/// away, and tells the kernel that its memory must not depend on writeback.
/// Gives what could not be had, in words for the operator.
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
            // Large blocks come from the heap too, or each would be mapped anew.
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

/// MemAvailable of /proc/meminfo.
pub(crate) fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn total_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The tightest memory limit that this process is under, if one is tighter than
/// the machine itself.
pub(crate) fn limit() -> Option<Limit> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_of(&membership, Path::new("/sys/fs/cgroup"), total_bytes()?)
}

/// As [`limit`], for the text of a `/proc/PID/cgroup` and cgroup file systems
/// under `root` (cgroups(7)).
fn limit_of(membership: &str, root: &Path, total_bytes: u64) -> Option<Limit> {
    let mut tightest: Option<Limit> = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (hierarchies, file): (&[&str], &str) = if controllers.split(',').any(|name| name == "memory") {
            (&["memory"], "memory.limit_in_bytes")
        } else if controllers.is_empty() {
            (&["", "unified"], "memory.max")
        } else {
            continue;
        };
        for hierarchy in hierarchies {
            let outside = root.join(hierarchy);
            let mut group = outside.join(path.trim_start_matches('/'));
            // From the group up to the root, whose limit a container sees.
            while group.starts_with(&outside) {
                let read = fs::read_to_string(group.join(file)).ok();
                let limit_bytes = read.and_then(|text| text.trim().parse::<u64>().ok());
                if let Some(limit_bytes) = limit_bytes.filter(|limit| *limit < total_bytes)
                    && tightest.as_ref().is_none_or(|found| limit_bytes < found.limit_bytes)
                {
                    tightest = Some(Limit { group: group.clone(), outside: outside.clone(), limit_bytes });
                }
                if !group.pop() {
                    break;
                }
            }
        }
    }
    tightest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_tightest_limit() {
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, file: &str, text: &str| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), text).unwrap();
        };
        group("memory", "memory.limit_in_bytes", "9223372036854771712\n");
        group("memory/a", "memory.limit_in_bytes", "1048576\n");
        group("memory/a/b", "memory.limit_in_bytes", "2097152\n");
        group("c", "memory.max", "max\n");
        let found = limit_of("4:memory:/a/b\n7:blkio:/\n0::/c\n", root.path(), 1 << 30);
        let group_path = root.path().join("memory/a");
        let outside = root.path().join("memory");
        assert_eq!(found, Some(Limit { group: group_path, outside, limit_bytes: 1 << 20 }));
        // In another group there is none.
        assert_eq!(limit_of("4:memory:/\n0::/c\n", root.path(), 1 << 30), None);
        // A limit above what the machine has is none.
        assert_eq!(limit_of("4:memory:/a/b\n", root.path(), 1 << 20), None);
        // cgroup v2.
        group("d/e", "memory.max", "4096\n");
        assert_eq!(limit_of("0::/d/e\n", root.path(), 1 << 30).map(|found| found.limit_bytes), Some(4096));
        assert_eq!(limit_of("garbage\n::\n", root.path(), 1 << 30), None);
    }
}
