//! A control group of this machine for the programs of one run.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::LiveHostError;

/// How often a group whose last process goes is tried again, and after how long.
const REMOVALS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// The folder of control groups (version 2), and the name of ours below it; taken away when dropped.
pub(crate) struct Group {
    root: PathBuf,
    name: String,
}

impl Group {
    /// A name for a group that can have `controllers`; the run's script makes it.
    ///
    /// # Errors
    /// [`LiveHostError::Unavailable`] where this machine has no such controllers, or does not let them be used.
    pub(crate) fn new(controllers: &[&str]) -> Result<Self, LiveHostError> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let root = root_with(&mounts, controllers, &|root| {
            fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default()
        });
        let unavailable = |why: String| LiveHostError::Unavailable { why };
        let root = root.ok_or_else(|| {
            unavailable(format!(
                "limits need control groups of version 2 with {}, which this machine has not",
                controllers.join(" and ")
            ))
        })?;
        // Runs of one process take turns.
        let name = format!("plumb-{}", std::process::id());
        let control = root.join("cgroup.subtree_control");
        let allowed = fs::OpenOptions::new().append(true).open(&control);
        allowed.map_err(|error| unavailable(format!("{}: {error} (limits need root)", control.display())))?;
        Ok(Self { root, name })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let folder = self.root.join(&self.name);
        for _ in 0..REMOVALS {
            let _ = fs::write(folder.join("cgroup.kill"), "1");
            if !folder.exists() || fs::remove_dir(&folder).is_ok() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// The first mount of version 2 that has all `controllers`.
fn root_with(mounts: &str, controllers: &[&str], of: &dyn Fn(&Path) -> String) -> Option<PathBuf> {
    let roots = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (place, kind) = (words.nth(1)?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    });
    roots.into_iter().find(|root| {
        let known = of(root);
        controllers.iter().all(|wanted| known.split_whitespace().any(|word| word == *wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_version_2_with_the_controllers_will_do() {
        let mounts =
            "cgroup /cg/memory cgroup rw,memory 0 0\ncgroup2 /cg/unified cgroup2 rw 0 0\ncgroup2 /cg2 cgroup2 rw 0 0\n";
        let of = |root: &Path| if root == Path::new("/cg2") { "cpu io memory\n".to_owned() } else { String::new() };
        assert_eq!(root_with(mounts, &["memory"], &of), Some("/cg2".into()));
        assert_eq!(root_with(mounts, &["memory", "io"], &of), Some("/cg2".into()));
        assert_eq!(root_with(mounts, &["hugetlb"], &of), None);
        assert_eq!(root_with("cgroup /cg/memory cgroup rw,memory 0 0\n", &["memory"], &of), None);
    }
}
