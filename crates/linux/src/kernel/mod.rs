//! The kernel: found in the cache, or built once from the distribution's source.

mod build;
mod cache;
mod config;
mod patches;
mod recipe;
mod recipes;
mod source;
mod source_folder;
mod steps;
mod target;
mod tools;
mod unpack;
mod unused;

#[cfg(test)]
mod series_tests;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::LinuxError;

pub use cache::cache_folder;
pub use recipe::Recipe;
pub use tools::find as find_program;

/// A built kernel: User-Mode Linux as a program, or the image that a PC boots ([`Recipe::for_pc`]).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Kernel {
    program: PathBuf,
    release: String,
    recipe: String,
}

/// How far a build has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildProgress {
    /// Another process builds the same; this one waits for it.
    Waiting,
    /// The source package is on its way.
    Downloading,
    /// The source is unpacked, or copied.
    Unpacking,
    /// The configuration is made.
    Configuring,
    /// Objects are compiled.
    Compiling {
        /// Objects so far.
        done: u64,
        /// About how many there will be.
        about: u64,
        /// The one that was last begun.
        object: String,
    },
    /// The objects become a program.
    Linking,
}

impl Kernel {
    /// The newest kernel in the cache that this version of Plumb's own recipe made.
    /// `PLUMB_KERNEL=FILE` overrules it.
    ///
    /// # Errors
    /// [`LinuxError::NoKernel`] where there is none.
    pub fn cached() -> Result<Self, LinuxError> {
        Self::cached_of(&Recipe::built_in())
    }

    /// The newest kernel in the cache that `recipe` made. `PLUMB_KERNEL=FILE` overrules the built-in recipe, and
    /// none that a caller has chosen.
    ///
    /// # Errors
    /// [`LinuxError::NoKernel`] where there is none; [`LinuxError::System`] where a source folder cannot be read.
    pub fn cached_of(recipe: &Recipe) -> Result<Self, LinuxError> {
        if *recipe == Recipe::built_in()
            && let Some(program) = std::env::var_os("PLUMB_KERNEL")
        {
            return Self::from_image(Path::new(&program));
        }
        cache::find(&cache::folders()?, &recipe.hash()?)?.ok_or(LinuxError::NoKernel)
    }

    /// The cached kernel of `recipe`, or a new one: minutes of compiling.
    ///
    /// `progress` hears of every step. Two builders at once do not disturb each
    /// other: the second waits. An interrupted build goes on where it stopped.
    ///
    /// # Errors
    /// What the machine lacks, with the Debian package to install; a patch that does not apply, options that the
    /// configuration dropped; or the end of the failed step's output.
    pub fn build(recipe: &Recipe, progress: &mut dyn FnMut(BuildProgress)) -> Result<Self, LinuxError> {
        match Self::cached_of(recipe) {
            Err(LinuxError::NoKernel) => build::build(&Self::cache_folder()?, recipe, progress),
            found => found,
        }
    }

    /// What `recipe` is compiled from, in a folder of the caller's: the source with its patches and configuration. Where the folder
    /// holds that of another recipe, only what differs is changed.
    ///
    /// # Errors
    /// As [`Kernel::build`], before it compiles.
    pub fn sources(
        recipe: &Recipe,
        folder: &Path,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<PathBuf, LinuxError> {
        build::sources(&Self::cache_folder()?, recipe, folder, progress)
    }

    /// A kernel that was built elsewhere, such as one that [`Kernel::export`] wrote; its recipe is a hash of the program.
    ///
    /// # Errors
    /// Where it cannot be run, or is no kernel.
    pub fn from_image(program: &Path) -> Result<Self, LinuxError> {
        // A name without a slash would be looked for on PATH.
        let program = std::path::absolute(program).map_err(LinuxError::system("cannot tell the working directory"))?;
        let output = std::process::Command::new(&program)
            .arg("--version")
            .stdin(std::process::Stdio::null())
            .output()
            .map_err(LinuxError::system(format!("cannot run the kernel {}", program.display())))?;
        let release = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || !release.starts_with(|first: char| first.is_ascii_digit()) {
            let message = format!(
                "{} is no kernel for `plumb linux`: it names no release; `plumb linux build --out FILE` writes one",
                program.display()
            );
            return Err(LinuxError::Invalid { message });
        }
        // Results are kept under the recipe: another program is another one.
        let bytes =
            std::fs::read(&program).map_err(LinuxError::system(format!("cannot read {}", program.display())))?;
        let recipe = blake3::hash(&bytes).to_hex().chars().take(12).collect();
        Ok(Self { program, release, recipe })
    }

    /// Writes the kernel to a file, to be carried to a machine that has no compiler: [`Kernel::from_image`] takes it there.
    ///
    /// # Errors
    /// Where the file cannot be written; what was there before is there then.
    pub fn export(&self, file: &Path) -> Result<(), LinuxError> {
        let failed = || LinuxError::system(format!("cannot write {}", file.display()));
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let part = tempfile::NamedTempFile::new_in(folder).map_err(failed())?;
        // With the permission to run it.
        std::fs::copy(&self.program, part.path()).map_err(failed())?;
        part.persist(file).map_err(|error| failed()(error.error))?;
        Ok(())
    }

    /// The program, or the image.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The kernel's release, such as `6.12.117`.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Release and recipe in one word, which no other kernel has.
    pub fn name(&self) -> String {
        format!("{}-{}", self.release, self.recipe)
    }

    /// The kernel with this [name](Self::name): the one that is taken where nothing is said, or one of the cache.
    ///
    /// # Errors
    /// [`LinuxError::NoKernel`] where there is none.
    pub fn of_name(name: &str) -> Result<Self, LinuxError> {
        if let Ok(usual) = Self::cached()
            && usual.name() == name
        {
            return Ok(usual);
        }
        let (_, recipe) = name.rsplit_once('-').ok_or(LinuxError::NoKernel)?;
        cache::find(&cache::folders()?, recipe)?.filter(|kernel| kernel.name() == name).ok_or(LinuxError::NoKernel)
    }

    /// Names what it was built from, beside the source: configuration and patches.
    pub fn recipe(&self) -> &str {
        &self.recipe
    }

    /// Where kernels are kept: `/var/cache/plumb/linux`, or, for those who may not write there, `~/.cache/plumb/linux`; below
    /// `$XDG_CACHE_HOME` where that is set.
    ///
    /// # Errors
    /// Where there is no such place.
    pub fn cache_folder() -> Result<PathBuf, LinuxError> {
        cache::folders()?.into_iter().next().ok_or(LinuxError::NoKernel)
    }
}
