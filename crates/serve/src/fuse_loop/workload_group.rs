//! The way around the loop driver's one worker.
//!
//! The driver hands requests of the root blkio cgroup to one worker, which
//! carries out flushes and discards one after another and everything else
//! behind them; every other cgroup has a worker of its own
//! (`loop_queue_work` in drivers/block/loop.c). So a workload should be in one.

use std::fs;
use std::path::{Path, PathBuf};

/// The cgroup that is made for workloads.
const NAME: &str = "plumb";

/// Where a workload's requests would go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WorkloadGroup {
    /// This process is in a cgroup of its own already, and so are its children.
    Already,
    /// Processes in this cgroup have a worker of their own.
    Made(PathBuf),
    /// None can be made here, for this reason.
    Unavailable(&'static str),
}

impl WorkloadGroup {
    /// Finds or makes the cgroup.
    pub(crate) fn prepare() -> Self {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::prepare_in(&membership, Path::new("/sys/fs/cgroup"))
    }

    fn prepare_in(membership: &str, root: &Path) -> Self {
        let path_in = |wanted: &str| {
            membership.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers.split(',').any(|name| name == wanted).then_some(path)
            })
        };
        let hierarchy = if let Some(path) = path_in("blkio") {
            if path != "/" {
                return Self::Already;
            }
            root.join("blkio")
        } else {
            let Some(path) = path_in("") else { return Self::Unavailable("there is no blkio or io controller") };
            // Of version 2 a cgroup counts where its parents hand the io controller down.
            let enabled = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
            if !enabled.split_whitespace().any(|name| name == "io") {
                return Self::Unavailable(
                    "the io controller is not enabled (`systemd-run --scope -p IOWeight=100 COMMAND` does)",
                );
            }
            if path != "/" {
                return Self::Already;
            }
            root.to_owned()
        };
        let group = hierarchy.join(NAME);
        match fs::create_dir(&group) {
            Ok(()) => Self::Made(group),
            Err(_) if group.join("cgroup.procs").exists() => Self::Made(group),
            Err(_) => Self::Unavailable("no cgroup can be made here"),
        }
    }

    /// The line that puts a shell, and what it starts, into the cgroup.
    pub(crate) fn enter(&self) -> Option<String> {
        match self {
            Self::Made(group) => Some(format!("echo $$ > {}/cgroup.procs", group.display())),
            Self::Already | Self::Unavailable(_) => None,
        }
    }
}

impl Drop for WorkloadGroup {
    fn drop(&mut self) {
        if let Self::Made(group) = self {
            // Refused while a workload, perhaps another server's, is in it.
            let _ = fs::remove_dir(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("blkio")).unwrap();
        let group = root.path().join("blkio/plumb");
        {
            let made = WorkloadGroup::prepare_in("7:blkio:/\n0::/\n", root.path());
            // Not by comparing with another group, which would remove the folder when it goes.
            assert!(matches!(&made, WorkloadGroup::Made(path) if *path == group));
            assert_eq!(made.enter(), Some(format!("echo $$ > {}/cgroup.procs", group.display())));
            assert!(group.is_dir());
        }
        assert!(!group.exists());
        assert_eq!(WorkloadGroup::prepare_in("7:cpu,blkio:/user\n", root.path()), WorkloadGroup::Already);
    }

    #[test]
    fn version_2() {
        let root = tempfile::tempdir().unwrap();
        let prepared = |membership: &str| WorkloadGroup::prepare_in(membership, root.path());
        assert!(matches!(prepared("0::/user.slice\n"), WorkloadGroup::Unavailable(_)));
        fs::write(root.path().join("cgroup.subtree_control"), "cpu io memory\n").unwrap();
        assert_eq!(prepared("0::/user.slice\n"), WorkloadGroup::Already);
        assert_eq!(prepared("0::/\n"), WorkloadGroup::Made(root.path().join("plumb")));
        assert!(matches!(prepared(""), WorkloadGroup::Unavailable(_)));
    }
}
