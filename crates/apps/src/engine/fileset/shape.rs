//! The folders of a set.

use rand::RngExt;
use rand_distr::{Distribution, Gamma};
use serde::Serialize;
use sim::rng::Rng;

use crate::engine::error::AppError;

/// More folders than this are a mistake in the options.
const MOST_FOLDERS: usize = 20_000_000;
/// No path gets deeper, whatever is drawn.
const MOST_LEVELS: u32 = 48;

/// How files are spread over folders.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub enum Shape {
    /// Filebench's trees: each folder draws its width and the depth at which it holds files from gamma distributions; the mean depth
    /// is what so many files need at the mean width.
    Tree {
        /// Mean entries of a folder.
        width: u64,
        /// The shape of both distributions; 0 for the means themselves.
        gamma: f64,
    },
    /// As few levels as `children` entries a folder allow, filled evenly. Names are random, and each thread has leaves of its own, in
    /// an order drawn at random, and goes round them.
    Balanced {
        /// Most entries of a folder.
        children: u64,
    },
    /// A folder for each share.
    ByShare,
}

/// Folders, and for each file its folder and number.
pub(super) struct Placed {
    pub(super) folders: Vec<String>,
    pub(super) places: Vec<(u32, u64)>,
}

impl Shape {
    /// The name of a file in its folder.
    pub(super) fn file_name(self, number: u64) -> String {
        match self {
            Self::Balanced { .. } => format!("file.{number:016x}"),
            Self::Tree { .. } | Self::ByShare => format!("{number:08}"),
        }
    }

    /// Places `files` in folders; every `shares`-th is of one thread.
    pub(super) fn place(self, files: u64, shares: usize, random: &mut Rng) -> Result<Placed, AppError> {
        match self {
            Self::Tree { width, gamma } => Tree::new(files, width, gamma, random)?.place(),
            Self::Balanced { children } => balanced(files, children, shares, random),
            Self::ByShare => Ok(by_share(files, shares)),
        }
    }
}

/// A tree while it grows.
struct Tree<'a> {
    files: u64,
    levels: Draw,
    width: Draw,
    random: &'a mut Rng,
    placed: Placed,
}

/// A gamma distribution, or its mean.
struct Draw {
    mean: f64,
    distribution: Option<Gamma<f64>>,
}

impl Draw {
    fn new(mean: f64, gamma: f64) -> Result<Self, AppError> {
        let distribution = match gamma {
            0.0 => None,
            gamma => Some(Gamma::new(gamma, mean / gamma).map_err(|error| {
                AppError::Options(format!("folders with a mean width and a gamma of {gamma}: {error}"))
            })?),
        };
        Ok(Self { mean, distribution })
    }

    fn draw(&self, random: &mut Rng) -> f64 {
        self.distribution.map_or(self.mean, |distribution| distribution.sample(random))
    }
}

impl<'a> Tree<'a> {
    fn new(files: u64, width: u64, gamma: f64, random: &'a mut Rng) -> Result<Self, AppError> {
        if width < 2 {
            return Err(AppError::Options(format!("folders with {width} entry each hold no tree; ask for 2 or more")));
        }
        // One file has a depth of nothing; any folder will do.
        let levels = ((files as f64).ln() / (width as f64).ln()).max(f64::MIN_POSITIVE);
        Ok(Self {
            files,
            levels: Draw::new(levels, gamma)?,
            width: Draw::new(width as f64, gamma)?,
            random,
            placed: Placed { folders: vec![String::new()], places: Vec::new() },
        })
    }

    fn is_full(&self) -> bool {
        self.placed.places.len() as u64 >= self.files
    }

    /// The set's own folder gets as many folders as it takes.
    fn place(mut self) -> Result<Placed, AppError> {
        let mut number = 0;
        while !self.is_full() {
            number += 1;
            self.grow(&format!("{number:08}"), 2)?;
        }
        Ok(self.placed)
    }

    /// A folder at a level (the set's own is at 1), with all that is in it.
    fn grow(&mut self, path: &str, level: u32) -> Result<(), AppError> {
        if self.placed.folders.len() >= MOST_FOLDERS {
            return Err(AppError::Options(format!("these files would lie in more than {MOST_FOLDERS} folders")));
        }
        let folder = self.placed.folders.len() as u32;
        self.placed.folders.push(path.to_owned());
        let leaf_level = (self.levels.draw(self.random) as u32).clamp(1, MOST_LEVELS);
        let width = self.width.draw(self.random).ceil().max(1.0) as u64;
        for number in 1..=width {
            if self.is_full() {
                break;
            }
            if level >= leaf_level {
                self.placed.places.push((folder, number));
            } else {
                self.grow(&format!("{path}/{number:08}"), level + 1)?;
            }
        }
        Ok(())
    }
}

fn balanced(files: u64, children: u64, shares: usize, random: &mut Rng) -> Result<Placed, AppError> {
    use rand::seq::SliceRandom;

    if children < 2 {
        return Err(AppError::Options(format!("folders with {children} entry each hold no tree; ask for 2 or more")));
    }
    let mut placed = Placed { folders: vec![String::new()], places: Vec::new() };
    let mut leaves: Vec<u32> = Vec::new();
    // Folders that have to hold so many files; theirs are behind them in the list.
    let mut open = vec![(0_u32, files)];
    while let Some((folder, files)) = open.pop() {
        if files <= children {
            leaves.push(folder);
            continue;
        }
        let inner = children.min(files.div_ceil(children));
        let path = placed.folders.get(folder as usize).cloned().unwrap_or_default();
        for number in 0..inner {
            if placed.folders.len() >= MOST_FOLDERS {
                return Err(AppError::Options(format!("these files would lie in more than {MOST_FOLDERS} folders")));
            }
            let own = files / inner + u64::from(number < files % inner);
            open.push((placed.folders.len() as u32, own));
            placed.folders.push(if path.is_empty() { format!("{number:08}") } else { format!("{path}/{number:08}") });
        }
    }
    leaves.sort_unstable();
    leaves.shuffle(random);
    let leaves_of = |share: usize| -> Vec<u32> {
        if leaves.len() < shares {
            leaves.get(share % leaves.len().max(1)).copied().into_iter().collect()
        } else {
            leaves.iter().skip(share).step_by(shares).copied().collect()
        }
    };
    let leaves_of: Vec<Vec<u32>> = (0..shares).map(leaves_of).collect();
    for file in 0..files as usize {
        let own = leaves_of.get(file % shares.max(1)).map_or(&[][..], Vec::as_slice);
        let folder = own.get(file / shares.max(1) % own.len().max(1)).copied().unwrap_or_default();
        placed.places.push((folder, random.random()));
    }
    Ok(placed)
}

fn by_share(files: u64, shares: usize) -> Placed {
    let shares = shares.clamp(1, usize::try_from(files).unwrap_or(usize::MAX).max(1));
    let mut placed = Placed { folders: vec![String::new()], places: Vec::new() };
    placed.folders.extend((1..=shares).map(|share| format!("{share:04}")));
    placed.places.extend((0..files).map(|file| ((file % shares as u64) as u32 + 1, file / shares as u64 + 1)));
    placed
}
