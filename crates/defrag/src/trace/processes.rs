//! Which processes a filter means: `/proc`, see proc_pid_stat(5), and cgroups(7).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use units::Printable;

use super::error::TraceError;
use crate::mounts::Mounts;

/// A process and all that descend from it, at this moment.
pub fn tree(root: u32) -> Result<BTreeSet<u32>, TraceError> {
    if !Path::new(&format!("/proc/{root}")).exists() {
        return Err(TraceError::Filter { filter: format!("process {root}"), why: "there is no such process".into() });
    }
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in numbers(Path::new("/proc"))? {
        // One that has ended meanwhile has no parent any more.
        if let Some(parent) = parent(process) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = BTreeSet::from([root]);
    let mut open = vec![root];
    while let Some(process) = open.pop() {
        open.extend(children.get(&process).into_iter().flatten().copied().filter(|&child| found.insert(child)));
    }
    Ok(found)
}

/// The threads of a process: none if it has ended.
pub fn threads(process: u32) -> Vec<u32> {
    numbers(Path::new(&format!("/proc/{process}/task"))).unwrap_or_default()
}

/// Folders of `folder` whose names are numbers.
fn numbers(folder: &Path) -> Result<Vec<u32>, TraceError> {
    let entries = fs::read_dir(folder).map_err(TraceError::file(folder, "listing processes"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The process that started it, or has taken it over; `None` if it has ended.
pub fn parent(process: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may hold anything, brackets too; state and parent follow.
    let after = stat.rsplitn(2, |&byte| byte == b')').next()?;
    std::str::from_utf8(after).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// A control group of the unified hierarchy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cgroup {
    /// Its folder.
    pub path: PathBuf,
    /// As `bpf_get_current_ancestor_cgroup_id` gives it: the folder's inode number.
    pub id: u64,
    /// How many folders below the hierarchy's root.
    pub level: u32,
}

impl Cgroup {
    /// The group of a folder, given in full or from the hierarchy's root on.
    pub fn of(path: &Path, mounts: &Mounts) -> Result<Self, TraceError> {
        let wrong =
            |why: String| TraceError::Filter { filter: format!("control group {}", Printable::path(&path)), why };
        let root = mounts
            .iter()
            .find(|mount| mount.file_system == "cgroup2")
            .ok_or_else(|| wrong("no cgroup2 hierarchy is mounted".into()))?;
        let inside = root.point.join(path.strip_prefix("/").unwrap_or(path));
        let folder = if path.starts_with(&root.point) || !inside.is_dir() { path } else { inside.as_path() };
        let folder = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
        let below = folder.strip_prefix(&root.point).map_err(|_| {
            wrong(format!(
                "it does not lie in the unified hierarchy at {}: give a folder of it",
                Printable::path(&root.point)
            ))
        })?;
        let level = u32::try_from(below.components().count()).map_err(|error| wrong(error.to_string()))?;
        let id = fs::metadata(&folder).map_err(|error| wrong(error.to_string()))?.ino();
        Ok(Self { path: folder, id, level })
    }

    /// The processes in it and in the groups below it, at this moment.
    pub fn processes(&self) -> Result<BTreeSet<u32>, TraceError> {
        let mut found = BTreeSet::new();
        let mut open = vec![self.path.clone()];
        while let Some(folder) = open.pop() {
            let list = folder.join("cgroup.procs");
            let text = fs::read_to_string(&list).map_err(TraceError::file(&list, "reading its processes"))?;
            found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
            let entries = fs::read_dir(&folder).map_err(TraceError::file(&folder, "listing its groups"))?;
            open.extend(
                entries
                    .flatten()
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path()),
            );
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_tree_has_the_children() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = tree(std::process::id()).unwrap();
        let alone = tree(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&std::process::id()) && found.contains(&child.id()), "{found:?}");
        assert_eq!(alone, BTreeSet::from([child.id()]));
        assert!(threads(std::process::id()).len() >= 2, "the test's own thread and the main one");
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let error = tree(u32::MAX).unwrap_err().to_string();
        assert!(error.contains("4294967295") && error.contains("no such process"), "{error}");
    }

    #[test]
    fn a_folder_elsewhere_is_no_control_group() {
        let folder = tempfile::tempdir().unwrap();
        let error = Cgroup::of(folder.path(), &Mounts::now().unwrap()).unwrap_err().to_string();
        assert!(error.contains("hierarchy"), "{error}");
    }
}
