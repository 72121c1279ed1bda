//! Where the guest's memory lies: a file in a folder that programs may be mapped from.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use crate::error::LinuxError;

/// Less than this is not tried.
const LEAST_BYTES: u64 = 256 << 20;

/// A folder for `bytes` of memory, taken as the guest uses them: in memory (`/dev/shm`) where that is large
/// enough and lets programs be mapped, or else in a folder for temporary files.
///
/// # Errors
/// Where no folder has room.
pub fn folder(bytes: u64) -> Result<PathBuf, LinuxError> {
    let named = ["PLUMB_GUEST_MEMORY", "XDG_RUNTIME_DIR", "TMPDIR"].map(std::env::var_os);
    let [chosen, runtime, temporary] = named.map(|name| name.map(PathBuf::from));
    let fixed = ["/dev/shm", "/tmp", "/var/tmp"].map(PathBuf::from);
    let [shared_memory, tmp, var_tmp] = fixed.map(Some);
    let folders: Vec<PathBuf> =
        [chosen, shared_memory, runtime, temporary, tmp, var_tmp].into_iter().flatten().collect();
    let free: Vec<(PathBuf, u64)> =
        folders.iter().filter_map(|folder| Some((folder.clone(), usable_bytes(folder)?))).collect();
    let enough = free.iter().find(|(_, free)| *free >= bytes);
    let most = || free.iter().rev().max_by_key(|(_, free)| *free).filter(|(_, free)| *free >= LEAST_BYTES.min(bytes));
    enough.or_else(most).map(|(folder, _)| folder.clone()).ok_or_else(|| {
        let tried: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        LinuxError::Invalid {
            message: format!(
                "no folder has room for the guest's memory and lets programs be mapped ({}): free some, \
                 or name one with PLUMB_GUEST_MEMORY",
                tried.join(", ")
            ),
        }
    })
}

/// Free bytes, where files can be made there and mapped as programs.
fn usable_bytes(folder: &Path) -> Option<u64> {
    access(folder, Access::EXEC_OK).ok()?;
    let refuses = statvfs(folder).ok()?.f_flag.contains(StatVfsMountFlags::NOEXEC);
    free_bytes(folder).filter(|_| !refuses)
}

/// Free bytes, where files can be made there.
pub(super) fn free_bytes(folder: &Path) -> Option<u64> {
    access(folder, Access::WRITE_OK).ok()?;
    let about = statvfs(folder).ok()?;
    let refuses = about.f_flag.contains(StatVfsMountFlags::RDONLY);
    (!refuses).then(|| about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_takes_files() {
        let folder = folder(1 << 20).unwrap();
        assert!(tempfile::tempfile_in(folder).is_ok());
        assert_eq!(usable_bytes(Path::new("/proc")).unwrap_or(0), 0);
        assert_eq!(usable_bytes(Path::new("/nowhere")), None);
    }
}
