//! Packed images by what made them, in the user's cache folder: as many as there is room for, the latest used ones.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// What all images together may take.
const MOST_BYTES: u64 = 16 << 30;
/// A file without a name that is older was left by a process that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);
const ENDING: &str = ".image";
const PARTIAL: &str = ".new-";
/// Between two looks whether a waiting run is given up.
const POLL: Duration = Duration::from_millis(100);

/// Keys of what is made now, by runs of this process.
static UNDER_WAY: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static ENDED: Condvar = Condvar::new();

/// The right to make what a key names: others of this process wait, and find it made.
pub(super) struct Turn(String);

impl Turn {
    /// Waits for it; nothing when `halted` says so.
    pub(super) fn take(key: &str, halted: &dyn Fn() -> bool) -> Option<Self> {
        let mut under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        while under_way.contains(key) {
            if halted() {
                return None;
            }
            under_way = ENDED.wait_timeout(under_way, POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        under_way.insert(key.to_owned());
        Some(Self(key.to_owned()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        ENDED.notify_all();
    }
}

/// A folder of images.
pub(super) struct Cache {
    folder: PathBuf,
    most_bytes: u64,
}

impl Cache {
    /// That of the user; nothing where it cannot be made.
    pub(super) fn of_user() -> Option<Self> {
        Self::at(&linux::cache_folder().ok()?.join("images"), MOST_BYTES)
    }

    fn at(folder: &Path, most_bytes: u64) -> Option<Self> {
        fs::create_dir_all(folder).ok()?;
        Some(Self { folder: folder.to_owned(), most_bytes })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}{ENDING}"))
    }

    /// What is kept under `key`, which is now the latest used.
    pub(super) fn open(&self, key: &str) -> Option<File> {
        let file = File::options().read(true).write(true).open(self.path(key)).ok()?;
        let _ = file.set_modified(SystemTime::now());
        Some(file)
    }

    /// Takes away what is kept under `key`.
    pub(super) fn forget(&self, key: &str) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Keeps what `write` writes, whole or not at all, and takes away what there is no room for.
    pub(super) fn keep(&self, key: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let mut partial = tempfile::Builder::new().prefix(PARTIAL).tempfile_in(&self.folder)?;
        write(partial.as_file_mut())?;
        if partial.as_file().metadata()?.len() <= self.most_bytes {
            partial.persist(self.path(key)).map_err(|error| error.error)?;
        }
        self.bound()
    }

    fn bound(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut images: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let (name, Ok(about)) = (entry.file_name(), entry.metadata()) else { continue };
            let (name, used) = (name.to_string_lossy(), about.modified().unwrap_or(now));
            if name.ends_with(ENDING) {
                images.push((used, about.len(), entry.path()));
            } else if name.starts_with(PARTIAL) && now.duration_since(used).is_ok_and(|age| age > LEFT_BEHIND) {
                let _ = fs::remove_file(entry.path());
            }
        }
        images.sort();
        let mut bytes: u64 = images.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, of_one, path) in images {
            if bytes <= self.most_bytes {
                break;
            }
            let _ = fs::remove_file(path);
            bytes -= of_one;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn the_latest_used_are_kept_and_nothing_is_kept_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path(), 25).unwrap();
        let keep = |key: &str, bytes: usize| cache.keep(key, |file| file.write_all(&vec![1; bytes])).unwrap();
        let age = |key: &str, seconds: u64| {
            let file = File::options().write(true).open(cache.path(key)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        };
        keep("a", 10);
        keep("b", 10);
        age("a", 100);
        age("b", 200);
        let mut text = Vec::new();
        cache.open("b").unwrap().read_to_end(&mut text).unwrap();
        assert_eq!(text.len(), 10);
        keep("c", 10);
        assert!(cache.open("a").is_none() && cache.open("b").is_some() && cache.open("c").is_some());
        keep("huge", 26);
        assert!(cache.open("huge").is_none() && cache.open("c").is_some());
        assert!(cache.keep("d", |_| Err(io::Error::other("no"))).is_err());
        cache.forget("b");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "and no parts are left");
    }

    #[test]
    fn what_is_under_way_is_waited_for() {
        let first = Turn::take("x", &|| false).unwrap();
        assert!(Turn::take("x", &|| true).is_none());
        assert!(Turn::take("y", &|| true).is_some());
        let waiting = std::thread::spawn(|| Turn::take("x", &|| false).is_some());
        drop(first);
        assert!(waiting.join().unwrap());
    }
}
