//! A larger file or device under a file system.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use betrfs::Operations;
use clap::Args;
use observe::mounts::Mounts;
use units::ByteSize;

use super::super::Done;
use super::image::{self, ImageFlags};
use super::rm;
use crate::failure::Failure;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs grow /mnt --size 20GiB            # while it is mounted, by root or the owner of its root folder
  plumb fs grow disk.plumb --size 20GiB      # while it is not
  plumb fs grow /dev/vg/disk                 # takes what the device has become larger")]
pub struct GrowArguments {
    /// The folder where a file system is mounted, or the file or block device of one that is not
    #[arg(value_name = "FILE|DIR")]
    place: PathBuf,
    /// Lengthen the file to this size first
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Memory for what was read, where it is not mounted
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    cache: ByteSize,
}

/// Takes into use what there is behind its end.
pub fn grow(arguments: &GrowArguments) -> Done {
    let path = &arguments.place;
    let grown = if path.is_dir() { of_mount(path, arguments.size)? } else { of_image(arguments)? };
    match grown {
        0 => println!("{}: as large as before", path.display()),
        _ => println!("{}: {} larger", path.display(), ByteSize(grown)),
    }
    Ok(ExitCode::SUCCESS)
}

fn of_mount(folder: &Path, size: Option<ByteSize>) -> Result<u64, Failure> {
    let failed = |error| rm::failed(folder, &error);
    let open = File::open(folder).map_err(failed)?;
    // What is no such file system has nothing lengthened; and what is already there may be all that was wanted.
    let mut grown = betrfs::grow_mounted(&open).map_err(failed)?;
    if let Some(size) = size {
        lengthen(&source(folder)?, size.0)?;
        grown += betrfs::grow_mounted(&open).map_err(failed)?;
    }
    Ok(grown)
}

/// What is mounted at a folder.
fn source(folder: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| Failure::Machine(format!("{}: {error}", folder.display()));
    let point = folder.canonicalize().map_err(failed)?;
    let mounts = Mounts::now().map_err(failed)?;
    let last = mounts.iter().filter(|mount| mount.point == point).last();
    match last.map(|mount| mount.source.clone()).filter(|source| source.is_file()) {
        Some(source) => Ok(source),
        None => Err(Failure::input(format!(
            "{}: it cannot be seen on which file this lies; lengthen that by truncate(1), then leave --size out",
            folder.display()
        ))),
    }
}

fn lengthen(file: &Path, size_bytes: u64) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Machine(format!("{}: cannot be lengthened: {error}", file.display()));
    let open = OpenOptions::new().write(true).open(file).map_err(failed)?;
    if open.metadata().map_err(failed)?.len() < size_bytes {
        open.set_len(size_bytes).map_err(failed)?;
    }
    Ok(())
}

fn of_image(arguments: &GrowArguments) -> Result<u64, Failure> {
    let image = ImageFlags { image: arguments.place.clone(), cache: arguments.cache };
    // What is no file system is not lengthened.
    drop(image.open()?);
    if let Some(size) = arguments.size {
        drop(image::file(&image.image, Some(size.0))?);
    }
    image.open()?.grow(&image::owner()).map_err(|error| image.fault(&error))
}
