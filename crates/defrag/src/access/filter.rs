//! What is to be traced.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use observe::cgroups::Cgroup;
use observe::mounts::Mounts;
use observe::processes;
use units::Printable;

use super::error::TraceError;
use super::recorder::RawFile;

/// What is to be traced. Filters of place (`paths`, `mounts`) let through what any of
/// them lets through, and so do those of processes (`processes`, `children`, `cgroups`);
/// where there are both, both must. Without any, everything is traced that is not done
/// by this process itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filters {
    /// Files, and everything below folders. A file that replaces a named one later
    /// (written beside it and renamed) is another file and not traced: name its folder.
    pub paths: Vec<PathBuf>,
    /// The mount on which each of these lies, all of it.
    pub mounts: Vec<PathBuf>,
    /// These processes, what descends from them now and what they start from now on.
    pub processes: Vec<u32>,
    /// What the calling thread starts from now on, and what descends from that.
    pub children: bool,
    /// The processes of these control groups (folders of the unified hierarchy) and of
    /// the groups below them. `bpf` asks at each event; `tracefs` and `fanotify` take
    /// the processes that are in the group at the start, and `tracefs` what they start.
    pub cgroups: Vec<PathBuf>,
}

/// A place, in the kernel's numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelPlace {
    /// The superblock's device, encoded as `st_dev` is.
    pub kernel_device: u64,
    /// `st_dev` of the place itself.
    pub device: u64,
    /// For a file, its inode.
    pub inode: Option<u64>,
    /// For a folder that is not all of its mount, the folder; for a file, the file.
    pub path: Option<PathBuf>,
    /// The mount on which it lies.
    pub mount: PathBuf,
}

/// Filters, in the kernel's numbers.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Any of them; none means everywhere.
    pub places: Vec<KernelPlace>,
    /// Processes at the start, descendants included.
    pub processes: BTreeSet<u32>,
    /// Also what the calling thread starts.
    pub children: bool,
    /// Also these groups.
    pub cgroups: Vec<Cgroup>,
    /// As they were at the start.
    pub mounts: Mounts,
}

impl Selection {
    /// Looks everything up.
    pub fn of(filters: &Filters) -> Result<Self, TraceError> {
        let mounts = Mounts::now().map_err(TraceError::mounts())?;
        let mut places = Vec::new();
        for path in &filters.paths {
            places.push(place(path, &mounts, false)?);
        }
        for path in &filters.mounts {
            places.push(place(path, &mounts, true)?);
        }
        let mut processes = BTreeSet::new();
        for &process in &filters.processes {
            processes.extend(processes::tree(process)?);
        }
        let cgroups = filters.cgroups.iter().map(|path| Cgroup::of(path, &mounts)).collect::<Result<_, _>>()?;
        Ok(Self { places, processes, children: filters.children, cgroups, mounts })
    }

    /// Whether processes are filtered at all.
    pub fn has_processes(&self) -> bool {
        self.children || !self.processes.is_empty() || !self.cgroups.is_empty()
    }

    /// The processes of today for sources that cannot follow control groups.
    pub fn processes_now(&self) -> Result<BTreeSet<u32>, TraceError> {
        let mut all = self.processes.clone();
        for group in &self.cgroups {
            all.extend(group.processes()?);
        }
        all.remove(&std::process::id());
        Ok(all)
    }

    /// Whether the numbers alone let the file through; its path may still exclude it.
    pub fn admits(&self, file: RawFile) -> bool {
        self.places.is_empty()
            || self.places.iter().any(|place| {
                let is_there = place.kernel_device == file.device || place.device == file.device;
                is_there && place.inode.is_none_or(|inode| inode == file.inode)
            })
    }

    /// Whether a file that was found, with `st_dev` and inode, is at one of the places.
    pub fn admits_path(&self, device: u64, inode: u64, path: &Path) -> bool {
        self.places.is_empty()
            || self.places.iter().any(|place| match (place.inode, &place.path) {
                (Some(wanted), _) => place.device == device && wanted == inode,
                (None, Some(folder)) => path.starts_with(folder),
                // All of a mount; for Btrfs that is one subvolume and what is below it.
                (None, None) => path.starts_with(&place.mount),
            })
    }
}

fn place(given: &Path, mounts: &Mounts, whole_mount: bool) -> Result<KernelPlace, TraceError> {
    let wrong = |why: String| TraceError::Filter { filter: Printable::path(&given).to_string(), why };
    let path = given.canonicalize().map_err(|error| wrong(error.to_string()))?;
    let metadata = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
    let mount = mounts.of(&path).ok_or_else(|| wrong("it lies on no mount that this process sees".into()))?;
    let file_type = metadata.file_type();
    if !whole_mount && !file_type.is_file() && !file_type.is_dir() {
        return Err(wrong("it is neither a file nor a folder".into()));
    }
    let is_file = file_type.is_file() && !whole_mount;
    let is_whole = whole_mount || path == mount.point;
    Ok(KernelPlace {
        kernel_device: mount.kernel_device,
        device: metadata.dev(),
        inode: is_file.then(|| metadata.ino()),
        path: (!is_whole).then_some(path),
        mount: mount.point.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_files_folders_and_mounts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "a").unwrap();
        let metadata = fs::metadata(&file).unwrap();
        let other = RawFile { device: metadata.dev(), inode: metadata.ino() + 1 };

        let selection = Selection::of(&Filters { paths: vec![file.clone()], ..Filters::default() }).unwrap();
        assert_eq!(selection.places[0].inode, Some(metadata.ino()));
        assert!(selection.admits_path(metadata.dev(), metadata.ino(), &file));
        assert!(!selection.admits(RawFile { device: selection.places[0].kernel_device, ..other }));

        let selection = Selection::of(&Filters { paths: vec![folder.path().into()], ..Filters::default() }).unwrap();
        assert!(selection.admits(RawFile { device: selection.places[0].kernel_device, ..other }));
        assert!(selection.admits_path(1, 1, &file));
        assert!(!selection.admits_path(1, 1, Path::new("/elsewhere")));

        let selection = Selection::of(&Filters { mounts: vec![file], ..Filters::default() }).unwrap();
        assert_eq!((selection.places[0].inode, &selection.places[0].path), (None, &None));
        assert!(Selection::of(&Filters::default()).unwrap().admits(other));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = Selection::of(&Filters { paths: vec!["/no/such/file".into()], ..Filters::default() });
        assert!(error.unwrap_err().to_string().contains("/no/such/file"));
    }
}
