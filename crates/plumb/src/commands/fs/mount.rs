//! Mounting a file system where people see it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use betrfs::{Computing, Error, Model, Operations, Served, Steps, Timestamp, Volume};
use clap::{Args, ValueEnum};
use fuse::{FolderMount, MountError, MountOptions, Rings, Server};
use storage::FileOptions;

use super::super::{Done, EXIT_FAILED};
use super::computing::Spending;
use super::image::{self, ImageFlags};
use super::serving::{self, Serving};
use crate::failure::Failure;

/// How far ahead of who reads in sequence the kernel reads: several requests, which several threads answer.
const READ_AHEAD_BYTES: u64 = 4 << 20;
/// As the source of a mount: a file system in memory, which is empty, and gone with the mount.
const MEMORY: &str = ":memory:";

#[derive(Args)]
#[command(after_help = "Examples:
  plumb fs mount disk.plumb /mnt
  plumb fs mount disk.plumb ~/files -o ro,noatime

One line is printed once files can be used. Ctrl-C, SIGTERM, umount and fusermount3 -u end it;
what was written is durable then. Who is not root needs fusermount3 (the package fuse3), and
for -o allow_other the line user_allow_other in /etc/fuse.conf. The FILE :memory: is an empty
file system in memory, gone with the mount.")]
pub struct MountArguments {
    #[command(flatten)]
    image: ImageFlags,
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Options, as of mount(8): ro, noatime, nosuid, nodev, noexec, sync, allow_other, nobarrier and so on
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Return once it is mounted, and serve behind
    #[arg(long)]
    background: bool,
    /// Requests that are answered at a time [default: four for each processor, and 48 at least]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// How requests come from the kernel
    #[arg(long, value_name = "WAY", value_enum, default_value_t = Transport::Auto)]
    transport: Transport,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// As io-uring where that is there, otherwise as device
    Auto,
    /// Through /dev/fuse
    Device,
    /// Through rings of io_uring where the kernel has them (Linux 6.14) and root mounts
    IoUring,
}

/// Mounts and serves.
pub fn mount(arguments: &MountArguments) -> Done {
    let image = &arguments.image.image;
    let source = std::fs::canonicalize(image).unwrap_or_else(|_| image.clone());
    let mut options = MountOptions::new(&source.display().to_string());
    for words in &arguments.options {
        options.add(words).map_err(Failure::input)?;
    }
    if options.remount {
        FolderMount::change(&arguments.folder, &options).map_err(Failure::input)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.background {
        return in_background(arguments);
    }
    let spending = options.computing.as_deref().map(Spending::by).transpose()?;
    let steps = options.without.as_deref().map(Steps::without).transpose().map_err(Failure::input)?.unwrap_or_default();
    let model = Model::new(serving::now());
    let volume = (image != Path::new(MEMORY)).then(|| open(&arguments.image, &options, steps)).transpose()?;
    let operations: &dyn Operations = volume.as_ref().map_or(&model, |volume| volume);
    let rings = match arguments.transport {
        Transport::Auto | Transport::IoUring => Rings::enable(),
        Transport::Device => None,
    };
    let (mount, device) = FolderMount::new(&arguments.folder, &options).map_err(|error| match error {
        MountError::Refused { .. } => Failure::input(error),
        MountError::Device(_) | MountError::NoFusermount => Failure::Machine(error.to_string()),
    })?;
    let server = match Server::connect(device, rings, !steps.directory_cache) {
        Ok(server) => server,
        Err(error) => {
            // Nobody else will.
            let _ = mount.unmount(true);
            return Err(Failure::Machine(error.to_string()));
        }
    };
    // Who is not root has the kernel's own.
    let _ = mount.read_ahead(READ_AHEAD_BYTES);
    println!("{} is mounted at {}", options.source, mount.folder().display());
    crate::output::flush();
    let threads = arguments.threads.map_or_else(default_threads, usize::from);
    let complaint = |error: &Error| eprintln!("{}: {error}", options.source);
    let clock: &(dyn Fn() -> Timestamp + Sync) = &serving::now;
    let notices = server.notices().ok();
    let served = Served::new(operations, clock, &complaint, notices.as_ref());
    let progress = || {
        let moved = volume.as_ref().map(Volume::moved).unwrap_or_default();
        moved.worked_bytes.wrapping_add(moved.loaded_bytes)
    };
    let work = |bytes| operations.work(bytes);
    let serving = Serving { handler: &served, operations, work: &work, progress: &progress, mount: &mount, threads };
    let (Some(spending), Some(volume)) = (&spending, &volume) else {
        serving::run(server, &serving)?;
        return Ok(ExitCode::SUCCESS);
    };
    let spend = |ns| spending.spend(ns);
    let computing = Computing::new(&served, volume, spending.costs(), &spend);
    let work = |bytes| computing.work(bytes);
    serving::run(server, &Serving { handler: &computing, work: &work, ..serving })?;
    Ok(ExitCode::SUCCESS)
}

/// Opens what is to be served, which recovers it.
fn open(image: &ImageFlags, mount: &MountOptions, steps: Steps) -> Result<Volume, Failure> {
    let as_it_is = FileOptions { read_only: mount.read_only, ..FileOptions::default() };
    let file = image::file_as(&image.image, &as_it_is)?;
    let mut options = image.options();
    options.steps = steps;
    options.notes_accesses = mount.notes_accesses();
    // A thread of the server's does what is owed.
    options.store.pacing = betree::Pacing::Elsewhere;
    let opened = match &mount.snapshot {
        Some(name) => Volume::open_snapshot(file, options, name),
        None if mount.read_only => Volume::open_read_only(file, options),
        None if mount.no_barrier => Volume::open(storage::Unflushed(file), options),
        None => Volume::open(file, options),
    };
    opened.map_err(|error| match &mount.snapshot {
        Some(name) if error == Error::NotFound => Failure::input(format!(
            "{0}: there is no snapshot {name:?}; `plumb fs snapshot {0}` lists them",
            image.image.display()
        )),
        _ => image.fault(&error),
    })
}

/// Enough for the 32 requests that a SATA device takes at a time while others wait for a sync, of which one flushes for all.
fn default_threads() -> usize {
    thread::available_parallelism().map_or(48, |processors| (processors.get() * 4).clamp(48, 64))
}

/// Has another process mount and serve, and waits for its line.
fn in_background(arguments: &MountArguments) -> Done {
    let failed = |error: std::io::Error| Failure::Machine(format!("cannot be started in the background: {error}"));
    let MountArguments { image, folder, options, background: _, threads, transport } = arguments;
    let mut server = Command::new(std::env::current_exe().map_err(failed)?);
    server.args(["fs", "mount"]).arg(&image.image).arg(folder).args(["--cache", &image.cache.to_string()]);
    for words in options {
        server.args(["-o", words]);
    }
    if let Some(threads) = threads {
        server.args(["--threads", &threads.to_string()]);
    }
    if let Some(transport) = transport.to_possible_value() {
        server.args(["--transport", transport.get_name()]);
    }
    // Ctrl-C is for whoever starts it.
    server.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut server = server.spawn().map_err(failed)?;
    let mut line = String::new();
    if let Some(said) = server.stdout.take() {
        BufReader::new(said).read_line(&mut line).map_err(failed)?;
    }
    if line.is_empty() {
        // It has said why on standard error, which is this one's.
        let status = server.wait().map_err(failed)?.code();
        return Ok(ExitCode::from(status.and_then(|status| u8::try_from(status).ok()).unwrap_or(EXIT_FAILED)));
    }
    print!("{line}");
    Ok(ExitCode::SUCCESS)
}
