//! The kernel of `plumb linux`: built with progress, and shown.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use linux::{BuildProgress, Kernel, LinuxError, Recipe};

use super::linux::failure;
use super::{Done, EXIT_FAILED};
use crate::failure::Failure;

/// Lines between two reports where there is no terminal.
const OBJECTS_A_LINE: u64 = 100;

/// Which kernel.
#[derive(Args)]
pub struct KernelFlags {
    /// Recipe of the kernel: configuration and patches that come with Plumb [default: time-travel, or what the other
    /// flags need]
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Apply this patch too, after Plumb's; can be given again
    #[arg(long, value_name = "FILE")]
    kernel_patch: Vec<PathBuf>,
    /// Set the options of this fragment of a configuration too; can be given again
    #[arg(long, value_name = "FILE")]
    kernel_config: Vec<PathBuf>,
    /// Build from the source in this folder [default: the distribution's]
    #[arg(long, value_name = "DIR")]
    kernel_source: Option<PathBuf>,
}

impl KernelFlags {
    /// What the flags ask for.
    fn recipe(&self) -> Result<Recipe, Failure> {
        self.recipe_or(None)
    }

    /// The same, on the recipe of that name where they name none.
    fn recipe_or(&self, needed: Option<&str>) -> Result<Recipe, Failure> {
        let mut recipe = Recipe::named(self.name(needed)).map_err(failure)?;
        self.kernel_patch.iter().try_for_each(|file| recipe.patch(file)).map_err(failure)?;
        self.kernel_config.iter().try_for_each(|file| recipe.config(file)).map_err(failure)?;
        self.kernel_source.iter().try_for_each(|folder| recipe.source(folder)).map_err(failure)?;
        Ok(recipe)
    }

    fn name<'a>(&'a self, needed: Option<&'a str>) -> &'a str {
        self.kernel.as_deref().or(needed).unwrap_or(DEFAULT)
    }
}

/// Which kernel a run takes.
#[derive(Args)]
pub struct KernelChoice {
    #[command(flatten)]
    recipe: KernelFlags,
    /// Take the kernel in this file, which `plumb linux build --out FILE` wrote: nothing is built
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "kernel_patch", "kernel_config", "kernel_source"])]
    kernel_image: Option<PathBuf>,
}

impl KernelChoice {
    /// The kernel, built if need be, on the recipe of that name where the flags name none.
    pub fn find(&self, needed: Option<&str>) -> Result<Kernel, Failure> {
        match &self.kernel_image {
            Some(image) => Kernel::from_image(image).map_err(failure),
            None => find(&self.recipe.recipe_or(needed)?),
        }
    }
}

/// What to build.
#[derive(Args)]
pub struct BuildFlags {
    #[command(flatten)]
    recipe: KernelFlags,
    /// Write the kernel to this file too, for machines without a compiler: --kernel-image takes it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl BuildFlags {
    /// Builds the kernel, and writes it where it is wanted.
    pub fn build(&self) -> Done {
        let kernel = build(&self.recipe.recipe()?)?;
        if let Some(file) = &self.out {
            kernel.export(file).map_err(failure)?;
            eprintln!("kernel: written to {}", file.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The recipe where nothing is said.
const DEFAULT: &str = "time-travel";

fn find(recipe: &Recipe) -> Result<Kernel, Failure> {
    match Kernel::cached_of(recipe) {
        Err(LinuxError::NoKernel) => build(recipe),
        found => found.map_err(failure),
    }
}

/// The kernel, built if need be; says on standard error what it does.
fn build(recipe: &Recipe) -> Result<Kernel, Failure> {
    let mut shown = Shown::new();
    let kernel = Kernel::build(recipe, &mut |progress| shown.show(&progress)).map_err(failure)?;
    shown.bar.finish_and_clear();
    eprintln!("kernel: Linux {}, {}", kernel.release(), kernel.program().display());
    Ok(kernel)
}

/// Which kernel is there, and from what it is made.
pub fn status(flags: &KernelFlags) -> Done {
    let recipe = flags.recipe()?;
    let folder = Kernel::cache_folder().map_err(failure)?;
    let hash = recipe.hash().map_err(failure)?;
    println!("cache   {}", folder.display());
    println!("recipe  {hash} ({}: configuration and {} patches)", flags.name(None), recipe.patch_count());
    println!("known   {}", Recipe::names().collect::<Vec<_>>().join(", "));
    match Kernel::cached_of(&recipe) {
        Ok(kernel) => {
            println!("kernel  Linux {}, {}", kernel.release(), kernel.program().display());
            Ok(ExitCode::SUCCESS)
        }
        Err(LinuxError::NoKernel) => {
            println!("kernel  none yet: `plumb linux build` makes it");
            Ok(ExitCode::from(EXIT_FAILED))
        }
        Err(error) => Err(failure(error)),
    }
}

/// A bar on a terminal, or now and then a line.
struct Shown {
    bar: ProgressBar,
    terminal: bool,
    /// Steps that had their line.
    said: BTreeSet<String>,
}

impl Shown {
    fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(1) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:32} {percent:>3}%  {wide_msg}  elapsed {elapsed}, left {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_secs(1));
        Self { bar, terminal, said: BTreeSet::new() }
    }

    fn show(&mut self, progress: &BuildProgress) {
        let step = match progress {
            BuildProgress::Waiting => "waiting for another build of the same kernel".to_owned(),
            BuildProgress::Downloading => "fetching the kernel's source package".to_owned(),
            BuildProgress::Unpacking => "unpacking the kernel's source".to_owned(),
            BuildProgress::Configuring => "configuring".to_owned(),
            BuildProgress::Compiling { done, about, object } => {
                self.bar.set_length(*about);
                self.bar.set_position(*done);
                self.bar.set_message(object.clone());
                // One line for each hundred.
                format!("compiling, object {}", done.next_multiple_of(OBJECTS_A_LINE) - OBJECTS_A_LINE)
            }
            BuildProgress::Linking => "linking".to_owned(),
        };
        if self.terminal {
            if !matches!(progress, BuildProgress::Compiling { .. }) {
                self.bar.set_message(step);
            }
            return;
        }
        let line = match progress {
            BuildProgress::Compiling { about, .. } => format!("{step} of about {about}"),
            _ => step.clone(),
        };
        // Folders are linked all the time; the line comes once.
        if self.said.insert(step) {
            eprintln!("kernel: {line}");
        }
    }
}
