//! The `plumb` command: the storage stack, from system call to flash cell.

#![cfg_attr(test, allow(clippy::unwrap_used))]

// First: its `print!`, `println!` and `eprintln!` are those of all modules below.
#[macro_use]
mod output;

mod commands;
mod deferred;
#[cfg(test)]
mod documented;
mod failure;
mod terminal;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use deferred::Deferred;

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
    Run(Deferred<commands::run::RunArguments>),
    /// Show what there is: devices, experiments, options, formats
    List(Deferred<commands::list::ListArguments>),
    /// Print a device profile as TOML, every key of it
    Show(Deferred<commands::show::ShowArguments>),
    /// Write the report of a results folder again
    Report(Deferred<commands::report::ReportArguments>),
    /// Put the shards of a sweep together
    Merge(Deferred<commands::merge::MergeArguments>),
    /// Hold device profiles against their public figures
    Validate(Deferred<commands::validate::ValidateArguments>),
    /// Fit a device profile to a drive's own measurements
    Calibrate(Deferred<commands::calibrate::CalibrateArguments>),
    /// Ask questions of zoned devices
    Zns(Deferred<commands::zns::ZnsArguments>),
    /// Serve a modelled device on the wall clock
    Serve(Deferred<commands::serve::ServeArguments>),
    /// Watch a served device, cut its power, have it fail
    Control(Deferred<commands::control::ControlArguments>),
    /// Defragment only what the I/O touches, and lose no byte
    Defrag(Deferred<commands::defrag::DefragArguments>),
    /// Run a command under a real Linux kernel on a modelled device, in virtual time
    Linux(Deferred<commands::linux::LinuxArguments>),
    /// Cut the power under any program, at every moment, and see what a real kernel recovers
    Crash(Deferred<commands::crash::CrashArguments>),
    /// Keep keys and values in a Bε-tree store, on a file or a block device
    Kv(Deferred<commands::kv::KvArguments>),
    /// Make, mount, check and look into a file system on a file or a block device
    Fs(Deferred<commands::fs::FsArguments>),
    /// Run a command whose reads are foreseen and loaded ahead of it
    Prefetch(Deferred<commands::prefetch::PrefetchArguments>),
    /// Run a small program that studies of storage use, on real files
    App(Deferred<commands::app::AppArguments>),
    /// Write the manual pages
    Man(Deferred<commands::man::ManArguments>),
    /// Print what a shell needs to complete the command line
    Completion(Deferred<commands::completion::CompletionArguments>),
    /// The first process inside a guest of `plumb linux`
    #[command(name = "linux-guest", hide = true)]
    LinuxGuest,
    /// A task inside a guest of `plumb crash`
    #[command(hide = true)]
    LinuxTask(Deferred<commands::crash::TaskArguments>),
    /// Look after the connection of `plumb serve --loop` or `plumb fs mount`
    #[command(hide = true)]
    FuseWatchdog(Deferred<commands::fuse_watchdog::FuseWatchdogArguments>),
    /// A cell of the fragmentation study, in a folder of its own file system
    #[command(hide = true)]
    DefragStudy(Deferred<commands::defrag_study::DefragStudyArguments>),
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let command = match commands::prefetch::run_alone(&words) {
        Some(arguments) => Command::Prefetch(Deferred(arguments)),
        None => match Arguments::try_parse_from(commands::fs::mount_helper::command_line(words.into_iter())) {
            Ok(arguments) => arguments.command,
            Err(asked) => return output::finish(tell(&asked)),
        },
    };
    let done = match command {
        Command::Run(Deferred(arguments)) => commands::run::run(&arguments),
        Command::List(Deferred(arguments)) => commands::list::list(&arguments),
        Command::Show(Deferred(arguments)) => commands::show::show(&arguments),
        Command::Report(Deferred(arguments)) => commands::report::report(&arguments),
        Command::Merge(Deferred(arguments)) => commands::merge::merge(&arguments),
        Command::Validate(Deferred(arguments)) => commands::validate::validate(&arguments),
        Command::Calibrate(Deferred(arguments)) => commands::calibrate::calibrate(&arguments),
        Command::Zns(Deferred(arguments)) => commands::zns::zns(&arguments),
        Command::Serve(Deferred(arguments)) => commands::serve::serve(arguments),
        Command::Control(Deferred(arguments)) => commands::control::control(&arguments),
        Command::Defrag(Deferred(arguments)) => commands::defrag::defrag(&arguments),
        Command::Linux(Deferred(arguments)) => commands::linux::linux(arguments),
        Command::Crash(Deferred(arguments)) => commands::crash::crash(arguments),
        Command::Kv(Deferred(arguments)) => commands::kv::kv(&arguments),
        Command::Fs(Deferred(arguments)) => commands::fs::fs(&arguments),
        Command::Prefetch(Deferred(arguments)) => commands::prefetch::prefetch(arguments),
        Command::App(Deferred(arguments)) => commands::app::app(&arguments),
        Command::LinuxTask(Deferred(arguments)) => commands::crash::task(&arguments),
        Command::Man(Deferred(arguments)) => commands::man::man(&arguments, Arguments::command()),
        Command::Completion(Deferred(arguments)) => commands::completion::completion(&arguments, Arguments::command()),
        Command::LinuxGuest => commands::linux::guest(),
        Command::FuseWatchdog(Deferred(arguments)) => commands::fuse_watchdog::fuse_watchdog(&arguments),
        Command::DefragStudy(Deferred(arguments)) => commands::defrag_study::defrag_study(&arguments),
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
