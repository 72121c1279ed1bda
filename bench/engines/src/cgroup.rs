//! A memory cgroup for one process, of either version, where one may be made.

use std::fs;
use std::path::{Path, PathBuf};

/// A group that is removed when nobody needs it any more.
pub struct Group {
    folder: PathBuf,
    /// The file that has the most bytes that were in use.
    peak: &'static str,
}

/// Where this process's own group of the memory controller is, and whether it is one of version 2.
fn own() -> Option<(PathBuf, bool)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path_of = |line: &str| line.splitn(3, ':').nth(2).map(|path| path.trim_start_matches('/').to_owned());
    let first = groups
        .lines()
        .find(|line| line.split(':').nth(1).is_some_and(|names| names.split(',').any(|name| name == "memory")));
    let (root, path, second) = match first {
        Some(line) => (Path::new("/sys/fs/cgroup/memory"), path_of(line)?, false),
        None => (Path::new("/sys/fs/cgroup"), path_of(groups.lines().find(|line| line.starts_with("0::"))?)?, true),
    };
    let folder = root.join(path);
    Some((if folder.is_dir() { folder } else { root.to_owned() }, second))
}

impl Group {
    /// A group whose processes have so many bytes for themselves and their files' pages.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn make(name: &str, bytes: u64) -> Result<Self, String> {
        let (parent, second) = own().ok_or("no memory controller")?;
        let folder = parent.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (limit, peak) = match second {
            true => ("memory.max", "memory.peak"),
            false => ("memory.limit_in_bytes", "memory.max_usage_in_bytes"),
        };
        let group = Self { folder, peak };
        let path = group.folder.join(limit);
        fs::write(&path, bytes.to_string()).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(group)
    }

    /// The file that a process writes itself into.
    pub fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// The most bytes that were in use, pages of files included.
    pub fn peak_bytes(&self) -> Option<u64> {
        fs::read_to_string(self.folder.join(self.peak)).ok()?.trim().parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel may be about to take its last process out.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.folder.display());
    }
}
