//! Removing a whole tree in one step.

use std::process::ExitCode;

use betrfs::{Caller, InodeNumber, Name, Operations};
use clap::Args;

use super::super::Done;
use super::image::ImageFlags;
use super::serving;
use crate::failure::Failure;

/// Entries that are taken apart between two syncs.
const ENTRIES: usize = 10_000;

#[derive(Args)]
#[command(
    after_help = "The tree is gone in one step, however much is in it; its space is taken back behind that. The file system
must not be mounted."
)]
pub struct RmArguments {
    #[command(flatten)]
    image: ImageFlags,
    /// A file or folder in it
    #[arg(value_name = "PATH")]
    path: String,
}

/// Removes it.
pub fn rm(arguments: &RmArguments) -> Done {
    let volume = arguments.image.open()?;
    let fault = |error: betrfs::Error| {
        let (image, path) = (arguments.image.image.display(), &arguments.path);
        Failure::Machine(format!("{image}: {path}: {error}; `plumb fs dump {image}` lists what is there"))
    };
    let mut names: Vec<&str> = arguments.path.split('/').filter(|name| !name.is_empty()).collect();
    let Some(last) = names.pop() else {
        return Err(Failure::input(format!("{}: the root cannot be removed; give a path below it", arguments.path)));
    };
    let mut parent = InodeNumber::ROOT;
    for name in names {
        let found = Name::new(name.as_bytes()).and_then(|name| volume.lookup(parent, name));
        parent = found.map_err(fault)?.inode;
    }
    // Who may write the file that all of it lies on may do everything.
    let caller = Caller { uid: 0, gid: 0, groups: &[], umask: 0, now: serving::now() };
    let removed = Name::new(last.as_bytes()).and_then(|name| volume.remove_tree(&caller, parent, name));
    removed.and_then(|()| volume.syncfs()).map_err(fault)?;
    while volume.reap(ENTRIES).map_err(fault)? {}
    volume.syncfs().map_err(fault)?;
    Ok(ExitCode::SUCCESS)
}
