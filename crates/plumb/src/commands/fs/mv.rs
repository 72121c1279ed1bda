//! Giving a whole tree another name in one step.

use std::path::Path;
use std::process::ExitCode;

use betrfs::{Operations, RenameFlags};
use clap::Args;

use super::super::Done;
use super::clone::{self, Place, PlaceFlags};
use super::image;
use crate::failure::Failure;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs mv /mnt/folder /mnt/other/name             # of a mounted file system
  plumb fs mv disk.plumb /folder /other/name          # of one that is not mounted

A directory is one entry, and what is in it lies under its number: the new name is one step however much is below it, and
mv(1) takes the same one on a mount. Where something has the new name already nothing happens.")]
pub struct MvArguments {
    #[command(flatten)]
    places: PlaceFlags,
}

/// Moves it.
pub fn mv(arguments: &MvArguments) -> Done {
    match arguments.places.place()? {
        Place::Mounted { from, to } => in_mount(from, to),
        Place::Image { image, from, to } => {
            clone::in_image(&image, (from, to), "give paths below it", |volume, old, new| {
                volume.rename(&image::owner(), old.0, old.1, new.0, new.1, RenameFlags::NoReplace)
            })
        }
    }
}

fn in_mount(from: &Path, to: &Path) -> Done {
    let here = rustix::fs::CWD;
    rustix::fs::renameat_with(here, from, here, to, rustix::fs::RenameFlags::NOREPLACE).map_err(|error| {
        Failure::Machine(match error {
            rustix::io::Errno::EXIST => format!("{}: is there already; nothing was moved", to.display()),
            rustix::io::Errno::XDEV => {
                format!("{}: another file system than {}; mv(1) copies", to.display(), from.display())
            }
            error => format!("{} to {}: {error}", from.display(), to.display()),
        })
    })?;
    Ok(ExitCode::SUCCESS)
}
