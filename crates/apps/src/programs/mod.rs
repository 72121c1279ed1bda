//! The measured programs. A new one is a file with its options and its [`ProgramPlan`], and a line in [`PROGRAMS`].

mod arguments;
mod compress;
mod filebench;
mod fileserver;
mod multi_reader;
mod oltp;
mod pulls;
mod tokubench;
mod varmail;
mod webproxy;
mod webserver;

use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::Serialize;
use serde_json::Value;

use self::filebench::Filebench;
use crate::engine::{AppError, Limits, ProgramPlan};

/// What each program of the table has.
trait Program: Args + FromArgMatches + Serialize + 'static {
    /// As on the command line.
    const NAME: &'static str;
    /// In one line, with what defines it.
    const ABOUT: &'static str;
    /// Shown below its options.
    const EXAMPLES: &'static str;
    /// How long it runs where nothing is said; `None` where its work comes to an end.
    const SECONDS: Option<u64>;

    /// What it does with these options.
    fn plan(&self) -> Result<ProgramPlan, AppError>;
}

/// A program of the table.
pub struct Entry {
    /// As on the command line.
    pub name: &'static str,
    command: fn() -> Command,
    read: fn(&ArgMatches) -> Result<Chosen, clap::Error>,
}

/// A program with its options.
pub struct Chosen {
    /// As on the command line.
    pub name: &'static str,
    /// As given, or as they are by default.
    pub options: Value,
    /// What it does.
    pub plan: Result<ProgramPlan, AppError>,
    seconds: Option<u64>,
}

/// All of them.
pub const PROGRAMS: [Entry; 9] = [
    entry::<Filebench<varmail::Varmail>>(),
    entry::<Filebench<fileserver::Fileserver>>(),
    entry::<Filebench<webserver::Webserver>>(),
    entry::<Filebench<webproxy::Webproxy>>(),
    entry::<oltp::Oltp>(),
    entry::<tokubench::Tokubench>(),
    entry::<pulls::Pulls>(),
    entry::<multi_reader::MultiReader>(),
    entry::<compress::Compress>(),
];

const fn entry<P: Program>() -> Entry {
    Entry {
        name: P::NAME,
        command: || P::augment_args(Command::new(P::NAME).about(P::ABOUT).after_help(P::EXAMPLES)),
        read: |matches| {
            let program = P::from_arg_matches(matches)?;
            let options = serde_json::to_value(&program).unwrap_or_default();
            Ok(Chosen { name: P::NAME, options, plan: program.plan(), seconds: P::SECONDS })
        },
    }
}

impl Entry {
    /// Its options, for a command line.
    pub fn command(&self) -> Command {
        (self.command)()
    }

    /// The program with the options that a command line gave.
    ///
    /// # Errors
    /// Where clap finds them wrong.
    pub fn read(&self, matches: &ArgMatches) -> Result<Chosen, clap::Error> {
        (self.read)(matches)
    }

    /// The program with options as words, without its name.
    ///
    /// # Errors
    /// Where clap finds them wrong.
    pub fn with(&self, options: &[&str]) -> Result<Chosen, clap::Error> {
        self.read(&self.command().try_get_matches_from(std::iter::once(&self.name).chain(options))?)
    }
}

impl Chosen {
    /// What ends its run: as asked for, and a time of its own where nothing is asked for and it would not end.
    pub fn limits(&self, operations: Option<u64>, duration: Option<Duration>) -> Limits {
        let own = self.seconds.filter(|_| operations.is_none()).map(Duration::from_secs);
        Limits { operations, duration: duration.or(own) }
    }
}

/// The program of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    const ALL: &[Entry] = &PROGRAMS;
    ALL.iter().find(|entry| entry.name == name)
}
