//! What memory there is, and giving back what is not needed.

use std::fs;
use std::path::{Path, PathBuf};

/// A memory cgroup with a limit that this process is in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) group: PathBuf,
    /// The root of its hierarchy.
    pub(crate) outside: PathBuf,
    pub(crate) limit_bytes: u64,
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

/// Most memory for contents where nobody says otherwise: half of what the machine, or the cgroup that this process
/// is in, has. A tmpfs has the same default.
pub fn default_limit_bytes() -> Option<u64> {
    let total = total_bytes()?;
    Some(limit().map_or(total, |limit| limit.limit_bytes.min(total)) / 2)
}

/// Has the allocator give free memory back to the system. glibc does so by itself only at the end of its heap.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes an integer and touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
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
