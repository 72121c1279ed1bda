//! Keeping a file system as it is at one moment.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use betrfs::Operations;
use clap::Args;
use units::ByteSize;

use super::super::Done;
use super::image::{self, ImageFlags};
use super::rm;
use crate::failure::Failure;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs snapshot /mnt before              # of a mounted file system, by root or the owner of its root folder
  plumb fs snapshot disk.plumb before        # of one that is not mounted
  plumb fs snapshot disk.plumb               # names those that are kept
  plumb fs mount disk.plumb /then -o snapshot=before
  plumb fs snapshot disk.plumb before --remove

A snapshot is made in one step and copies nothing; it keeps the room of what it alone refers to.")]
pub struct SnapshotArguments {
    /// The folder where a file system is mounted, or the file or block device of one that is not
    #[arg(value_name = "FILE|DIR")]
    place: PathBuf,
    /// A name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Give it up
    #[arg(long, requires = "name")]
    remove: bool,
    /// Memory for what was read
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    cache: ByteSize,
}

/// Does it.
pub fn snapshot(arguments: &SnapshotArguments) -> Done {
    match &arguments.name {
        Some(name) if arguments.place.is_dir() => of_mount(&arguments.place, name, arguments.remove),
        name => of_image(arguments, name.as_deref()),
    }
}

fn of_mount(folder: &Path, name: &str, remove: bool) -> Done {
    let failed = |error| rm::failed(folder, &error);
    let open = File::open(folder).map_err(failed)?;
    let done =
        if remove { betrfs::drop_mounted_snapshot(&open, name) } else { betrfs::keep_mounted_snapshot(&open, name) };
    done.map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn of_image(arguments: &SnapshotArguments, name: Option<&str>) -> Done {
    let image = ImageFlags { image: arguments.place.clone(), cache: arguments.cache };
    let volume = image.open()?;
    let Some(name) = name else {
        volume.snapshot_names().iter().for_each(|name| println!("{name}"));
        return Ok(ExitCode::SUCCESS);
    };
    let caller = image::owner();
    let done = match arguments.remove {
        true => volume.drop_snapshot(&caller, name),
        false => volume.keep_snapshot(&caller, name),
    };
    done.map_err(|error| {
        Failure::Machine(format!("{}: snapshot {name}: {error}; without a name they are listed", image.image.display()))
    })?;
    Ok(ExitCode::SUCCESS)
}
