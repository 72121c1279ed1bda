//! Processes and what descends from them: `/proc`, see proc_pid_stat(5).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::FileError;

/// Inode number of the first PID namespace (`PROC_PID_INIT_INO` of `linux/proc_ns.h`).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Why a process cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is none of this number.
    #[error("process {0}: there is no such process")]
    Missing(u32),
    /// The list of them.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A process and all that descend from it, at this moment.
///
/// # Errors
/// [`ProcessError::Missing`] if it has ended.
pub fn tree(root: u32) -> Result<BTreeSet<u32>, ProcessError> {
    if !Path::new(&format!("/proc/{root}")).exists() {
        return Err(ProcessError::Missing(root));
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
fn numbers(folder: &Path) -> Result<Vec<u32>, FileError> {
    let entries = fs::read_dir(folder).map_err(FileError::of(folder, "listing processes"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The process that started it, or has taken it over; `None` if it has ended.
pub fn parent(process: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may hold anything, brackets too; state and parent follow.
    let after = stat.rsplitn(2, |&byte| byte == b')').next()?;
    std::str::from_utf8(after).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// Whether processes have the same numbers here as in the kernel's records, which are those of the first PID namespace.
pub fn are_numbered_as_in_the_kernel() -> bool {
    let namespace = fs::metadata("/proc/self/ns/pid").map(|metadata| metadata.ino());
    !namespace.is_ok_and(|inode| inode != INITIAL_PID_NAMESPACE)
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
}
