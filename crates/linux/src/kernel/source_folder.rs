//! A folder that holds a kernel's source: whether it is one, what it holds, and a copy that is kept up to date.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{unpack, unused};
use crate::error::LinuxError;

/// What a build in place leaves; the kernel's own makefile refuses a source with these.
const BUILT: [&str; 4] = [".config", "include/config", "arch/x86/include/generated", "arch/um/include/generated"];

/// The listing of the source that a copy was made from, in the copy.
const RECORD: &str = ".plumb-source";

/// Refuses a folder that is no source of User-Mode Linux, or one that was built in place.
pub(super) fn check(folder: &Path) -> Result<(), LinuxError> {
    let not = |reason: &str| LinuxError::NotASource { folder: folder.to_owned(), reason: reason.to_owned() };
    if unpack::release(folder).is_err() {
        return Err(not("is no kernel source: it has no Makefile that names a release"));
    }
    if !folder.join("arch/um/Makefile").is_file() {
        return Err(not("is no kernel source that User-Mode Linux can be built from: it has no arch/um/Makefile"));
    }
    if let Some(found) = BUILT.iter().find(|name| folder.join(name).exists()) {
        return Err(not(&format!(
            "was built in place (it holds {found}): `make ARCH=x86 mrproper` cleans it, or name a fresh checkout"
        )));
    }
    Ok(())
}

/// Size and time of the last change of each file, by its path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Listing(BTreeMap<String, (u64, i128)>);

impl Listing {
    /// Of all that a build may read below `folder`.
    pub(super) fn of(folder: &Path) -> Result<Self, LinuxError> {
        let mut listing = Self::default();
        let mut waiting = vec![PathBuf::new()];
        while let Some(inner) = waiting.pop() {
            let path = folder.join(&inner);
            let failed = || LinuxError::system(format!("cannot read {}", path.display()));
            for entry in fs::read_dir(&path).map_err(failed())? {
                let entry = entry.map_err(failed())?;
                let inner = inner.join(entry.file_name());
                let name =
                    inner.to_str().filter(|name| !name.contains('\n')).ok_or_else(|| LinuxError::NotASource {
                        folder: folder.to_owned(),
                        reason: format!("holds a file with a name that is no text, {}", inner.display()),
                    })?;
                let about = match entry.metadata() {
                    Ok(about) => about,
                    // An editor's temporary file, for instance.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(failed()(error)),
                };
                if name == ".git" || unused::in_any_source(name) {
                    continue;
                }
                if about.is_dir() {
                    waiting.push(inner);
                } else {
                    listing.0.insert(name.to_owned(), (about.len(), changed_ns(&about)));
                }
            }
        }
        Ok(listing)
    }

    /// One line for each file.
    pub(super) fn text(&self) -> String {
        self.0.iter().map(|(name, (bytes, changed_ns))| format!("{bytes} {changed_ns} {name}\n")).collect()
    }

    /// Reads what [`text`](Self::text) wrote; lines of other kinds are left out, and their files copied again.
    fn parse(text: &str) -> Self {
        let entry = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let about = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((words.next()?.to_owned(), about))
        };
        Self(text.lines().filter_map(entry).collect())
    }
}

fn changed_ns(about: &Metadata) -> i128 {
    i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec())
}

/// Whether `copy` is what [`update`] would make it.
pub(super) fn is_current(source: &Listing, copy: &Path) -> bool {
    recorded(copy) == *source
}

/// Copies what has changed in `folder`, whose listing is `source`, since the last time, and removes what has gone.
/// A copy that was interrupted is done again, whole.
pub(super) fn update(folder: &Path, source: &Listing, copy: &Path) -> Result<(), LinuxError> {
    let before = recorded(copy);
    let record = copy.join(RECORD);
    remove(&record)?;
    for name in before.0.keys().filter(|name| !source.0.contains_key(*name)) {
        remove(&copy.join(name))?;
    }
    for name in source.0.iter().filter(|(name, about)| before.0.get(*name) != Some(about)).map(|(name, _)| name) {
        copy_file(&folder.join(name), &copy.join(name))?;
    }
    fs::write(&record, source.text()).map_err(LinuxError::system(format!("cannot write {}", record.display())))
}

fn recorded(copy: &Path) -> Listing {
    fs::read_to_string(copy.join(RECORD)).map(|text| Listing::parse(&text)).unwrap_or_default()
}

fn remove(path: &Path) -> Result<(), LinuxError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(LinuxError::system(format!("cannot remove {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}

/// Copies one file with its mode, and a link as a link. The copy's time is now: whatever was built from it is older.
fn copy_file(from: &Path, to: &Path) -> Result<(), LinuxError> {
    let failed = || LinuxError::system(format!("cannot copy {} to {}", from.display(), to.display()));
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(failed())?;
    }
    if fs::symlink_metadata(from).map_err(failed())?.is_symlink() {
        remove(to)?;
        let target = fs::read_link(from).map_err(failed())?;
        return std::os::unix::fs::symlink(target, to).map_err(failed());
    }
    fs::copy(from, to).map(|_| ()).map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn only_what_changed_is_copied() {
        let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (folder, copy) = (folder.path(), copy.path());
        for name in ["Makefile", "fs/a.c", "fs/b.c", ".git/HEAD", "arch/arm/x.c"] {
            write(folder, name, name);
        }
        std::os::unix::fs::symlink("../fs", folder.join("arch/link")).unwrap();
        let update_now = || update(folder, &Listing::of(folder).unwrap(), copy).unwrap();
        update_now();
        assert!(is_current(&Listing::of(folder).unwrap(), copy));
        assert_eq!(fs::read_to_string(copy.join("arch/link/b.c")).unwrap(), "fs/b.c");
        assert!(!copy.join(".git").exists() && !copy.join("arch/arm").exists());

        // What a build made, and changed, stays where the source does not change.
        write(copy, "fs/a.o", "object");
        write(copy, "fs/b.c", "patched");
        write(folder, "fs/a.c", "changed");
        fs::remove_file(folder.join("Makefile")).unwrap();
        assert!(!is_current(&Listing::of(folder).unwrap(), copy));
        update_now();
        assert_eq!(fs::read_to_string(copy.join("fs/a.c")).unwrap(), "changed");
        assert_eq!(fs::read_to_string(copy.join("fs/b.c")).unwrap(), "patched");
        assert!(copy.join("fs/a.o").exists() && !copy.join("Makefile").exists());

        fs::remove_file(copy.join(RECORD)).unwrap();
        update_now();
        assert_eq!(fs::read_to_string(copy.join("fs/b.c")).unwrap(), "fs/b.c", "an interrupted copy is made again");
    }

    #[test]
    fn a_folder_that_is_no_source_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let reason = || check(folder).unwrap_err().to_string();
        assert!(reason().contains("no Makefile"), "{}", reason());
        write(folder, "Makefile", "all:\n");
        assert!(reason().contains("no Makefile that names a release"), "{}", reason());
        write(folder, "Makefile", "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n");
        assert!(reason().contains("arch/um"), "{}", reason());
        write(folder, "arch/um/Makefile", "");
        check(folder).unwrap();
        write(folder, ".config", "");
        assert!(reason().contains("built in place (it holds .config)"), "{}", reason());
    }
}
