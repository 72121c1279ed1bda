//! The preparation: folders and files of the sets, and a note of which they are.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::RngExt;
use serde::Serialize;
use serde_json::Value;
use units::ByteSize;

use super::error::AppError;
use super::fileset::{Definition, FileSet, contents};
use super::plan::ProgramPlan;

/// Bytes of one write of the preparation.
const PIECE_BYTES: usize = 1 << 20;

/// The note in the prepared folder says how far it is by its name, and of which options by what is in it.
const UNFINISHED: &str = "unfinished.json";
const PREPARED: &str = "prepared.json";
const USED: &str = "used.json";

/// What a preparation made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prepared {
    /// Files that are there.
    pub files: u64,
    /// Folders, with those of the sets themselves.
    pub folders: u64,
    /// In the files.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

#[derive(Serialize)]
struct Note<'a> {
    program: &'a str,
    seed: u64,
    sets: &'a [Definition],
}

/// The program's folder in `folder`.
fn home(folder: &Path, program: &str) -> PathBuf {
    folder.join(program)
}

fn note(program: &str, seed: u64, plan: &ProgramPlan) -> Result<Value, AppError> {
    serde_json::to_value(Note { program, seed, sets: &plan.sets }).map_err(|error| AppError::Options(error.to_string()))
}

/// The sets of a plan, as they lie in `folder`.
pub(super) fn sets(program: &str, plan: &ProgramPlan, seed: u64, folder: &Path) -> Result<Vec<FileSet>, AppError> {
    let home = home(folder, program);
    plan.sets.iter().map(|definition| FileSet::new(definition, home.join(definition.name), seed)).collect()
}

/// Makes the folders and files of `plan` in a new folder, called as the program, below `folder`; with `fresh`, what an earlier
/// preparation left there goes first.
///
/// # Errors
/// Where the options cannot be, something is there already, the file system is too small, or a call fails. What was made by then
/// stays.
pub fn prepare(program: &str, plan: &ProgramPlan, seed: u64, folder: &Path, fresh: bool) -> Result<Prepared, AppError> {
    let start = Instant::now();
    let sets = sets(program, plan, seed, folder)?;
    if !folder.is_dir() {
        return Err(AppError::NoFolder(folder.to_owned()));
    }
    let home = home(folder, program);
    if home.symlink_metadata().is_ok() {
        clear(&home, fresh)?;
    }
    enough_room(&sets, folder)?;
    fs::create_dir(&home).map_err(AppError::io("mkdir", &home))?;
    let (unfinished, prepared) = (home.join(UNFINISHED), home.join(PREPARED));
    let text = note(program, seed, plan)?.to_string();
    fs::write(&unfinished, text).map_err(AppError::io("write", &unfinished))?;
    let mut made = Prepared { files: 0, folders: 0, bytes: 0, elapsed: Duration::ZERO };
    for set in &sets {
        make(set, seed, &mut made)?;
    }
    fs::rename(&unfinished, &prepared).map_err(AppError::io("rename", &unfinished))?;
    Ok(Prepared { elapsed: start.elapsed(), ..made })
}

/// Removes an earlier preparation, and nothing else.
fn clear(home: &Path, fresh: bool) -> Result<(), AppError> {
    if !fresh {
        return Err(AppError::Occupied(home.to_owned()));
    }
    if ![UNFINISHED, PREPARED, USED].iter().any(|note| home.join(note).is_file()) {
        return Err(AppError::NotOurs(home.to_owned()));
    }
    fs::remove_dir_all(home).map_err(AppError::io("remove", home))
}

fn enough_room(sets: &[FileSet], folder: &Path) -> Result<(), AppError> {
    let needed = sets.iter().fold(0_u64, |sum, set| sum.saturating_add(set.prepared_bytes()));
    let system = rustix::fs::statvfs(folder).map_err(|errno| AppError::io("statvfs", folder)(errno.into()))?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    if needed > free {
        return Err(AppError::NoRoom { needed: ByteSize(needed), free: ByteSize(free), folder: folder.to_owned() });
    }
    Ok(())
}

fn make(set: &FileSet, seed: u64, made: &mut Prepared) -> Result<(), AppError> {
    for folder in set.folders() {
        fs::create_dir(&folder).map_err(AppError::io("mkdir", &folder))?;
        made.folders += 1;
    }
    let mut random = sim::rng::stream(seed, &format!("{}: contents", set.definition.name));
    let source = contents(2 * PIECE_BYTES, set.definition.compressible_percent, &mut random);
    for at in set.preparation_order(seed) {
        let (path, bytes) = (set.path(at), set.file(at).map_or(0, |file| file.bytes));
        // Another place in the source for each, so that no two are alike.
        let from = random.random_range(0..PIECE_BYTES);
        let piece = source.get(from..from + PIECE_BYTES).unwrap_or_default();
        write_file(&path, bytes, piece).map_err(AppError::io("write", &path))?;
        made.files += 1;
        made.bytes += bytes;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: u64, piece: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let mut left = bytes;
    while left > 0 {
        let part = piece.get(..left.min(piece.len() as u64) as usize).filter(|part| !part.is_empty());
        let part = part.ok_or(io::ErrorKind::InvalidInput)?;
        file.write_all(part)?;
        left -= part.len() as u64;
    }
    Ok(())
}

/// Has the file system of `folder` write all that it holds: what the preparation wrote is not to be written while a run is measured.
///
/// # Errors
/// Where it cannot.
pub fn settle(folder: &Path) -> Result<(), AppError> {
    let open = File::open(folder).map_err(AppError::io("open", folder))?;
    rustix::fs::syncfs(open).map_err(|errno| AppError::io("syncfs", folder)(errno.into()))
}

/// Holds what was prepared against what `plan` wants, and notes that it is used where a run changes it.
///
/// # Errors
/// Where nothing is prepared, or something else, or a call fails.
pub fn check_prepared(program: &str, plan: &ProgramPlan, seed: u64, folder: &Path) -> Result<(), AppError> {
    let home = home(folder, program);
    let prepared = home.join(PREPARED);
    let text = match fs::read_to_string(&prepared) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let why = if home.join(USED).is_file() {
                "was changed by the run before"
            } else if home.join(UNFINISHED).is_file() {
                "is of a preparation that did not come to its end"
            } else {
                "is not prepared"
            };
            return Err(AppError::NotPrepared { path: home, why });
        }
        Err(error) => return Err(AppError::io("read", &prepared)(error)),
    };
    let was: Value = serde_json::from_str(&text)
        .map_err(|error| AppError::io("read", &prepared)(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    let mut differences = Vec::new();
    differ("", &was, &note(program, seed, plan)?, &mut differences);
    if !differences.is_empty() {
        return Err(AppError::Different { path: home, differences: differences.join(", ") });
    }
    if plan.changes_files {
        fs::rename(&prepared, home.join(USED)).map_err(AppError::io("rename", &prepared))?;
    }
    Ok(())
}

/// What is not the same in two documents, each with its place.
fn differ(place: &str, was: &Value, is: &Value, differences: &mut Vec<String>) {
    let inner = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    match (was, is) {
        (Value::Object(was), Value::Object(is)) => {
            for key in was.keys().chain(is.keys().filter(|key| !was.contains_key(*key))) {
                let (was, is) = (was.get(key).unwrap_or(&Value::Null), is.get(key).unwrap_or(&Value::Null));
                differ(&inner(key), was, is, differences);
            }
        }
        (Value::Array(was), Value::Array(is)) => {
            for at in 0..was.len().max(is.len()) {
                let (was, is) = (was.get(at).unwrap_or(&Value::Null), is.get(at).unwrap_or(&Value::Null));
                let name = is.get("name").or_else(|| was.get("name")).and_then(Value::as_str);
                differ(&name.map_or_else(|| inner(&at.to_string()), str::to_owned), was, is, differences);
            }
        }
        (was, is) if was == is => {}
        (was, is) => differences.push(format!("{place} was {was} and is {is}")),
    }
}
