//! What Filebench's personalities of files have in common: a set of files, and threads that take the same steps.

use std::marker::PhantomData;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use serde::Serialize;
use units::ByteSize;

use super::{Program, arguments};
use crate::engine::fileset::{Definition, Shape, Sizes};
use crate::engine::{AppError, Flow, ProgramPlan, Role, Step};

/// The shape of Filebench's distributions of the width and depth of folders, where a personality says nothing.
pub(super) const FOLDER_GAMMA: f64 = 1.5;

/// A personality: its steps, and its own defaults.
pub(super) trait Personality: 'static {
    const NAME: &'static str;
    const ABOUT: &'static str;
    const EXAMPLES: &'static str;
    const DEFAULTS: Defaults;

    /// The sets of files; the steps name them by their places.
    fn sets(options: &Options) -> Vec<Definition>;
    /// What each thread does, over and over.
    fn steps(options: &Options) -> Vec<Step>;
    /// Whether the files are others after a run.
    const CHANGES_FILES: bool;
}

/// As on a command line.
pub(super) struct Defaults {
    pub(super) files: &'static str,
    pub(super) file_size: &'static str,
    pub(super) width: &'static str,
    pub(super) threads: &'static str,
    pub(super) append_size: &'static str,
}

#[derive(Args, Serialize)]
pub(super) struct Options {
    /// Files of the set
    #[arg(long, value_name = "N", value_parser = arguments::files)]
    pub(super) files: u64,
    /// Mean size of a file
    #[arg(long, value_name = "SIZE")]
    pub(super) file_size: ByteSize,
    /// Shape of the gamma distribution of sizes; 0: all alike
    #[arg(long, value_name = "SHAPE", default_value = "1.5", value_parser = arguments::gamma)]
    pub(super) size_gamma: f64,
    /// Mean entries of a folder, of a gamma distribution; a million puts all files into one
    #[arg(long, value_name = "N")]
    pub(super) width: u64,
    /// Threads
    #[arg(long, value_name = "N", value_parser = arguments::threads)]
    pub(super) threads: usize,
    /// Bytes of one read or write of a whole file
    #[arg(long, value_name = "SIZE", default_value = "1m", value_parser = arguments::io_size)]
    pub(super) io_size: ByteSize,
    /// Most bytes of an append: each has a random size up to it
    #[arg(long, value_name = "SIZE", value_parser = arguments::io_size)]
    pub(super) append_size: ByteSize,
}

impl Options {
    /// A set as the options say.
    pub(super) fn set(&self, name: &'static str, prepared_percent: u8, least_a_share: u64) -> Definition {
        Definition {
            name,
            files: self.files,
            sizes: Sizes { mean_bytes: self.file_size.0, gamma: self.size_gamma },
            shape: Shape::Tree { width: self.width, gamma: FOLDER_GAMMA },
            prepared_percent,
            shares: self.threads,
            least_a_share,
            compressible_percent: 0,
        }
    }
}

/// The program that a personality makes.
#[derive(Serialize)]
pub(super) struct Filebench<P> {
    #[serde(flatten)]
    options: Options,
    #[serde(skip)]
    personality: PhantomData<P>,
}

impl<P> FromArgMatches for Filebench<P> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { options: Options::from_arg_matches(matches)?, personality: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.options.update_from_arg_matches(matches)
    }
}

impl<P: Personality> Args for Filebench<P> {
    fn augment_args(command: Command) -> Command {
        let by_default = |value: &'static str| move |argument: Arg| argument.required(false).default_value(value);
        let Defaults { files, file_size, width, threads, append_size } = P::DEFAULTS;
        Options::augment_args(command)
            .mut_arg("files", by_default(files))
            .mut_arg("file_size", by_default(file_size))
            .mut_arg("width", by_default(width))
            .mut_arg("threads", by_default(threads))
            .mut_arg("append_size", by_default(append_size))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Options::augment_args_for_update(command)
    }
}

impl<P: Personality> Program for Filebench<P> {
    const NAME: &'static str = P::NAME;
    const ABOUT: &'static str = P::ABOUT;
    const EXAMPLES: &'static str = P::EXAMPLES;
    const SECONDS: Option<u64> = Some(60);

    fn plan(&self) -> Result<ProgramPlan, AppError> {
        let steps = P::steps(&self.options);
        let work = move |_| -> Box<dyn crate::engine::Work> { Box::new(Flow::new(&steps)) };
        Ok(ProgramPlan {
            sets: P::sets(&self.options),
            roles: vec![Role::leading(P::NAME, self.options.threads, work)],
            semaphores: Vec::new(),
            read_bytes: self.options.io_size.0,
            write_bytes: self.options.io_size.0.max(self.options.append_size.0),
            changes_files: P::CHANGES_FILES,
        })
    }
}
