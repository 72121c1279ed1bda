//! The finished runs of a results folder: what is kept, where, and what of it
//! can be trusted.
//!
//! ```text
//! runs/all.records      every run, in the order of the sweep, once all are done
//! runs/new-N.records    what a process that is at it, or was interrupted, appends
//! runs/KEY.json         one run each, as Plumb once kept them: still read
//! ```
//!
//! A process appends to a file of its own, so that several may share a folder,
//! and asks the disk to have it about once a second: a killed process loses
//! nothing that it kept, a power cut the last second.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::file::Partial;
use super::log::{self, FramePosition};
use super::{ResultError, RunResult};

/// The file that holds every run once all are done.
const WHOLE: &str = "all.records";
/// How long a finished run may wait for the disk to have it.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Files of one folder that processes were interrupted with.
const FILES_MAX: u32 = 100_000;

/// The finished runs of a folder.
#[derive(Debug)]
pub(super) struct Records {
    folder: PathBuf,
    /// Files that `index` points into.
    files: Vec<PathBuf>,
    index: BTreeMap<String, At>,
    /// The frames of `files` in their order, as [`Records::settle`] compares them.
    order: Vec<String>,
    own: Option<Own>,
    /// Files of one run each, the damaged ones among them.
    singles: Vec<String>,
    damage: Vec<String>,
}

/// Where a run is.
#[derive(Clone, Copy, Debug)]
enum At {
    /// In a file of runs.
    Frame { file: usize, place: FramePosition },
    /// In a file `KEY.json`.
    Json,
}

/// The file that this process appends to.
#[derive(Debug)]
struct Own {
    file: File,
    index: usize,
    end: u64,
    /// Since when something waits for the disk to have it.
    waiting_since: Option<Instant>,
}

impl Records {
    /// Reads what is in `folder`, which need not be there.
    pub(super) fn open(folder: &Path) -> Result<Self, ResultError> {
        let mut records = Self {
            folder: folder.to_owned(),
            files: Vec::new(),
            index: BTreeMap::new(),
            order: Vec::new(),
            own: None,
            singles: Vec::new(),
            damage: Vec::new(),
        };
        let mut names = Vec::new();
        match fs::read_dir(folder) {
            Ok(entries) => {
                for entry in entries {
                    names.push(entry.map_err(|source| unreadable(folder, source))?.file_name());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(unreadable(folder, source)),
        }
        // `all` before `new`, and these by number, however the folder lists them.
        names.sort();
        for path in names.iter().map(|name| folder.join(name)) {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("records") => records.add_file(path)?,
                Some("json") => records.add_json(&path)?,
                _ => {}
            }
        }
        Ok(records)
    }

    fn add_file(&mut self, path: PathBuf) -> Result<(), ResultError> {
        let found = log::scan(&path).map_err(|source| unreadable(&path, source))?;
        // A process that is at it may be in the middle of a frame.
        if let Some(first) = found.damaged_at.first().filter(|_| !in_use(&path)) {
            let parts = match found.damaged_at.len() {
                1 => String::new(),
                more => format!(", and in {} more places", more - 1),
            };
            self.damage.push(format!("{} is cut short or damaged at byte {first}{parts}", path.display()));
        }
        let file = self.files.len();
        self.files.push(path);
        for (key, place) in found.frames {
            self.order.push(key.clone());
            self.index.entry(key).or_insert(At::Frame { file, place });
        }
        Ok(())
    }

    fn add_json(&mut self, path: &Path) -> Result<(), ResultError> {
        let key = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        match read_json(path)? {
            Ok(run) if run.key == key => {
                self.index.entry(key.clone()).or_insert(At::Json);
            }
            Ok(run) => self.damage.push(format!("{} holds run {}", path.display(), run.key)),
            Err(error) => self.damage.push(format!("{} is cut short or damaged ({error})", path.display())),
        }
        self.singles.push(key);
        Ok(())
    }

    /// What was found damaged: one line each.
    pub(super) fn damage(&self) -> &[String] {
        &self.damage
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.index.contains_key(key)
    }

    /// The finished run of this key, if there is one.
    pub(super) fn get(&self, key: &str) -> Result<Option<RunResult>, ResultError> {
        let Some(at) = self.index.get(key) else { return Ok(None) };
        let run = match at {
            At::Json => {
                let path = self.json_path(key);
                read_json(&path)?.map_err(|error| damaged(&path, error.to_string()))?
            }
            At::Frame { file, .. } => {
                let path = &self.files[*file];
                log::run_of(&self.frame(key, *at)?).map_err(|error| damaged(path, error.to_string()))?
            }
        };
        Ok(Some(run))
    }

    /// The finished run of this key as a file of runs has it.
    pub(super) fn frame_of(&self, key: &str) -> Result<Option<Vec<u8>>, ResultError> {
        self.index.get(key).map(|at| self.frame(key, *at)).transpose()
    }

    /// A run's frame, made where it is in a file of its own.
    fn frame(&self, key: &str, at: At) -> Result<Vec<u8>, ResultError> {
        match at {
            At::Frame { file, place } => {
                let path = &self.files[file];
                let read = File::open(path).and_then(|mut file| log::read(&mut file, place));
                read.map_err(|source| unreadable(path, source))
            }
            At::Json => {
                let path = self.json_path(key);
                let run = read_json(&path)?.map_err(|error| damaged(&path, error.to_string()))?;
                log::frame(&run.bare()).map_err(|error| damaged(&path, error.to_string()))
            }
        }
    }

    /// Keeps a finished run: whole or not at all. What was kept before is on
    /// the disk about a second later, or after [`Records::sync`].
    pub(super) fn put(&mut self, key: &str, frame: &[u8]) -> Result<(), ResultError> {
        let own = match &mut self.own {
            Some(own) => own,
            None => {
                let (path, file) = new_file(&self.folder)?;
                self.files.push(path);
                let index = self.files.len() - 1;
                self.own.insert(Own { file, index, end: 0, waiting_since: None })
            }
        };
        let path = &self.files[own.index];
        let fail = |source| ResultError::Write { path: path.clone(), source };
        let place = log::append(&mut own.file, own.end, frame).map_err(fail)?;
        own.end += place.bytes;
        self.index.insert(key.to_owned(), At::Frame { file: own.index, place });
        self.order.push(key.to_owned());
        let since = *own.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= SYNC_INTERVAL {
            own.waiting_since = None;
            own.file.sync_data().map_err(fail)?;
        }
        Ok(())
    }

    /// Returns when the disk has every run that was kept.
    pub(super) fn sync(&mut self) -> Result<(), ResultError> {
        let Some(own) = &mut self.own else { return Ok(()) };
        if own.waiting_since.take().is_some() {
            let path = &self.files[own.index];
            own.file.sync_data().map_err(|source| ResultError::Write { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// Puts every run into one file: `keys` in this order, then others that
    /// are there, by key. However the runs came about, its bytes are the same.
    pub(super) fn settle(&mut self, keys: &[&str]) -> Result<(), ResultError> {
        let mut wanted: Vec<String> = Vec::with_capacity(self.index.len());
        let mut left: BTreeMap<&str, ()> = self.index.keys().map(|key| (key.as_str(), ())).collect();
        wanted.extend(keys.iter().filter(|key| left.remove(**key).is_some()).map(|key| (*key).to_owned()));
        wanted.extend(left.into_keys().map(str::to_owned));
        let whole = self.folder.join(WHOLE);
        let settled = self.files == [whole.clone()] || (self.files.is_empty() && wanted.is_empty());
        if settled && self.singles.is_empty() && self.order == wanted && self.damage.is_empty() {
            return Ok(());
        }
        let mut index = BTreeMap::new();
        self.write_whole(&whole, &wanted, &mut index)?;
        sync_folder(&self.folder);
        // The lock of one's own file can outlast it for a moment, in a process that is being started meanwhile.
        let own = self.own.take().map(|own| own.index);
        let others = |file: usize, path: &PathBuf| *path != whole && (own == Some(file) || !in_use(path));
        // What cannot be removed is read again, and is the same.
        for (_, path) in self.files.drain(..).enumerate().filter(|(file, path)| others(*file, path)) {
            let _ = fs::remove_file(path);
        }
        for key in self.singles.drain(..).filter(|key| index.contains_key(key)) {
            let _ = fs::remove_file(self.folder.join(format!("{key}.json")));
        }
        (self.files, self.index, self.order) = (vec![whole], index, wanted);
        Ok(())
    }

    fn write_whole(&self, path: &Path, wanted: &[String], index: &mut BTreeMap<String, At>) -> Result<(), ResultError> {
        let fail = |source| ResultError::Write { path: path.to_owned(), source };
        let mut out = Partial::create(path)?;
        let mut offset = 0;
        for key in wanted {
            let frame = self.frame(key, self.index[key])?;
            io::Write::write_all(&mut out, &frame).map_err(fail)?;
            let place = FramePosition { offset, bytes: frame.len() as u64 };
            offset += place.bytes;
            index.insert(key.clone(), At::Frame { file: 0, place });
        }
        out.keep(true).map(drop)
    }

    fn json_path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }
}

fn unreadable(path: &Path, source: io::Error) -> ResultError {
    ResultError::Read { path: path.to_owned(), source }
}

fn damaged(path: &Path, message: String) -> ResultError {
    ResultError::Damaged { path: path.to_owned(), message }
}

/// The outer error is of the disk, the inner one of the contents.
fn read_json(path: &Path) -> Result<Result<RunResult, serde_json::Error>, ResultError> {
    let bytes = fs::read(path).map_err(|source| unreadable(path, source))?;
    Ok(serde_json::from_slice(&bytes))
}

/// The first `new-N.records` that nobody has. The lock says that its process
/// is alive.
fn new_file(folder: &Path) -> Result<(PathBuf, File), ResultError> {
    let fail = |path: &Path, source| ResultError::Write { path: path.to_owned(), source };
    for number in 1..FILES_MAX {
        let path = folder.join(format!("new-{number:05}.records"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => {
                // File systems without locks let nobody else in here, either.
                let _ = file.try_lock();
                sync_folder(folder);
                return Ok((path, file));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(fail(&path, source)),
        }
    }
    Err(fail(folder, io::Error::other("too many interrupted runs; run the spec to its end")))
}

/// So that a file's name outlasts a power cut, too; where that cannot be, the
/// run is done again.
fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

/// Whether a process that is alive appends to the file.
fn in_use(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::super::log::tests::run;
    use super::*;

    const KEYS: [&str; 3] = ["0123456789abcdef", "1123456789abcdef", "2123456789abcdef"];

    fn put(records: &mut Records, key: &str) {
        let run = run(key, &key.repeat(20));
        records.put(key, &log::frame(&run).unwrap()).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names.into_iter().map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn the_order_of_finishing_does_not_show() {
        let bytes = |order: &[usize], restarts: bool| {
            let folder = tempfile::tempdir().unwrap();
            let mut records = Records::open(folder.path()).unwrap();
            for index in order {
                put(&mut records, KEYS[*index]);
                if restarts {
                    records = Records::open(folder.path()).unwrap();
                }
            }
            records.settle(&[KEYS[1], KEYS[0]]).unwrap();
            assert_eq!(names(folder.path()), [WHOLE]);
            for key in KEYS {
                assert_eq!(records.get(key).unwrap().unwrap().key, key);
            }
            fs::read(folder.path().join(WHOLE)).unwrap()
        };
        let first = bytes(&[0, 1, 2], false);
        assert_eq!(first, bytes(&[2, 1, 0], false));
        assert_eq!(first, bytes(&[1, 2, 0], true));
    }

    #[test]
    fn two_processes_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let mut one = Records::open(folder.path()).unwrap();
        let mut other = Records::open(folder.path()).unwrap();
        put(&mut one, KEYS[0]);
        put(&mut other, KEYS[1]);
        // The first is done; the second's file is not taken from under it.
        one.settle(&[KEYS[0]]).unwrap();
        put(&mut other, KEYS[2]);
        drop((one, other));
        let records = Records::open(folder.path()).unwrap();
        assert!(KEYS.iter().all(|key| records.contains(key)), "{records:?}");
        assert!(records.damage().is_empty(), "{:?}", records.damage());
    }

    #[test]
    fn files_of_one_run_each_are_read_and_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        for key in KEYS {
            let text = serde_json::to_string(&run(key, "")).unwrap();
            let text = if key == KEYS[2] { &text[..text.len() / 2] } else { &text };
            fs::write(folder.path().join(format!("{key}.json")), text).unwrap();
        }
        let mut records = Records::open(folder.path()).unwrap();
        assert!(records.contains(KEYS[0]) && records.contains(KEYS[1]) && !records.contains(KEYS[2]));
        assert!(records.damage()[0].contains(KEYS[2]), "{:?}", records.damage());
        put(&mut records, KEYS[2]);
        records.settle(&KEYS).unwrap();
        assert_eq!(names(folder.path()), [WHOLE]);
        let records = Records::open(folder.path()).unwrap();
        assert!(records.damage().is_empty() && records.get(KEYS[2]).unwrap().is_some());
    }
}
