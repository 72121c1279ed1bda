//! Doing all that is owed, at a time when nobody waits for it.

use std::fs::File;
use std::process::ExitCode;

use betrfs::Operations;
use clap::Args;
use serde_json::json;
use units::ByteSize;

use super::super::Done;
use super::image::ImageFlags;
use super::rm;
use crate::failure::Failure;

/// Entries of removed trees that are taken apart at a time.
const ENTRIES: usize = 10_000;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs quiesce disk.plumb
  plumb fs quiesce /mnt              # while it is mounted, by root or the owner of its root folder
  plumb fs quiesce disk.plumb --all --json

What was written lies in the log and in buffers of the tree until the tree has to be written. This moves it
there: removed trees are taken apart, what was removed gives its room back, and the log is empty. With --all every
change goes to its leaf, which rewrites each leaf for which something waits; that only while it is not mounted.")]
pub struct QuiesceArguments {
    #[command(flatten)]
    image: ImageFlags,
    /// Every change, also those that can wait at little cost
    #[arg(long)]
    all: bool,
    /// Print what was read and written as an object
    #[arg(long)]
    json: bool,
}

/// Does it.
pub fn quiesce(arguments: &QuiesceArguments) -> Done {
    if arguments.image.image.is_dir() {
        return of_mount(arguments);
    }
    let volume = arguments.image.open()?;
    let fault = |error| arguments.image.fault(&error);
    while volume.reap(ENTRIES).map_err(fault)? {}
    let database = volume.database();
    let done = if arguments.all { database.compact() } else { database.quiesce() };
    done.map_err(|error| Failure::Machine(format!("{}: {error}", arguments.image.image.display())))?;
    let stats = database.stats();
    if arguments.json {
        println!("{}", json!({ "read_bytes": stats.read_bytes, "written_bytes": stats.written_bytes() }));
    } else {
        println!("{} read, {} written", ByteSize(stats.read_bytes), ByteSize(stats.written_bytes()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the server of a mounted file system do it.
fn of_mount(arguments: &QuiesceArguments) -> Done {
    let folder = &arguments.image.image;
    if arguments.all || arguments.json {
        return Err(Failure::input(format!(
            "{}: mounted; --all and --json are for the file or device of one that is not",
            folder.display()
        )));
    }
    let failed = |error| rm::failed(folder, &error);
    betrfs::quiesce_mounted(File::open(folder).map_err(failed)?).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
