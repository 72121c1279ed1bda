//! Control groups: cgroups(7).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use units::Printable;

use crate::FileError;
use crate::mounts::Mounts;

/// A folder that is no control group.
#[derive(Debug, thiserror::Error)]
#[error("control group {path}: {why}", path = Printable::path(path))]
pub struct CgroupError {
    /// As it was given.
    pub path: PathBuf,
    /// What is wrong with it, and what would be right.
    pub why: String,
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
    ///
    /// # Errors
    /// [`CgroupError`] if it is none.
    pub fn of(path: &Path, mounts: &Mounts) -> Result<Self, CgroupError> {
        let wrong = |why: String| CgroupError { path: path.to_owned(), why };
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
    ///
    /// # Errors
    /// If a folder or list cannot be read.
    pub fn processes(&self) -> Result<BTreeSet<u32>, FileError> {
        let mut found = BTreeSet::new();
        let mut open = vec![self.path.clone()];
        while let Some(folder) = open.pop() {
            let list = folder.join("cgroup.procs");
            let text = fs::read_to_string(&list).map_err(FileError::of(&list, "reading its processes"))?;
            found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
            let entries = fs::read_dir(&folder).map_err(FileError::of(&folder, "listing its groups"))?;
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

    #[test]
    fn a_folder_elsewhere_is_no_control_group() {
        let folder = tempfile::tempdir().unwrap();
        let error = Cgroup::of(folder.path(), &Mounts::now().unwrap()).unwrap_err().to_string();
        assert!(error.contains("hierarchy"), "{error}");
    }
}
