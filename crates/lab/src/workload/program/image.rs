//! What was prepared, as an image of the device: made by a guest of its own, once for all runs that prepare alike.
//!
//! What makes an image names it: the device, the file system and its options, the commands, the programs that they name, the
//! kernel and Plumb. The seed is none of it: a preparation has one of its own, and all repeats begin with the same bytes.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use file_systems::Tools;
use linux::{Ended, FrontEnd, Kernel, Linux};
use ssd::profile::DeviceConfig;
use tempfile::TempDir;

use super::cache::{Cache, Turn};
use super::{ProgramInput, packed, script};
use crate::error::{LabError, LinuxHostError};
use crate::host::{Stand, linux as linux_host};

/// The seed of every preparation.
const SEED: u64 = 1;
const IMAGE: &str = "image";

/// An image that one run may write to.
pub(super) struct Prepared {
    folder: TempDir,
}

impl Prepared {
    fn new(memory_bytes: u64) -> Result<Self, LabError> {
        let folder = linux::memory_folder(memory_bytes).map_err(LinuxHostError::from)?;
        let folder = tempfile::Builder::new()
            .prefix("plumb-image")
            .tempdir_in(folder)
            .map_err(LinuxHostError::file("make a folder for the device's image"))?;
        Ok(Self { folder })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join(IMAGE)
    }
}

/// The image that a run starts from; none where it prepares for itself. `guest` is its, with nothing to do yet.
pub(super) fn prepared(
    stand: Stand<'_>,
    input: &ProgramInput,
    kernel: &Kernel,
    guest: &Linux,
    profile: &str,
    halted: &dyn Fn() -> bool,
) -> Result<Option<Prepared>, LabError> {
    if !is_apart(stand, input) {
        return Ok(None);
    }
    let key = key(input, kernel, guest, profile);
    let stopped = || LabError::from(LinuxHostError::from(linux::LinuxError::Stopped));
    let _turn = Turn::take(&key, halted).ok_or_else(stopped)?;
    let cache = Cache::of_user();
    if let Some(found) = cache.as_ref().and_then(|cache| cache.open(&key)) {
        let prepared = Prepared::new(guest.memory_bytes)?;
        if File::create(prepared.path()).and_then(|image| packed::unpack(found, &image)).is_ok() {
            return Ok(Some(prepared));
        }
        // Broken, or for lack of room; made again it is as good.
        cache.iter().for_each(|cache| cache.forget(&key));
    }
    let prepared = make(stand, input, kernel, guest, halted)?;
    if let Some(cache) = cache {
        // A run that cannot keep it is no worse a run.
        let _ = cache.keep(&key, |file| packed::pack(&File::open(prepared.path())?, file));
    }
    Ok(Some(prepared))
}

/// Whether what is prepared can be told from its image: caches are to be empty, and the device has nothing of its own to
/// remember. A device with zones has, and one that knows which blocks were written.
fn is_apart(stand: Stand<'_>, input: &ProgramInput) -> bool {
    let remembers = match stand.profile.map(|profile| &profile.config) {
        Some(DeviceConfig::Ssd(ssd)) => ssd.initial.fill < 1.0,
        Some(DeviceConfig::Disk(_) | DeviceConfig::Card(_)) => false,
        Some(DeviceConfig::Zoned(_)) | None => true,
    };
    let served = stand.spec.stack.linux.front_end != FrontEnd::NullBlk;
    input.program.cold && !input.program.prepare.trim().is_empty() && served && !remembers
}

fn make(
    stand: Stand<'_>,
    input: &ProgramInput,
    kernel: &Kernel,
    guest: &Linux,
    halted: &dyn Fn() -> bool,
) -> Result<Prepared, LabError> {
    let prepared = Prepared::new(guest.memory_bytes)?;
    let mut guest = guest.clone();
    guest.image = Some(prepared.path());
    guest.settings = linux_host::device_settings(stand, SEED);
    guest.seed = SEED;
    guest.charge = None;
    let outcome = guest.script(&text(input)).run_until(kernel, halted).map_err(LinuxHostError::from)?;
    if outcome.ended != Ended::Exited(0) {
        return Err(super::failed(&linux_host::words(&outcome)).into());
    }
    Ok(prepared)
}

fn text(input: &ProgramInput) -> String {
    script::FAIL.to_owned() + &script::prepare(&input.program, &input.variables) + "sync\n"
}

/// Names what makes the image.
fn key(input: &ProgramInput, kernel: &Kernel, guest: &Linux, profile: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut take = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    let memory = guest.memory_bytes.to_string();
    let (front_end, file_system) = (guest.front_end.to_string(), guest.file_system.to_string());
    let script = text(input);
    for part in [env!("CARGO_PKG_VERSION"), kernel.release(), kernel.recipe(), profile, &front_end, &file_system] {
        take(part.as_bytes());
    }
    for part in [&guest.mkfs_options, &guest.mount_options, &memory, &script, &input.program.prepare] {
        take(part.as_bytes());
    }
    take(format!("{:?} {:?} {:?}", guest.ordering, guest.submission_cpus, guest.image_on).as_bytes());
    // The server and the first process of the guest; the kernel's recipe names its own sources.
    take(identity(&guest.plumb).as_bytes());
    let mut named = input.program.prepare.clone();
    for (name, value) in input.variables.iter().filter(|(name, _)| script::names(&input.program.prepare, name)) {
        take(name.as_bytes());
        take(value.as_bytes());
        named += &format!(" {value}");
    }
    let path = guest.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = linux::guest::search_path(path);
    named += &format!(" {}", Tools::of(guest.file_system).map_or("", |tools| tools.make.program));
    take(path.as_encoded_bytes());
    for file in files(&named, &path) {
        take(file.as_os_str().as_encoded_bytes());
        take(content(&file).as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The files that the words of a script name: programs of the search path, and absolute paths.
fn files(script: &str, path: &OsStr) -> Vec<PathBuf> {
    let ends = |character: char| character.is_whitespace() || "\"'`$(){}[];|&<>=:,".contains(character);
    let mut found: Vec<PathBuf> = script
        .split(ends)
        .filter(|word| !word.is_empty())
        .filter_map(|word| match word.contains('/') {
            true => Some(PathBuf::from(word)).filter(|file| file.is_absolute() && file.is_file()),
            false => linux::find_program(word, path),
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The hash of a file's bytes; its length and time where they cannot be read.
fn content(file: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    let hashed = File::open(file).and_then(|file| hasher.update_reader(file).map(drop));
    hashed.map_or_else(|_: io::Error| identity(file), |()| hasher.finalize().to_hex().to_string())
}

/// What tells a program of this machine from another build of it, without reading all of it.
fn identity(file: &Path) -> String {
    let about = std::fs::metadata(file);
    format!("{:?}", about.map(|about| (about.len(), about.modified().ok())).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_programs_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            path
        };
        let (tool, data) = (file("tool"), file("data.sql"));
        let script = format!("x=$(tool --load={}); absent '{}' ./data.sql", data.display(), data.display());
        let found = files(&script, folder.path().as_os_str());
        assert_eq!(found, [data.clone(), tool]);
        let before = content(&data);
        std::fs::write(&data, "other").unwrap();
        assert_ne!(before, content(&data));
    }
}
