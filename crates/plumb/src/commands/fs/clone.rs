//! Copying a whole tree.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use betrfs::{InodeNumber, Name, Operations, Volume};
use clap::Args;
use units::ByteSize;

use super::super::Done;
use super::image::{self, ImageFlags};
use super::rm;
use crate::failure::Failure;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs clone /mnt/folder /mnt/copy            # of a mounted file system
  plumb fs clone disk.plumb /folder /copy         # of one that is not mounted

The copy is seen when all of it is there, and is as the original was at one moment. Owners, modes, times, attributes and
links among its files are kept. On a mount root may copy everything, others what is all theirs.")]
pub struct CloneArguments {
    #[command(flatten)]
    places: PlaceFlags,
}

/// What is to get another name, and which.
#[derive(Args)]
pub struct PlaceFlags {
    /// An old and a new path of a mounted file system; or the file or block device of one that is not mounted, and two paths in it
    #[arg(value_name = "PATH", num_args = 2..=3, required = true)]
    paths: Vec<PathBuf>,
    /// Memory for what was read, where it is not mounted
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    cache: ByteSize,
}

/// Where the two paths are.
pub enum Place<'a> {
    /// Where everybody sees them.
    Mounted { from: &'a Path, to: &'a Path },
    /// In a file system that nobody has mounted.
    Image { image: ImageFlags, from: &'a str, to: &'a str },
}

impl PlaceFlags {
    pub fn place(&self) -> Result<Place<'_>, Failure> {
        match self.paths.as_slice() {
            [image, from, to] => {
                let text = |path: &'_ PathBuf| Failure::input(format!("{}: not in UTF-8", path.display()));
                let image = ImageFlags { image: image.clone(), cache: self.cache };
                let (from, to) = (from.to_str().ok_or_else(|| text(from))?, to.to_str().ok_or_else(|| text(to))?);
                Ok(Place::Image { image, from, to })
            }
            [from, to] => Ok(Place::Mounted { from, to }),
            _ => Err(Failure::input("two paths are needed")),
        }
    }
}

/// Copies it.
pub fn clone(arguments: &CloneArguments) -> Done {
    match arguments.places.place()? {
        Place::Mounted { from, to } => in_mount(from, to),
        Place::Image { image, from, to } => {
            in_image(&image, (from, to), "`plumb fs snapshot` keeps all of it as it is", |volume, old, new| {
                volume.clone_tree(&image::owner(), old.0, old.1, new.0, new.1).map(drop)
            })
        }
    }
}

/// The folder that a path is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Has the server of a mounted file system copy it.
fn in_mount(from: &Path, to: &Path) -> Done {
    let name = |path: &Path| match path.file_name() {
        Some(name) => Ok(name.as_bytes().to_vec()),
        None => Err(Failure::input(format!("{}: name a file or folder in a mounted file system", path.display()))),
    };
    let (old, new) = (name(from)?, name(to)?);
    let failed = |path: &Path, error| rm::failed(path, &error);
    // Through links, as the kernel finds the last name.
    let above = fs::metadata(folder_of(from)).map_err(|error| failed(from, error))?;
    let folder = File::open(folder_of(to)).map_err(|error| failed(to, error))?;
    let there = folder.metadata().map_err(|error| failed(to, error))?;
    if above.dev() != there.dev() {
        return Err(Failure::input(format!(
            "{} and {}: not in one file system; cp -a copies between two",
            from.display(),
            to.display()
        )));
    }
    betrfs::clone_mounted_tree(&folder, &new, above.ino(), &old).map_err(|error| failed(to, error))?;
    Ok(ExitCode::SUCCESS)
}

/// Does something with two paths of a file system that nobody has mounted, durably.
pub fn in_image(
    image: &ImageFlags,
    (from, to): (&str, &str),
    root: &str,
    work: impl FnOnce(&Volume, (InodeNumber, Name<'_>), (InodeNumber, Name<'_>)) -> betrfs::Result<()>,
) -> Done {
    let volume = image.open()?;
    let fault = |error: betrfs::Error| {
        let image = image.image.display();
        Failure::Machine(format!("{image}: {from} to {to}: {error}; `plumb fs dump {image}` lists what is there"))
    };
    let (old, new) = (image::place(&volume, from).map_err(fault)?, image::place(&volume, to).map_err(fault)?);
    let (Some(old), Some(new)) = (old, new) else {
        return Err(Failure::input(format!("the root has no name; {root}")));
    };
    work(&volume, old, new).and_then(|()| volume.syncfs()).map_err(fault)?;
    Ok(ExitCode::SUCCESS)
}
