//! `plumb linux`: a command under a real Linux kernel, on a modelled device, in virtual time.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use linux::{Charges, Device, FileSystem, FrontEnd, Input, Linux, LinuxError, Outcome, OutputStreams};
use units::ByteSize;

use super::linux_kernel::{self, BuildFlags, KernelChoice, KernelFlags};
use super::linux_order::{self, OrderFlags};
use super::{Done, EXIT_INTERRUPTED, linux_report};
use crate::failure::Failure;

/// What to run on which device.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  plumb linux --device samsung-980pro-1tb --fs ext4 -- fio job.fio
  plumb linux --device wd-zn540 --fs btrfs -- sh -c 'cp -r /usr/share/doc . && sync && df -h .'
  plumb linux --device optane-905p-960gb --fs xfs -- bash
  plumb linux --device samsung-980pro-1tb --device hdd-7200-1tb --fs ext4 -- lsblk
  plumb linux --device samsung-980pro-1tb --trace trace.perfetto -- dd if=$PLUMB_DEVICE of=/dev/null count=8

Inside, the host's files can be read, and written without a trace; the device is $PLUMB_DEVICE, and
/dev/plumb. With --fs it is mounted at $PLUMB_MOUNT, where the command starts. Only --output DIR reaches
the host. Time is virtual: the clock jumps from timer to timer, and the processor costs next to nothing
but by --charge, a table that `plumb calibrate cpu` measures. Further devices are /dev/plumb1, /dev/plumb2, ... and in
$PLUMB_DEVICES; the file system goes on the first.

Exit status: the command's; 128 + N for one that signal N killed; 1 when the guest failed.")]
pub struct LinuxArguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: Option<RunFlags>,
    // Not within the flags of a run: clap takes an optional group with another inside for absent.
    #[command(flatten)]
    kernel: KernelChoice,
    #[command(flatten)]
    order: OrderFlags,
}

#[derive(Subcommand)]
enum Action {
    /// Build the kernel, once: minutes of compiling, kept under the cache folder. Interrupted, it goes on where it was
    Build(BuildFlags),
    /// Show which kernel is there
    Status(KernelFlags),
}

#[derive(Args)]
struct RunFlags {
    /// Device profile, built-in (`plumb list devices`) or a .toml file; given again, a device more
    #[arg(long, value_name = "NAME|FILE", required = true)]
    device: Vec<String>,
    /// Change the profile: a dotted path and a TOML value; `2:KEY=VALUE` only that of the second device
    #[arg(long = "set", value_name = "[N:]KEY=VALUE")]
    set: Vec<String>,
    /// File system to make and mount: ext4, xfs, btrfs, f2fs, betrfs, zonefs or none
    #[arg(long, value_name = "KIND", default_value = "none")]
    fs: FileSystem,
    /// How the kernel sees the device: auto, ublk, nvme-tcp or loop; null-blk is no model
    #[arg(long, value_name = "KIND", default_value = "auto")]
    front_end: FrontEnd,
    /// Words for mkfs
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    mkfs_options: String,
    /// Options of mount, separated by commas
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    mount_options: String,
    /// Keep the device's contents in this file, made when absent; given again, those of the next device
    /// [default: in a file below $PLUMB_CONTENTS, $TMPDIR or /var/tmp that goes with the run]
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Record block and NVMe events and the device's spans: for ui.perfetto.dev, or a table if FILE ends in .tsv
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write each write and flush of the NVMe driver beside what the device got, with streams and epochs; a table, or JSON if
    /// FILE ends in .json. That they differ is a failure
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// Write exit status, virtual time, and the device's counters and latencies as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A folder of the host that the command can write to, at the same path
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Memory of the guest; contents of devices lie outside of it
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    memory: ByteSize,
    /// Charge the processor's work for the command by this table of `plumb calibrate cpu`; `free` charges nothing
    /// [default: 100 ns a system call and 250 ns a page fault, so that a program that never waits gets on]
    #[arg(long, value_name = "FILE|free")]
    charge: Option<PathBuf>,
    /// Seed of the kernel's random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A variable for the command, besides HOME, LANG, LC_ALL, LOGNAME, PATH, TZ, USER, TERM on a terminal, and those that
    /// its words name; without a value as it is set here
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Say nothing of virtual time at the end
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// In place of a table of costs.
const FREE: &str = "free";
/// After so long on the clock of this machine is said why a run may take its time.
const LONG: Duration = Duration::from_secs(60);

/// Runs the command, or sees to the kernel.
pub fn linux(arguments: LinuxArguments) -> Done {
    match (arguments.action, arguments.run) {
        (Some(Action::Build(flags)), _) => flags.build(),
        (Some(Action::Status(kernel)), _) => linux_kernel::status(&kernel),
        (None, Some(flags)) => run(&flags, &arguments.kernel, &arguments.order),
        (None, None) => Err(Failure::input("nothing to run: name a device and a command, or `build`, or `status`")),
    }
}

/// The first process inside a guest; does not come back.
pub fn guest() -> Done {
    match linux::guest::main() {
        Ok(never) => match never {},
        Err(error) => Err(failure(error)),
    }
}

fn run(flags: &RunFlags, kernel: &KernelChoice, order: &OrderFlags) -> Done {
    let run = described(flags, order)?;
    let kernel = kernel.find(order.kernel())?;
    let stop = stop()?;
    let (begun, has_said) = (Instant::now(), Cell::new(flags.quiet));
    let stopped = || {
        if begun.elapsed() > LONG && !has_said.replace(true) {
            eprintln!(
                "plumb: {} s on this machine's clock so far; while a program computes without waiting, virtual time stands still \
                 (docs/linux.md). Ctrl-C ends the run",
                LONG.as_secs()
            );
        }
        stop.load(Ordering::Relaxed)
    };
    let outcome = match run.run_until(&kernel, &stopped) {
        Err(LinuxError::Stopped) => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
        done => done.map_err(failure)?,
    };
    if let (Some(path), Some(trace)) = (&flags.trace, &outcome.trace) {
        trace.write(path).map_err(|error| Failure::Machine(format!("cannot write {}: {error}", path.display())))?;
        if trace.lost_events > 0 {
            eprintln!("plumb: the trace lacks its first {} events: the kernel's buffer was full", trace.lost_events);
        }
    }
    if let (Some(path), Some(commands)) = (&flags.commands, &outcome.commands) {
        commands.write(path).map_err(|error| Failure::Machine(format!("cannot write {}: {error}", path.display())))?;
        linux_order::agreed(path, commands)?;
    }
    if let Some(path) = &flags.json {
        let text = linux_report::json(&run.device, &outcome);
        std::fs::write(path, text)
            .map_err(|error| Failure::Machine(format!("cannot write {}: {error}", path.display())))?;
    }
    if !flags.quiet {
        eprintln!("{}", summary(&outcome));
    }
    Ok(ExitCode::from(outcome.ended.shell_status()))
}

fn described(flags: &RunFlags, order: &OrderFlags) -> Result<Linux, Failure> {
    let mut devices = devices(&flags.device, &flags.set, &flags.image)?.into_iter();
    let first = devices.next().unwrap_or_default();
    let mut run = Linux::new(plumb()?, first.profile);
    run.settings = first.settings;
    run.image = first.image;
    run.more_devices = devices.collect();
    run.front_end = flags.front_end;
    run.file_system = flags.fs;
    run.mkfs_options.clone_from(&flags.mkfs_options);
    run.mount_options.clone_from(&flags.mount_options);
    run.output.clone_from(&flags.output);
    run.memory_bytes = flags.memory.0;
    run.charge = match flags.charge.as_deref() {
        None => Some(Charges::least()),
        Some(free) if free == Path::new(FREE) => None,
        Some(file) => Some(Charges::read(file).map_err(failure)?),
    };
    order.put(&mut run);
    run.trace = flags.trace.is_some();
    run.commands = flags.commands.is_some();
    run.seed = flags.seed;
    run.input = Input::Inherit;
    run.output_streams = OutputStreams::Inherit;
    let has_terminal = std::io::stdin().is_terminal();
    run.environment =
        linux::environment(std::env::vars_os(), &flags.command, &flags.env, has_terminal).map_err(failure)?;
    Ok(run.command(flags.command.iter().cloned()))
}

/// Devices with the settings and images that are theirs.
fn devices(profiles: &[String], settings: &[String], images: &[PathBuf]) -> Result<Vec<Device>, Failure> {
    if images.len() > profiles.len() {
        return Err(Failure::input(format!("{} images for {} devices", images.len(), profiles.len())));
    }
    let device = |profile: &String| Device { profile: profile.clone(), ..Device::default() };
    let mut devices: Vec<Device> = profiles.iter().map(device).collect();
    for setting in settings {
        match place(setting) {
            Some((place, setting)) => {
                let count = devices.len();
                let device = place.checked_sub(1).and_then(|place| devices.get_mut(place));
                let missing =
                    || Failure::input(format!("--set {place}:{setting}: there are {count} devices, from 1 on"));
                device.ok_or_else(missing)?.settings.push(setting.to_owned());
            }
            None => devices.iter_mut().for_each(|device| device.settings.push(setting.clone())),
        }
    }
    for (device, image) in devices.iter_mut().zip(images) {
        device.image = Some(absolute(image)?);
    }
    Ok(devices)
}

/// The number of a device before a setting, and the setting.
fn place(setting: &str) -> Option<(usize, &str)> {
    let (place, rest) = setting.split_once(':')?;
    Some((place.parse().ok()?, rest))
}

/// This program, which is run inside too.
pub fn plumb() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::Machine(format!("cannot find plumb itself: {error}")))
}

/// A path from the root on.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::Machine(format!("cannot tell where {} is: {error}", path.display())))
}

/// Set when the user wants an end of it.
pub fn stop() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::Machine(format!("cannot listen to signals: {error}")))?;
    }
    Ok(stop)
}

/// One line for standard error.
fn summary(outcome: &Outcome) -> String {
    let nodes = std::iter::once(&outcome.device_node).chain(outcome.more_devices.iter().map(|device| &device.node));
    let nodes: Vec<&str> = nodes.map(String::as_str).collect();
    format!(
        "plumb: {:.9} s of virtual time (processor {}) in {:.1} s; {}, Linux {}",
        outcome.virtual_time().as_secs_f64(),
        outcome.processor_time(),
        outcome.wall.as_secs_f64(),
        nodes.join(" "),
        outcome.kernel
    )
}

/// An error of the guest as the command line shows it.
pub fn failure(error: LinuxError) -> Failure {
    match error {
        LinuxError::Invalid { message } => Failure::input(message),
        LinuxError::NotASource { .. } | LinuxError::Patch { .. } | LinuxError::Config { .. } => Failure::input(error),
        other => Failure::Machine(other.to_string()),
    }
}
