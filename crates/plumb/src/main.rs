//! The `plumb` command: the storage stack, from system call to flash cell.

#![cfg_attr(test, allow(clippy::unwrap_used))]

// First: its `print!`, `println!` and `eprintln!` are those of all modules below.
#[macro_use]
mod output;

mod commands;
#[cfg(test)]
mod documented;
mod failure;
mod terminal;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Run, measure and open up the storage stack, from system call to flash cell.
#[derive(Parser)]
#[command(name = "plumb", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:
  plumb run experiments/quickstart.toml
  plumb run job.fio --device samsung-980pro-1tb
  plumb run web_0.csv --device hdd-7200-1tb --set workload.replay.mode=closed
  plumb list devices
  plumb serve --device optane-905p-960gb --nbd unix:/tmp/plumb.sock

Exit status: 0 done; 1 the run failed, fell short or missed an enforced expectation;
2 bad usage or input; 130 interrupted (run again to resume).")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment spec, a fio job file or a block trace
    Run(commands::run::RunArguments),
    /// Show what there is: devices, experiments, options, formats
    List(commands::list::ListArguments),
    /// Print a device profile as TOML, every key of it
    Show(commands::show::ShowArguments),
    /// Write the report of a results folder again
    Report(commands::report::ReportArguments),
    /// Put the shards of a sweep together
    Merge(commands::merge::MergeArguments),
    /// Hold device profiles against their public figures
    Validate(commands::validate::ValidateArguments),
    /// Fit a device profile to a drive's own measurements
    Calibrate(commands::calibrate::CalibrateArguments),
    /// Ask questions of zoned devices
    Zns(commands::zns::ZnsArguments),
    /// Serve a modelled device on the wall clock
    Serve(commands::serve::ServeArguments),
    /// Watch a served device, cut its power, have it fail
    Control(commands::control::ControlArguments),
    /// Defragment only what the I/O touches, and lose no byte
    Defrag(commands::defrag::DefragArguments),
    /// Run a command under a real Linux kernel on a modelled device, in virtual time
    Linux(commands::linux::LinuxArguments),
    /// Cut the power under any program, at every moment, and see what a real kernel recovers
    Crash(commands::crash::CrashArguments),
    /// Keep keys and values in a Bε-tree store, on a file or a block device
    Kv(commands::kv::KvArguments),
    /// Make, mount, check and look into a file system on a file or a block device
    Fs(commands::fs::FsArguments),
    /// Run a command whose reads are foreseen and loaded ahead of it
    Prefetch(commands::prefetch::PrefetchArguments),
    /// Run a small program that studies of storage use, on real files
    App(commands::app::AppArguments),
    /// Write the manual pages
    Man(commands::man::ManArguments),
    /// Print what a shell needs to complete the command line
    Completion(commands::completion::CompletionArguments),
    /// The first process inside a guest of `plumb linux`
    #[command(name = "linux-guest", hide = true)]
    LinuxGuest,
    /// A task inside a guest of `plumb crash`
    #[command(hide = true)]
    LinuxTask(commands::crash::TaskArguments),
    /// Look after the connection of `plumb serve --loop` or `plumb fs mount`
    #[command(hide = true)]
    FuseWatchdog(commands::fuse_watchdog::FuseWatchdogArguments),
    /// A cell of the fragmentation study, in a folder of its own file system
    #[command(hide = true)]
    DefragStudy(commands::defrag_study::DefragStudyArguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(commands::fs::mount_helper::command_line(std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(asked) => return output::finish(tell(&asked)),
    };
    let done = match arguments.command {
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::List(arguments) => commands::list::list(&arguments),
        Command::Show(arguments) => commands::show::show(&arguments),
        Command::Report(arguments) => commands::report::report(&arguments),
        Command::Merge(arguments) => commands::merge::merge(&arguments),
        Command::Validate(arguments) => commands::validate::validate(&arguments),
        Command::Calibrate(arguments) => commands::calibrate::calibrate(&arguments),
        Command::Zns(arguments) => commands::zns::zns(&arguments),
        Command::Serve(arguments) => commands::serve::serve(arguments),
        Command::Control(arguments) => commands::control::control(&arguments),
        Command::Defrag(arguments) => commands::defrag::defrag(&arguments),
        Command::Linux(arguments) => commands::linux::linux(arguments),
        Command::Crash(arguments) => commands::crash::crash(arguments),
        Command::Kv(arguments) => commands::kv::kv(&arguments),
        Command::Fs(arguments) => commands::fs::fs(&arguments),
        Command::Prefetch(arguments) => commands::prefetch::prefetch(arguments),
        Command::App(arguments) => commands::app::app(&arguments),
        Command::LinuxTask(arguments) => commands::crash::task(&arguments),
        Command::Man(arguments) => commands::man::man(&arguments, Arguments::command()),
        Command::Completion(arguments) => commands::completion::completion(&arguments, Arguments::command()),
        Command::LinuxGuest => commands::linux::guest(),
        Command::FuseWatchdog(arguments) => commands::fuse_watchdog::fuse_watchdog(&arguments),
        Command::DefragStudy(arguments) => commands::defrag_study::defrag_study(&arguments),
    };
    output::finish(match done {
        Ok(code) => code,
        Err(failure) => failure.report(),
    })
}

/// Prints what clap has to say: help and version on standard output, bad usage on standard error.
fn tell(asked: &clap::Error) -> ExitCode {
    if let Err(error) = asked.print()
        && !asked.use_stderr()
    {
        output::failed(error);
    }
    ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(commands::EXIT_USAGE))
}
