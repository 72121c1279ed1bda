//! Where built kernels lie: one folder each, named by release and recipe, complete from the moment it is there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Kernel;
use crate::error::LinuxError;

/// Name of the folder of kernels in a cache.
const KERNELS: &str = "linux";
/// Name of the program in a kernel's folder.
const PROGRAM: &str = "linux";

/// What all users of the machine share.
const SHARED: &str = "/var/cache/plumb";

/// Folders of kernels, in the order in which they are looked at; the first is built in.
///
/// Who may write the machine's own cache builds there, once for all; the others use what is there. `XDG_CACHE_HOME` asks for a
/// cache of one's own.
pub(super) fn folders() -> Result<Vec<PathBuf>, LinuxError> {
    let is_told = std::env::var_os("XDG_CACHE_HOME").is_some_and(|path| Path::new(&path).is_absolute());
    let own = cache_folder().map(|folder| folder.join(KERNELS));
    ordered(own, is_told, &Path::new(SHARED).join(KERNELS))
}

fn ordered(own: Result<PathBuf, LinuxError>, is_told: bool, shared: &Path) -> Result<Vec<PathBuf>, LinuxError> {
    let shared = shared.to_owned();
    match own {
        Ok(own) if is_told => Ok(vec![own]),
        own if can_be_written(&shared) => Ok(std::iter::once(shared).chain(own.ok()).collect()),
        own => Ok(vec![own?, shared]),
    }
}

/// Whether files can be made in a folder, or the folder itself where it is not there yet.
fn can_be_written(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| folder.exists());
    there.is_some_and(|there| there.is_dir() && rustix::fs::access(there, rustix::fs::Access::WRITE_OK).is_ok())
}

/// Whether what lies at a path is of this user or of root: a program of somebody else's is not run.
fn is_trusted(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|about| about.uid() == 0 || about.uid() == own)
}

/// Where Plumb keeps what can be made again: `$XDG_CACHE_HOME/plumb`, or `~/.cache/plumb`.
///
/// # Errors
/// Where neither is an absolute path.
pub fn cache_folder() -> Result<PathBuf, LinuxError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let missing = || LinuxError::Invalid {
        message: "neither XDG_CACHE_HOME nor HOME is an absolute path: set one, what is kept lies below it".to_owned(),
    };
    Ok(base.ok_or_else(missing)?.join("plumb"))
}

/// The kernel of the highest release that `recipe` made, in the first of these folders that has one.
pub(super) fn find(folders: &[PathBuf], recipe: &str) -> Result<Option<Kernel>, LinuxError> {
    let mut found = folders.iter().map(|folder| newest(folder, recipe));
    found.find(|found| !matches!(found, Ok(None))).unwrap_or(Ok(None))
}

/// The kernel of the highest release that `recipe` made.
pub(super) fn newest(folder: &Path, recipe: &str) -> Result<Option<Kernel>, LinuxError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LinuxError::system(format!("cannot read {}", folder.display()))(error)),
    };
    let mut best: Option<(Vec<u64>, Kernel)> = None;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(release) = name.strip_suffix(recipe).and_then(|rest| rest.strip_suffix('-')) else { continue };
        let program = entry.path().join(PROGRAM);
        if !release.starts_with(|first: char| first.is_ascii_digit()) || !program.is_file() {
            continue;
        }
        if !is_trusted(&entry.path()) || !is_trusted(&program) {
            continue;
        }
        let order = numbers(release);
        if best.as_ref().is_none_or(|(known, _)| *known < order) {
            best = Some((order, Kernel { program, release: release.to_owned(), recipe: recipe.to_owned() }));
        }
    }
    Ok(best.map(|(_, kernel)| kernel))
}

/// Puts what `fill` writes into a fresh folder into the cache, all of it or nothing.
pub(super) fn store(
    folder: &Path,
    release: &str,
    recipe: &str,
    fill: impl FnOnce(&Path) -> Result<(), LinuxError>,
) -> Result<Kernel, LinuxError> {
    let failed = |path: &Path| LinuxError::system(format!("cannot write {}", path.display()));
    let temporary = tempfile::Builder::new().prefix("new-").tempdir_in(folder).map_err(failed(folder))?;
    let program = temporary.path().join(PROGRAM);
    fill(&program)?;
    // A folder for what is temporary is its maker's alone.
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).map_err(failed(temporary.path()))?;
    let finished = folder.join(format!("{release}-{recipe}"));
    let made = temporary.keep();
    if let Err(error) = fs::rename(&made, &finished) {
        let _ = fs::remove_dir_all(&made);
        // Somebody without the lock may have stored the same.
        if !finished.join(PROGRAM).is_file() {
            return Err(failed(&finished)(error));
        }
    }
    Ok(Kernel { program: finished.join(PROGRAM), release: release.to_owned(), recipe: recipe.to_owned() })
}

/// The numbers in a release, for comparing: `6.12.9` is below `6.12.117`.
fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_release_of_the_recipe() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(&folder.path().join("absent"), "aaaa").unwrap(), None);
        for name in ["6.12.9-aaaa", "6.12.117-aaaa", "6.12.200-bbbb", "new-x", "6.12.300-aaaa"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            if name != "6.12.300-aaaa" {
                fs::write(folder.path().join(name).join(PROGRAM), "").unwrap();
            }
        }
        let kernel = newest(folder.path(), "aaaa").unwrap().unwrap();
        assert_eq!(kernel.release(), "6.12.117");
        assert_eq!(newest(folder.path(), "cccc").unwrap(), None);
    }

    #[test]
    fn the_machine_s_cache_is_built_in_by_those_who_may() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("plumb/linux");
        let own = || Ok(PathBuf::from("/own/plumb/linux"));
        let nobody = || Err(LinuxError::NoKernel);
        assert_eq!(ordered(own(), false, &shared).unwrap(), [shared.clone(), own().unwrap()]);
        assert_eq!(ordered(nobody(), false, &shared).unwrap(), std::slice::from_ref(&shared));
        assert_eq!(ordered(own(), true, &shared).unwrap(), [own().unwrap()], "one's own was asked for");
        // Nobody makes folders there, root neither.
        let closed = Path::new("/dev/null/plumb/linux");
        assert_eq!(ordered(own(), false, closed).unwrap(), [own().unwrap(), closed.to_owned()]);
        assert!(ordered(nobody(), false, closed).is_err());
    }

    #[test]
    fn a_kernel_of_another_folder_is_found_and_that_of_another_user_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        fs::create_dir_all(&second).unwrap();
        let stored = store(&second, "6.12.1", "aaaa", |program| {
            fs::write(program, "").map_err(LinuxError::system(String::new()))
        });
        let stored = stored.unwrap();
        let mode = fs::metadata(second.join("6.12.1-aaaa")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "others can run it");
        let folders = [first, second.clone()];
        assert_eq!(find(&folders, "aaaa").unwrap(), Some(stored));
        assert_eq!(find(&folders, "bbbb").unwrap(), None);
        let (program, other) = (second.join("6.12.1-aaaa/linux"), Some(rustix::process::geteuid().as_raw() + 1));
        if std::os::unix::fs::chown(&program, other, None).is_err() {
            println!("skipped: only root gives files away");
            return;
        }
        assert_eq!(find(&folders, "aaaa").unwrap(), None);
    }

    #[test]
    fn a_failed_store_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let failed = store(folder.path(), "6.12.1", "aaaa", |program| {
            fs::write(program, "half").unwrap();
            Err(LinuxError::NoKernel)
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let store_again = || {
            store(folder.path(), "6.12.1", "aaaa", |program| {
                fs::write(program, "whole").unwrap();
                Ok(())
            })
        };
        assert_eq!(store_again().unwrap(), newest(folder.path(), "aaaa").unwrap().unwrap());
        assert_eq!(store_again().unwrap().release(), "6.12.1");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
