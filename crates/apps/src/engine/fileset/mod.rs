//! Sets of files: how many, how large, in which folders, and which of them are there before the run.

mod shape;
mod share;

use std::path::PathBuf;

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Gamma};
use serde::Serialize;

pub use shape::Shape;
pub(crate) use share::Share;

use super::error::AppError;

/// Sizes of files: a gamma distribution.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Sizes {
    /// Its mean.
    pub mean_bytes: u64,
    /// Its shape; 0 for files that are all as large as the mean.
    pub gamma: f64,
}

/// A set of files.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Definition {
    /// The folder that it is in, within the program's.
    pub name: &'static str,
    /// How many.
    pub files: u64,
    /// How large.
    pub sizes: Sizes,
    /// In which folders.
    pub shape: Shape,
    /// How many of them are there before the run; the rest are names for new ones.
    pub prepared_percent: u8,
    /// Among how many threads the files are divided.
    pub shares: usize,
    /// How many files each thread needs for itself: 2 where files are made and deleted, 0 where threads may share them.
    pub least_a_share: u64,
    /// How much of the contents a compressor can do without.
    pub compressible_percent: u8,
}

/// One file of a set.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct FileEntry {
    folder: u32,
    name: u64,
    pub(crate) bytes: u64,
    pub(crate) prepared: bool,
}

/// A set with all its names.
#[derive(Debug)]
pub struct FileSet {
    pub(crate) definition: Definition,
    root: PathBuf,
    /// Relative to the set's folder, outer ones first; the first is the set's own.
    folders: Vec<String>,
    files: Vec<FileEntry>,
}

impl FileSet {
    /// Draws folders, names and sizes; touches no file.
    ///
    /// # Errors
    /// [`AppError::Options`] for a set with too few files for its threads, or too many folders.
    pub(super) fn new(definition: &Definition, root: PathBuf, seed: u64) -> Result<Self, AppError> {
        let Definition { name, files, shares, least_a_share, .. } = *definition;
        let least = (least_a_share * shares as u64).max(1);
        if files < least {
            return Err(AppError::Options(format!(
                "{files} files of {name} for {shares} threads: each needs {least_a_share} of its own, so ask for at least \
                 {least} files"
            )));
        }
        let mut random = sim::rng::stream(seed, &format!("{name}: folders"));
        let shape::Placed { folders, places } = definition.shape.place(files, shares, &mut random)?;
        let mut random = sim::rng::stream(seed, &format!("{name}: sizes"));
        let Sizes { mean_bytes, gamma } = definition.sizes;
        let distribution = match gamma {
            0.0 => None,
            gamma => Some(Gamma::new(gamma, mean_bytes as f64 / gamma).map_err(|error| {
                AppError::Options(format!("sizes with a mean of {mean_bytes} bytes and a gamma of {gamma}: {error}"))
            })?),
        };
        let entry = |(folder, name)| {
            let bytes = distribution.map_or(mean_bytes, |distribution| distribution.sample(&mut random) as u64);
            FileEntry { folder, name, bytes, prepared: false }
        };
        let mut set =
            Self { definition: definition.clone(), root, folders, files: places.into_iter().map(entry).collect() };
        set.choose_prepared(seed);
        Ok(set)
    }

    /// Draws which files are there before the run: of each share the same part, and where that is a part, at least one that is
    /// there and one that is not.
    fn choose_prepared(&mut self, seed: u64) {
        let mut random = sim::rng::stream(seed, &format!("{}: prepared", self.definition.name));
        let percent = usize::from(self.definition.prepared_percent.min(100));
        for share in 0..self.definition.shares.min(self.files.len()) {
            let mut own: Vec<usize> = (share..self.files.len()).step_by(self.definition.shares).collect();
            let count = match percent {
                0 => 0,
                100 => own.len(),
                _ => ((own.len() * percent + 50) / 100).clamp(1, (own.len() - 1).max(1)),
            };
            own.shuffle(&mut random);
            for at in own.into_iter().take(count) {
                if let Some(file) = self.files.get_mut(at) {
                    file.prepared = true;
                }
            }
        }
    }

    /// All folders, outer ones first.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|folder| self.root.join(folder))
    }

    /// How many files there are, with those that are only names.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn file(&self, at: usize) -> Option<&FileEntry> {
        self.files.get(at)
    }

    /// Bytes of the files that are there before the run.
    pub(super) fn prepared_bytes(&self) -> u64 {
        self.files.iter().filter(|file| file.prepared).fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// The path of a file; the set's folder where there is no such file.
    pub(crate) fn path(&self, at: usize) -> PathBuf {
        let Some(file) = self.files.get(at) else { return self.root.clone() };
        let folder = self.folders.get(file.folder as usize).map_or("", String::as_str);
        let mut path = self.root.join(folder);
        path.push(self.definition.shape.file_name(file.name));
        path
    }

    /// The files that are there before the run, in an order drawn at random, so that neighbours in a folder are none on the device.
    pub(super) fn preparation_order(&self, seed: u64) -> Vec<usize> {
        let mut order: Vec<usize> =
            (0..self.files.len()).filter(|at| self.files.get(*at).is_some_and(|file| file.prepared)).collect();
        order.shuffle(&mut sim::rng::stream(seed, &format!("{}: order", self.definition.name)));
        order
    }

    /// The files of a thread, which is one of `threads` that use the set.
    pub(crate) fn share(&self, thread: usize, threads: usize) -> Share {
        let start = if self.files.is_empty() { 0 } else { thread % self.files.len() };
        let files: Vec<usize> = if thread < self.files.len() {
            (thread..self.files.len()).step_by(threads.max(1)).collect()
        } else {
            vec![start]
        };
        Share::new(files.into_iter().filter_map(|at| Some((at, self.files.get(at)?.prepared))))
    }
}

/// Bytes to write, of which a compressor can do without `compressible_percent`: in each stretch of 256 so many are the same.
pub(super) fn contents(bytes: usize, compressible_percent: u8, random: &mut sim::rng::Rng) -> Vec<u8> {
    const STRETCH: usize = 256;
    let same = STRETCH * usize::from(compressible_percent.min(100)) / 100;
    let mut contents = vec![0_u8; bytes];
    random.fill(contents.as_mut_slice());
    for stretch in contents.chunks_mut(STRETCH) {
        let same = same.min(stretch.len());
        if let Some(same) = stretch.get_mut(..same) {
            same.fill(b'p');
        }
    }
    contents
}

#[cfg(test)]
mod tests;
