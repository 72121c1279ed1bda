//! Removing a whole tree in one step.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use betrfs::Operations;
use clap::Args;
use units::ByteSize;

use super::super::Done;
use super::image::{self, ImageFlags};
use crate::failure::Failure;

/// Entries that are taken apart between two syncs.
const ENTRIES: usize = 10_000;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs rm /mnt/folder                # of a mounted file system
  plumb fs rm disk.plumb /folder         # of one that is not mounted

The tree is gone in one step, however much is in it; its space is taken back behind that. Who removes from a mounted
one must be allowed to remove each entry of it; files that are open live on until they are closed.")]
pub struct RmArguments {
    /// A file or folder of a mounted file system; or, with PATH, the file or block device of one that is not mounted
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A file or folder in it
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Memory for what was read
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "path")]
    cache: ByteSize,
}

/// Removes it.
pub fn rm(arguments: &RmArguments) -> Done {
    match &arguments.path {
        Some(path) => from_image(&ImageFlags { image: arguments.file.clone(), cache: arguments.cache }, path),
        None => from_mount(&arguments.file),
    }
}

/// Has the server of a mounted file system remove it.
fn from_mount(path: &Path) -> Done {
    let failed = |error| failed(path, &error);
    let Some(name) = path.file_name() else {
        return Err(Failure::input(format!("{}: name a file or folder in a mounted file system", path.display())));
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(parent).map_err(failed)?;
    betrfs::remove_mounted_tree(&folder, name.as_bytes()).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// What a file system without such an ioctl answers.
const ENOTTY: i32 = 25;

/// Why something was not done to a path of a mounted file system.
pub(super) fn failed(path: &Path, error: &std::io::Error) -> Failure {
    let path = path.display();
    match error.raw_os_error() {
        Some(ENOTTY) => Failure::input(format!(
            "{path}: not in a mounted file system of plumb; of one that is not mounted, name its file first"
        )),
        _ => Failure::Machine(format!("{path}: {error}")),
    }
}

/// Removes it from a file system that nobody has mounted.
fn from_image(image: &ImageFlags, path: &str) -> Done {
    let volume = image.open()?;
    let fault = |error: betrfs::Error| {
        let image = image.image.display();
        Failure::Machine(format!("{image}: {path}: {error}; `plumb fs dump {image}` lists what is there"))
    };
    let Some((parent, name)) = image::place(&volume, path).map_err(fault)? else {
        return Err(Failure::input(format!("{path}: the root cannot be removed; give a path below it")));
    };
    volume.remove_tree(&image::owner(), parent, name).and_then(|()| volume.syncfs()).map_err(fault)?;
    while volume.reap(ENTRIES).map_err(fault)? {}
    volume.syncfs().map_err(fault)?;
    Ok(ExitCode::SUCCESS)
}
