//! Telling the device what is free.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use betrfs::Operations;
use clap::Args;
use serde_json::json;
use units::ByteSize;

use super::super::Done;
use super::image::{self, ImageFlags};
use super::rm;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs trim /mnt               # while it is mounted, by root or the owner of its root folder
  plumb fs trim disk.plumb         # while it is not

Below a file its holes become free; a block device hears of it as from fstrim(8). It goes on in pieces of
64 MiB, between which others have their turn.")]
pub struct TrimArguments {
    /// The folder where a file system is mounted, or the file or block device of one that is not
    #[arg(value_name = "FILE|DIR")]
    place: PathBuf,
    /// Print how many bytes as an object
    #[arg(long)]
    json: bool,
    /// Memory for what was read, where it is not mounted
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    cache: ByteSize,
}

/// Tells it.
pub fn trim(arguments: &TrimArguments) -> Done {
    let path = &arguments.place;
    let trimmed = if path.is_dir() {
        let failed = |error| rm::failed(path, &error);
        betrfs::trim_mounted(File::open(path).map_err(failed)?).map_err(failed)?
    } else {
        let image = ImageFlags { image: path.clone(), cache: arguments.cache };
        image.open()?.trim(&image::owner()).map_err(|error| image.fault(&error))?
    };
    if arguments.json {
        println!("{}", json!({ "trimmed_bytes": trimmed }));
    } else {
        println!("{}: {} are free, and the device knows", path.display(), ByteSize(trimmed));
    }
    Ok(ExitCode::SUCCESS)
}
