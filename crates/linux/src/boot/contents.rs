//! Where what the devices hold lies on the host: a folder whose file system may fill up, and that goes with the run.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::memory::free_bytes;
use crate::error::LinuxError;

/// The environment's word for the folder.
const VARIABLE: &str = "PLUMB_CONTENTS";

/// Makes a folder for contents: in `$PLUMB_CONTENTS` or `$TMPDIR` where that is named, or else where most is free.
pub(super) fn folder() -> Result<TempDir, LinuxError> {
    let named = [VARIABLE, "TMPDIR"].into_iter().find_map(std::env::var_os).map(PathBuf::from);
    let parent = named.unwrap_or_else(|| roomiest(&["/var/tmp", "/tmp"]));
    let made = tempfile::Builder::new().prefix("plumb-contents-").tempdir_in(&parent);
    made.map_err(LinuxError::system(format!(
        "cannot make a folder for the device's contents in {} ({VARIABLE} names another)",
        parent.display()
    )))
}

fn roomiest(folders: &[&str]) -> PathBuf {
    let most = folders.iter().map(Path::new).rev().max_by_key(|folder| free_bytes(folder).unwrap_or(0));
    most.map_or_else(std::env::temp_dir, Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_goes_with_the_run() {
        let made = folder().unwrap();
        let path = made.path().to_owned();
        assert!(path.is_dir());
        drop(made);
        assert!(!path.exists());
        assert_eq!(roomiest(&["/proc", "/nowhere"]), Path::new("/proc"));
    }
}
