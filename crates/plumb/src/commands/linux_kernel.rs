//! The kernel of `plumb linux`: built with progress, and shown.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use linux::{BuildProgress, Kernel, LinuxError, Recipe};

use super::linux::failure;
use super::{Done, EXIT_FAILED};
use crate::failure::Failure;

/// Lines between two reports where there is no terminal.
const OBJECTS_A_LINE: u64 = 100;

/// The kernel, built if need be; says on standard error what it does.
pub fn build() -> Result<Kernel, Failure> {
    let mut shown = Shown::new();
    let kernel = Kernel::build(&mut |progress| shown.show(&progress)).map_err(failure)?;
    shown.bar.finish_and_clear();
    eprintln!("kernel: Linux {}, {}", kernel.release(), kernel.program().display());
    Ok(kernel)
}

/// Which kernel is there, and from what it is made.
pub fn status() -> Done {
    let folder = Kernel::cache_folder().map_err(failure)?;
    println!("cache   {}", folder.display());
    println!("recipe  {} (configuration and {} patches)", Recipe::built_in().hash(), Recipe::built_in().patches.len());
    match Kernel::cached() {
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
