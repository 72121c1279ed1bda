//! `plumb crash`: what a power cut may leave of any program's files, on a real kernel.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use lab::Shard;
use linux::crash::{Amount, Judging, ProgramCheck, Survival, Trial};
use linux::{FileSystem, FrontEnd, Kernel, Linux, LinuxError};
use ssd::Contents;
use ssd::config::OrderKind;
use ssd::profile::{BuildOptions, DeviceConfig};
use units::{ByteSize, printable_lines};

use super::linux::{absolute, failure, plumb, stop};
use super::linux_kernel::KernelChoice;
use super::linux_order::OrderFlags;
use super::{Done, EXIT_FAILED, EXIT_INTERRUPTED, crash_offline, crash_report};
use crate::failure::Failure;

/// What is run, and how states are judged.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  plumb crash --fs ext4 --setup 'echo old > f' --check 'grep -qx -e old -e new f' -- \\
      sh -c 'echo new > f.tmp && mv f.tmp f'
  plumb crash --fs xfs --states 20000 --check-as sqlite:db -- ./load.sh
  plumb crash --fs ext4 --kernel-patch my.patch -- ./load.sh
  plumb crash --fs f2fs --known repaired -- ./load.sh
  plumb crash --ordering streams -- ./load.sh
  plumb crash --offline-states 1000000 -- ./load.sh
  plumb crash --offline-states 20000 --offline-check --check-as sqlite:db -- ./load.sh
  plumb crash replay plumb-crash 3f2a91c0d4e5b678 -- bash

COMMAND runs once under a real kernel in virtual time, in the mounted file system, while the
device keeps a log of its writes. For each distinct state that a power cut may leave, the kernel
mounts and recovers the file system, --recover, --check-as and --check run in it, and the file
system's own checker has a look. A line that COMMAND writes to $PLUMB_ACKNOWLEDGE is a durability
guarantee: checks get those given before the cut in $PLUMB_ACKNOWLEDGED.

Nothing of the host is written but the folder of --out. The same arguments again go on where it
was stopped. Where the program, or a file that it or --setup names, has changed, it is recorded anew;
another --check, --recover or --states, or an edited script, judges the same recording again.

Exit status: 0 every state is good; 1 a state is bad; 2 bad usage, COMMAND failed, or a check that
fails where no power was lost; 3 a guest failed, or not every state could be judged; 130 interrupted.")]
pub struct CrashArguments {
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
    /// Mount a state and run a command in it
    Replay(ReplayFlags),
}

#[derive(Args)]
struct ReplayFlags {
    /// The folder of `plumb crash --out`
    folder: PathBuf,
    /// The state's name, as it was printed
    state: String,
    /// The kernel in this file, where the trial ran under one
    #[arg(long, value_name = "FILE")]
    kernel_image: Option<PathBuf>,
    /// The command and its arguments [default: bash]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Which kernel.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Known {
    AsIs,
    Repaired,
}

#[derive(Args)]
struct RunFlags {
    /// Device profile, built-in (`plumb list devices`) or a .toml file
    #[arg(long, value_name = "NAME|FILE", default_value = "samsung-980pro-1tb")]
    device: String,
    /// Change the profile: a dotted path and a TOML value
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// File system to make and mount: ext4, xfs, btrfs, f2fs, betrfs or none
    #[arg(long, value_name = "KIND", default_value = "ext4")]
    fs: FileSystem,
    /// Size of the file system; a small one is looked at sooner
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    size: ByteSize,
    /// Words for mkfs
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    mkfs_options: String,
    /// Options of mount, separated by commas
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    mount_options: String,
    /// What survives: auto (the profile's cache and order), volatile-cache, streams, protected-cache or lying-cache
    #[arg(long, value_name = "RULE", default_value = "auto")]
    survives: Survival,
    /// What the device writes whole or not at all when the power goes; 512 for one without larger sectors inside
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    atomic: ByteSize,
    /// Distinct crash states to look at
    #[arg(long, value_name = "N", default_value_t = 1000, conflicts_with = "exhaustive")]
    states: usize,
    /// ext4: generate so many states before, and judge them without a kernel: the journal is replayed, files are read and held
    /// against what was promised of them, and e2fsck looks at each distinct metadata; the kernel mounts some of those that are bad
    #[arg(long, value_name = "N")]
    offline_states: Option<u64>,
    /// Have --check, --check-as and --recover look at those states, too: on this machine, at the state's files in a folder, without a
    /// kernel of their own
    #[arg(long, requires = "offline_states")]
    offline_check: bool,
    /// States that are judged without a kernel at the same time [default: --guests]; more than processors are of use where a check
    /// waits
    #[arg(long, value_name = "N", requires = "offline_states")]
    offline_threads: Option<usize>,
    /// Every subset of units at each crash point with at most so many undecided
    #[arg(long, value_name = "UNITS", num_args = 0..=1, default_missing_value = "10")]
    exhaustive: Option<u32>,
    /// Faults of file systems that docs/crash.md knows: as they are, or a kernel in which they are repaired
    #[arg(long, value_name = "HOW", default_value = "as-is", hide_default_value = true, conflicts_with = "ordering")]
    known: Known,
    /// Seed of the sample, and of the kernel's random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Before COMMAND, for `sh -e`: what is there in each state
    #[arg(long, value_name = "CMD")]
    setup: Option<String>,
    /// In each recovered state, for `sh -e`: what the program does after a crash
    #[arg(long, value_name = "CMD")]
    recover: Option<String>,
    /// In each recovered state, for `sh -e`: fails where something is wrong
    #[arg(long, value_name = "CMD")]
    check: Option<String>,
    /// In each recovered state: what is known of a program's files, as KIND:PATH; can be given again
    #[arg(long, value_name = "KIND:PATH", long_help = check_as_help())]
    check_as: Vec<ProgramCheck>,
    /// Do not hold files against the durability guarantees of fsync and its like
    #[arg(long)]
    no_files: bool,
    /// Leave the file system's own checker out
    #[arg(long)]
    no_fsck: bool,
    /// Where the log, the verdicts and this trial's settings go
    /// [default: plumb-crash, or, where that holds another trial, plumb-crash-2, ...]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Remove what an earlier trial left in the folder of --out, and begin anew
    #[arg(long)]
    fresh: bool,
    /// A variable for all that runs inside, besides HOME, LANG, LC_ALL, LOGNAME, PATH, TZ, USER and those that COMMAND and the
    /// scripts name; without a value as it is set here
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Guests side by side [default: one for each processor]
    #[arg(long, value_name = "N")]
    guests: Option<usize>,
    /// Look at the I-th of N parts of the states only
    #[arg(long, value_name = "I/N", default_value = "1/1", hide_default_value = true)]
    shard: Shard,
    /// Seconds on the clock of this machine that COMMAND with its set-up may take, and each look at a state
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    time_limit: u64,
    /// Memory of each guest; what is durable at a moment lies there, and one state
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    memory: ByteSize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Causes of bad states to print, at most, with the smallest state of each
    #[arg(long, value_name = "N", default_value_t = 3)]
    show: usize,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What a guest of `plumb crash` does.
#[derive(Args)]
pub struct TaskArguments {
    file: PathBuf,
}

/// Neither good nor bad: the machine or a guest failed, or not every state could be judged.
const EXIT_NOT_JUDGED: u8 = 3;

/// Runs a trial, or stands in one of its states.
pub fn crash(arguments: CrashArguments) -> Done {
    // A machine that fails says nothing of a state.
    tried(arguments).or_else(|failure| match failure {
        Failure::Machine(message) => {
            eprintln!("Error: {}", printable_lines(&message));
            Ok(ExitCode::from(EXIT_NOT_JUDGED))
        }
        other => Err(other),
    })
}

fn tried(arguments: CrashArguments) -> Done {
    match (arguments.action, arguments.run) {
        (Some(Action::Replay(flags)), _) => replay(&flags),
        (None, Some(flags)) => run(&flags, &arguments.kernel, &arguments.order),
        (None, None) => Err(Failure::input("nothing to run: name a command after `--`")),
    }
}

/// Does a task inside a guest.
pub fn task(arguments: &TaskArguments) -> Done {
    // Plain words: the outside shows them as it shows its own.
    Ok(linux::guest::crash::main(&arguments.file).map_or_else(
        |error| {
            eprintln!("{error}");
            let is_invalid = matches!(error, LinuxError::Invalid { .. });
            ExitCode::from(if is_invalid { linux::guest::crash::STATUS_INVALID } else { EXIT_NOT_JUDGED })
        },
        ExitCode::from,
    ))
}

fn run(flags: &RunFlags, kernel: &KernelChoice, order: &OrderFlags) -> Done {
    let mut trial = trial(flags, order)?;
    let needed = if flags.known == Known::Repaired { Some("repaired") } else { order.kernel() };
    let kernel = kernel.find(needed)?;
    let named = named(flags, &mut trial, &kernel)?;
    let stop = stop()?;
    let stopped = || stop.load(Ordering::Relaxed);
    let changed = trial.open(&kernel, flags.fresh).map_err(failure)?;
    if let Some(first) = changed.first() {
        let more = if changed.len() > 1 { format!(" and {} more files", changed.len() - 1) } else { String::new() };
        eprintln!("plumb: {first}{more} changed since the command was recorded: it is run again");
    }
    let recording = match trial.record(&kernel, &stopped) {
        Err(LinuxError::Stopped) => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
        done => done.map_err(failure)?,
    };
    if let Some((stdout, stderr)) = &recording.said {
        // What the command says is not what this one says.
        for bytes in [stdout, stderr] {
            eprint!("{}", String::from_utf8_lossy(bytes));
        }
    }
    if !recording.ended.success() {
        return Err(Failure::input(format!(
            "the command ended with status {}: no state was looked at (its trial is in {})",
            recording.ended.shell_status(),
            trial.folder.display()
        )));
    }
    match trial.rehearse(&kernel, &stopped) {
        Err(LinuxError::Stopped) => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
        done => done.map_err(failure)?,
    }
    let offline = match offline(flags, &trial, &stopped)? {
        Some(None) => return Ok(stopped_here()),
        Some(found) => found,
        None => None,
    };
    if let Some(offline) = &offline {
        trial.judging.brought = offline.for_the_kernel();
    }
    let bar = bar();
    let summary = trial.judge(&kernel, &stopped, &mut |progress| {
        bar.set_length(progress.states as u64);
        bar.set_position(progress.judged as u64);
        bar.set_message(if progress.bad > 0 { format!("{} bad", progress.bad) } else { String::new() });
    });
    bar.finish_and_clear();
    let summary = match summary {
        Err(LinuxError::Stopped) => return Ok(stopped_here()),
        done => done.map_err(failure)?,
    };
    let evidence = trial.evidence().map_err(failure)?;
    let report = crash_report::Report {
        summary: &summary,
        evidence: &evidence,
        recording: &recording,
        kernel: kernel.release(),
        trial: &trial,
        named: &named,
    };
    if flags.json {
        let mut json = report.json();
        if let (Some(offline), Some(json)) = (&offline, json.as_object_mut()) {
            json.insert("offline".to_owned(), offline.json());
        }
        println!("{json}");
    } else {
        print!("{}", report.text(flags.show));
        if let Some(offline) = &offline {
            print!("\n{}", offline.text(summary.verdicts.len(), flags.show));
        }
    }
    let is_bad = !summary.bad().is_empty() || offline.as_ref().is_some_and(|offline| offline.is_bad());
    // Of files that are not followed nobody knows whether they are as promised.
    let is_followed = recording.unfollowed.is_empty() || !trial.judging.files;
    let is_judged = is_followed && offline.is_none_or(|offline| offline.is_whole());
    Ok(match (is_bad, is_judged) {
        (true, _) => ExitCode::from(EXIT_FAILED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(EXIT_NOT_JUDGED),
    })
}

/// Where a trial goes of which nothing else is said.
const OUT: &str = "plumb-crash";
/// Folders that are tried.
const FOLDERS_MAX: usize = 1000;

/// The folder's name as a person has it; where none was given, the first that holds no other trial.
fn named(flags: &RunFlags, trial: &mut Trial, kernel: &Kernel) -> Result<PathBuf, Failure> {
    if let Some(out) = &flags.out {
        return Ok(out.clone());
    }
    for number in 1..=FOLDERS_MAX {
        let name = PathBuf::from(if number == 1 { OUT.to_owned() } else { format!("{OUT}-{number}") });
        trial.folder = absolute(&name)?;
        if flags.fresh || trial.is_at_home(kernel) {
            if number > 1 {
                eprintln!("plumb: {OUT} holds another trial; this one goes to {}", name.display());
            }
            return Ok(name);
        }
    }
    Err(Failure::input(format!("{OUT} to {OUT}-{FOLDERS_MAX} hold other trials: give a folder with --out")))
}

/// What is judged without a kernel, if anything is to be: nothing found where somebody asked to stop.
fn offline(
    flags: &RunFlags,
    trial: &Trial,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Option<crash_offline::Offline>>, Failure> {
    let Some(states) = flags.offline_states else { return Ok(None) };
    let bar = bar();
    bar.set_length(states);
    let scripts = flags.offline_check.then(|| trial.scripts()).transpose().map_err(failure)?;
    let threads = flags.offline_threads.unwrap_or(trial.guests);
    let asked = crash_offline::Asked { states, seed: flags.seed, all: flags.exhaustive.is_some(), threads, scripts };
    let found = crash_offline::judge(trial, &asked, stop, &mut |progress| {
        bar.set_position(progress.generated);
        bar.set_message(if progress.bad > 0 { format!("{} bad", progress.bad) } else { String::new() });
    });
    bar.finish_and_clear();
    found.map(Some)
}

fn stopped_here() -> ExitCode {
    eprintln!("plumb: stopped; the same command goes on where it was");
    ExitCode::from(EXIT_INTERRUPTED)
}

fn replay(flags: &ReplayFlags) -> Done {
    let plumb = plumb()?;
    let (mut trial, kernel) = Trial::of_folder(&absolute(&flags.folder)?, &flags.state, &plumb).map_err(failure)?;
    let kernel = match &flags.kernel_image {
        Some(image) => Kernel::from_image(image).map_err(failure)?,
        None => Kernel::of_name(&kernel).map_err(|error| match error {
            LinuxError::NoKernel => Failure::input(format!(
                "the trial ran under the kernel {kernel}, which is not in the cache: `plumb linux build` with the same \
                 --kernel-patch and the like makes it, or name its file with --kernel-image"
            )),
            other => failure(other),
        })?,
    };
    let command = if flags.command.is_empty() { vec!["bash".into()] } else { flags.command.clone() };
    let has_terminal = std::io::stdin().is_terminal();
    let mut here = linux::environment(std::env::vars_os(), &command, &[], has_terminal).map_err(failure)?;
    here.retain(|(name, _)| trial.linux.environment.iter().all(|(recorded, _)| recorded != name));
    trial.linux.environment.append(&mut here);
    let stop = stop()?;
    let outcome = trial.stand(&kernel, &flags.state, &command, &|| stop.load(Ordering::Relaxed));
    match outcome {
        Err(LinuxError::Stopped) => Ok(ExitCode::from(EXIT_INTERRUPTED)),
        done => Ok(ExitCode::from(done.map_err(failure)?.ended.shell_status())),
    }
}

fn trial(flags: &RunFlags, order: &OrderFlags) -> Result<Trial, Failure> {
    if matches!(flags.fs, FileSystem::Zonefs) {
        return Err(Failure::input("zonefs has no cache to lose: choose ext4, xfs, btrfs, f2fs, betrfs or none"));
    }
    if flags.offline_states.is_some() && flags.fs != FileSystem::Ext4 {
        return Err(Failure::input("--offline-states: only ext4 can be read without its kernel"));
    }
    if flags.offline_check && flags.check.is_none() && flags.recover.is_none() && flags.check_as.is_empty() {
        return Err(Failure::input("--offline-check: there is nothing to run; give --check, --check-as or --recover"));
    }
    let amount = match flags.exhaustive {
        Some(parts_max) if parts_max > linux::crash::EXHAUSTIVE_PARTS_MAX => {
            return Err(Failure::input(format!(
                "--exhaustive {parts_max}: 2 to the power of {parts_max} states at one moment are too many; at most {}",
                linux::crash::EXHAUSTIVE_PARTS_MAX
            )));
        }
        Some(parts_max) => Amount::Exhaustive { parts_max },
        None => Amount::Sampled { states: flags.states, seed: flags.seed },
    };
    let mut linux = Linux::new(plumb()?, &flags.device);
    linux.settings.clone_from(&flags.set);
    linux.front_end = FrontEnd::Auto;
    linux.file_system = flags.fs;
    linux.file_system_bytes = Some(flags.size.0).filter(|_| flags.fs != FileSystem::None);
    linux.mkfs_options.clone_from(&flags.mkfs_options);
    linux.mount_options.clone_from(&flags.mount_options);
    linux.memory_bytes = flags.memory.0;
    linux.seed = flags.seed;
    order.put(&mut linux);
    let check = check(flags)?;
    let scripts = [&flags.setup, &flags.recover, &check].into_iter().flatten().map(OsStr::new);
    let texts = flags.command.iter().map(|word| &**word).chain(scripts);
    linux.environment = linux::environment(std::env::vars_os(), texts, &flags.env, false).map_err(failure)?;
    Ok(Trial {
        linux: linux.command(flags.command.iter().cloned()),
        setup: flags.setup.clone(),
        judging: Judging {
            recover: flags.recover.clone(),
            check,
            checked_paths: flags.check_as.iter().map(|check| check.path().to_owned()).collect(),
            files: !flags.no_files,
            fsck: !flags.no_fsck,
            survival: survival(flags, order.setting())?,
            atomic_bytes: atomic_bytes(flags.atomic)?,
            amount,
            brought: Vec::new(),
        },
        folder: absolute(flags.out.as_deref().unwrap_or(Path::new(OUT)))?,
        time_limit: Duration::from_secs(flags.time_limit),
        guests: flags.guests.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        shard: flags.shard.place(),
    })
}

/// What is known of programs, and then what the user says.
fn check(flags: &RunFlags) -> Result<Option<String>, Failure> {
    if let Some(missing) = flags.check_as.iter().find_map(ProgramCheck::missing) {
        return Err(Failure::Machine(missing));
    }
    let scripts: Vec<String> = flags.check_as.iter().map(ProgramCheck::script).chain(flags.check.clone()).collect();
    Ok((!scripts.is_empty()).then(|| scripts.join("\n")))
}

fn check_as_help() -> String {
    let mut help =
        "In each recovered state: what is known of a program's files, as KIND:PATH; can be given again. They are \
                    whole, and hold what was acknowledged; a line written to $PLUMB_ACKNOWLEDGE is then\n"
            .to_owned();
    for (name, promise) in ProgramCheck::kinds() {
        let _ = write!(help, "\n  {name:<11} {promise}");
    }
    help
}

fn atomic_bytes(size: ByteSize) -> Result<u32, Failure> {
    let bytes = u32::try_from(size.0).ok().filter(|bytes| bytes.is_power_of_two() && *bytes >= 512);
    bytes.ok_or_else(|| Failure::input(format!("--atomic {size}: give a power of two from 512 bytes on")))
}

/// The rule, by the profile where nothing is said.
fn survival(flags: &RunFlags, first: Option<&str>) -> Result<Survival, Failure> {
    let settings = first.into_iter().chain(flags.set.iter().map(String::as_str));
    let overrides: Result<Vec<lab::spec::Override>, _> = settings.map(str::parse).collect();
    let profile = lab::device::describe(&flags.device, Path::new(""), &overrides.map_err(Failure::input)?)?.profile;
    let device =
        profile.build(&BuildOptions { contents: Contents::None, ..BuildOptions::default() }).map_err(Failure::input)?;
    let identity = device.identity();
    if identity.zoned.is_some() {
        return Err(Failure::input(format!("{} has zones: choose a device without", flags.device)));
    }
    let keeps_order = matches!(&profile.config, DeviceConfig::Ssd(config) if config.order == OrderKind::Streams);
    Ok(match flags.survives {
        Survival::Auto if identity.volatile_write_cache && keeps_order => Survival::Streams,
        Survival::Auto if identity.volatile_write_cache => Survival::VolatileCache,
        Survival::Auto => Survival::ProtectedCache,
        named => named,
    })
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} states, {per_sec}, {eta} left {msg}") {
        bar.set_style(style);
    }
    bar
}
