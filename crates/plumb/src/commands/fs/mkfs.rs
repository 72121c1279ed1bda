//! Making a file system.

use std::collections::hash_map::RandomState;
use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use betrfs::{Caller, InodeNumber, Operations, Schema, SetAttributes, Volume, VolumeOptions};
use clap::{Args, ValueEnum};
use units::ByteSize;

use super::super::{Done, made};
use super::{image, serving};
use crate::failure::Failure;

/// Where file systems and partition tables have their marks.
const MARKS_BYTES: u64 = 1 << 20;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs mkfs disk.plumb --size 10GiB
  plumb fs mkfs /dev/nvme0n1p3

The root folder belongs to who makes the file system. A file is sparse: it takes room as it is
written.")]
pub struct MkfsArguments {
    /// The file to make, or a block device
    #[arg(value_name = "FILE")]
    image: PathBuf,
    /// Its size [default: all of the device, or of the file that is there]
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Size of the log: a larger one makes more small changes durable before the tree is written
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    log: ByteSize,
    /// What keys of files and folders begin with, for good
    #[arg(long, value_name = "SCHEMA", value_enum, default_value_t = Keys::Inode)]
    schema: Keys,
    /// Write over what is there already
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Keys {
    /// Numbers: a rename moves nothing
    Inode,
    /// Paths, as in the published file system: a rename moves what is below it, if that is much in the background
    Path,
}

/// Makes a file system.
pub fn mkfs(arguments: &MkfsArguments) -> Done {
    let path = &arguments.image;
    clear(path, arguments.force)?;
    if arguments.size.is_none() && fs::metadata(path).map_or(0, |metadata| metadata.len()) == 0 && !is_device(path) {
        return Err(Failure::input(format!(
            "{0}: say how large it is to be: plumb fs mkfs {0} --size 10GiB",
            path.display()
        )));
    }
    let was_there = path.exists();
    let file = image::file(path, arguments.size.map(|size| size.0))?;
    let mut options = VolumeOptions::default();
    options.store.log_bytes = arguments.log.0;
    options.schema = match arguments.schema {
        Keys::Inode => Schema::Inode,
        Keys::Path => Schema::Path,
    };
    let fault = |error| image::fault(path, &error);
    let created = Volume::create(file, options, new_id(), serving::now()).map_err(fault);
    let volume = made(path, was_there, created)?;
    let owner = fs::metadata("/proc/self").map(|metadata| (metadata.uid(), metadata.gid()));
    if let Ok((uid, gid)) = owner {
        let changes = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
        let caller = Caller { uid, gid, groups: &[], umask: 0, now: serving::now() };
        volume.setattr(&caller, InodeNumber::ROOT, &changes).map_err(fault)?;
    }
    volume.syncfs().map_err(fault)?;
    Ok(ExitCode::SUCCESS)
}

fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Refuses what holds something, or wipes its marks.
fn clear(path: &Path, force: bool) -> Result<(), Failure> {
    let failed = |error| Failure::Machine(format!("{}: {error}", path.display()));
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let mut marks = Vec::new();
    (&file).take(MARKS_BYTES).read_to_end(&mut marks).map_err(failed)?;
    if marks.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    if !force {
        return Err(Failure::input(format!(
            "{}: holds something already, perhaps a file system; --force writes over it, and all that is there is lost",
            path.display()
        )));
    }
    // Whoever has it mounted must not lose it.
    drop(image::file(path, None)?);
    if !is_device(path) {
        let length = file.metadata().map_err(failed)?.len();
        // Nothing of the old contents stays, and no room is kept for them.
        return file.set_len(0).and_then(|()| file.set_len(length)).map_err(failed);
    }
    file.rewind().and_then(|()| file.write_all(&vec![0; marks.len()])).and_then(|()| file.sync_all()).map_err(failed)
}

/// A number that no other file system has.
fn new_id() -> u128 {
    // Seeded from the system's source of random numbers.
    let random = || u128::from(RandomState::new().build_hasher().finish());
    random() << 64 | random()
}
