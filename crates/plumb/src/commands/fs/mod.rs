//! `plumb fs`: a file system on a file or a block device.

mod bench;
mod clone;
pub mod computing;
mod fsck;
mod grow;
mod image;
mod look;
mod mkfs;
mod mount;
pub mod mount_helper;
mod mv;
mod quiesce;
mod rm;
mod serving;
mod snapshot;
mod trim;

use clap::{Args, Subcommand};

use super::Done;

/// What to do with a file system.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs mkfs disk.plumb --size 10GiB
  plumb fs mount disk.plumb /mnt               # until umount, Ctrl-C or SIGTERM
  plumb fs mount disk.plumb /mnt --background
  plumb fs fsck disk.plumb
  plumb fs df disk.plumb
  plumb fs stat disk.plumb /folder/file --json
  plumb fs dump disk.plumb
  plumb fs rm /mnt/folder                      # in one step, however much is in it
  plumb fs clone /mnt/folder /mnt/copy         # seen when all of it is there
  plumb fs grow /mnt --size 20GiB              # also while it is mounted
  plumb fs trim /mnt
  plumb fs snapshot /mnt before                # kept as it is now
  plumb fs quiesce disk.plumb                  # pay what is owed, while nobody waits

Exit status: 0 done; 1 refused, damaged or in use; 2 bad usage or input.")]
pub struct FsArguments {
    #[command(subcommand)]
    command: FsCommand,
}

#[derive(Subcommand)]
enum FsCommand {
    /// Make a file system: a file, or on a block device
    Mkfs(mkfs::MkfsArguments),
    /// Mount a file system in a folder, and serve it until it is unmounted
    Mount(mount::MountArguments),
    /// Read everything and check every rule
    Fsck(fsck::FsckArguments),
    /// Say how much room there is
    Df(look::DfArguments),
    /// Say what is known of a file
    Stat(look::StatArguments),
    /// Remove a file or a whole tree, in one step
    Rm(rm::RmArguments),
    /// Copy a file or a whole tree, seen when all of it is there
    Clone(clone::CloneArguments),
    /// Give a file or a whole tree another name, in one step
    Mv(mv::MvArguments),
    /// Keep it as it is now, to be mounted later
    Snapshot(snapshot::SnapshotArguments),
    /// Do what is owed: write the log's changes to their places, and take room back
    Quiesce(quiesce::QuiesceArguments),
    /// Take into use what its file or device has become larger
    Grow(grow::GrowArguments),
    /// Tell the device what is free
    Trim(trim::TrimArguments),
    /// Measure it beside ext4 on a loop device, on this machine
    Bench(bench::BenchArguments),
    /// List everything that is in it
    Dump(look::DumpArguments),
}

/// Does it.
pub fn fs(arguments: &FsArguments) -> Done {
    match &arguments.command {
        FsCommand::Mkfs(arguments) => mkfs::mkfs(arguments),
        FsCommand::Mount(arguments) => mount::mount(arguments),
        FsCommand::Fsck(arguments) => fsck::fsck(arguments),
        FsCommand::Df(arguments) => look::df(arguments),
        FsCommand::Stat(arguments) => look::stat(arguments),
        FsCommand::Rm(arguments) => rm::rm(arguments),
        FsCommand::Clone(arguments) => clone::clone(arguments),
        FsCommand::Mv(arguments) => mv::mv(arguments),
        FsCommand::Snapshot(arguments) => snapshot::snapshot(arguments),
        FsCommand::Quiesce(arguments) => quiesce::quiesce(arguments),
        FsCommand::Grow(arguments) => grow::grow(arguments),
        FsCommand::Trim(arguments) => trim::trim(arguments),
        FsCommand::Bench(arguments) => bench::bench(arguments),
        FsCommand::Dump(arguments) => look::dump(arguments),
    }
}
