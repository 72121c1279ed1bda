//! Where built kernels lie: one folder each, named by release and recipe, complete from the moment it is there.

use std::fs;
use std::path::{Path, PathBuf};

use super::Kernel;
use crate::error::LinuxError;

/// Name of the program in a kernel's folder.
const PROGRAM: &str = "linux";

/// `$XDG_CACHE_HOME/plumb/linux`, or `~/.cache/plumb/linux`.
pub(super) fn folder() -> Result<PathBuf, LinuxError> {
    Ok(cache_folder()?.join("linux"))
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
