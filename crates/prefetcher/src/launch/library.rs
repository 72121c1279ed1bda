//! The preload library as a file: written from this program's own bytes to a folder that programs can load it from.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

use crate::PrefetcherError;

/// The library, compiled by the build script.
const LIBRARY: &[u8] = include_bytes!(env!("PLUMB_PREFETCH_LIBRARY"));

/// Its name, which another version's differs from.
const NAME: &str = concat!("libplumb-prefetch-", env!("PLUMB_PREFETCH_LIBRARY_HASH"), ".so");

/// Where the library is, written if it was not there.
///
/// # Errors
/// If there is no folder for it.
pub fn place() -> Result<PathBuf, PrefetcherError> {
    let mut faults = Vec::new();
    for folder in folders() {
        match fits(&folder).and_then(|()| put(&folder, NAME)) {
            Ok(path) => return Ok(path),
            Err(fault) => faults.push(format!("{}: {fault}", units::Printable::path(&folder))),
        }
    }
    Err(PrefetcherError::NoFolder(faults.join("; ")))
}

/// Folders to try. Root's lies where programs that become another user can still read it.
fn folders() -> impl Iterator<Item = PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = rustix::process::geteuid().is_root().then(|| PathBuf::from("/run"));
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    [root, variable("XDG_RUNTIME_DIR"), cache].into_iter().flatten().map(|folder| folder.join("plumb"))
}

/// Whether the dynamic linker can load from there, and nobody else can write there.
fn fits(folder: &Path) -> Result<(), String> {
    // They separate the paths of LD_PRELOAD, which knows no quotes.
    if folder.to_str().is_none_or(|text| text.contains([' ', ':', '\t', '\n'])) {
        return Err("its name cannot stand in LD_PRELOAD".to_owned());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o755).create(folder).map_err(|error| error.to_string())?;
    let status = fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    if !status.is_dir() || status.uid() != rustix::process::geteuid().as_raw() || status.mode() & 0o022 != 0 {
        return Err("others can write to it".to_owned());
    }
    let flags = rustix::fs::statvfs(folder).map_err(|error| error.to_string())?.f_flag;
    if flags.contains(StatVfsMountFlags::NOEXEC) {
        return Err("it is mounted with noexec".to_owned());
    }
    Ok(())
}

/// Writes the library, unless it is there.
fn put(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let path = folder.join(name);
    if fs::read(&path).is_ok_and(|bytes| bytes == LIBRARY) {
        return Ok(path);
    }
    let scratch = folder.join(format!("{name}.{}", std::process::id()));
    let write = || {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o644).open(&scratch)?;
        file.write_all(LIBRARY)?;
        // Whatever the umask: programs may become another user.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        fs::rename(&scratch, &path)
    };
    write().map_err(|error: std::io::Error| {
        // What is there of it helps nobody.
        let _ = fs::remove_file(&scratch);
        error.to_string()
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_written_once_and_repaired() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("plumb");
        assert_eq!(fits(&folder), Ok(()));
        let path = put(&folder, "a.so").unwrap();
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
        assert!(LIBRARY.starts_with(b"\x7fELF"));
        fs::write(&path, "damaged").unwrap();
        put(&folder, "a.so").unwrap();
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(fits(&folder).unwrap_err().contains("others"));
        assert!(fits(Path::new("/tmp/a b")).unwrap_err().contains("LD_PRELOAD"));
    }

    #[test]
    fn it_asks_the_c_library_for_nothing_that_allocates_locks_or_starts_threads() {
        let scratch = tempfile::tempdir().unwrap();
        let path = put(scratch.path(), "a.so").unwrap();
        let Ok(listed) = std::process::Command::new("nm").args(["-D", "--undefined-only"]).arg(&path).output() else {
            println!("skipped: nm (binutils) is not here");
            return;
        };
        assert!(listed.status.success(), "{listed:?}");
        let text = String::from_utf8(listed.stdout).unwrap();
        // "U name@version"; weak ones are those that the linker itself puts into every library.
        let mut names: Vec<&str> =
            text.lines().filter_map(|line| line.trim_start().strip_prefix("U ")?.split('@').next()).collect();
        names.sort_unstable();
        let allowed = [
            "__errno_location",
            "abort",
            "clock_gettime",
            "dlsym",
            "fileno",
            "getenv",
            "memcmp",
            "memcpy",
            "memmove",
            "memset",
            "strlen",
        ];
        assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
        assert!(names.contains(&"dlsym"), "{names:?}");
    }
}
