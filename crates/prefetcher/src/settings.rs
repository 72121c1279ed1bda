//! What is prefetched and how much: modes, budget, paths, from the command line and from a profile.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use units::ByteSize;

use crate::PrefetcherError;
use crate::agent::SOCKET;
use crate::residency::Source;

/// What is done, by the names of CrossPrefetch's configurations (ASPLOS '24).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing: the program's own advice and the kernel's readahead
    AppOnly,
    /// The kernel's readahead alone: the program's advice is dropped
    OsOnly,
    /// Streams are followed; a window is no larger than one request of the kernel
    Predict,
    /// Streams are followed, with windows as large as pays; large read-only mappings are loaded
    #[default]
    #[serde(rename = "predict+opt")]
    PredictOpt,
    /// As before, and a file is loaded whole once reading it at random has cost as much as one pass over it
    Budget,
    /// Each file is loaded whole when it is opened
    #[serde(rename = "fetchall+opt")]
    FetchallOpt,
}

/// The names that people use.
const NAMES: [(Mode, &str); 6] = [
    (Mode::AppOnly, "app-only"),
    (Mode::OsOnly, "os-only"),
    (Mode::Predict, "predict"),
    (Mode::PredictOpt, "predict+opt"),
    (Mode::Budget, "budget"),
    (Mode::FetchallOpt, "fetchall+opt"),
];

impl Mode {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name)| *name)
    }

    /// Whether streams are followed.
    pub fn follows(self) -> bool {
        matches!(self, Self::Predict | Self::PredictOpt | Self::Budget)
    }

    /// Whether files are loaded when they are opened.
    pub fn loads_whole(self) -> bool {
        self == Self::FetchallOpt
    }

    /// Whether files are loaded when reading them at random has cost as much.
    pub fn passes(self) -> bool {
        self == Self::Budget
    }

    /// Whether the program's advice is kept from the kernel.
    pub fn drops_advice(self) -> bool {
        self == Self::OsOnly
    }

    /// Whether more is loaded than one request of the kernel takes.
    pub fn lifts_limits(self) -> bool {
        matches!(self, Self::PredictOpt | Self::Budget | Self::FetchallOpt)
    }

    /// Whether mappings are loaded.
    pub fn loads_maps(self) -> bool {
        matches!(self, Self::PredictOpt | Self::Budget | Self::FetchallOpt)
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(mode, _)| *mode).ok_or_else(|| format!("one of {}", Self::names().collect::<Vec<_>>().join(", ")))
    }
}

/// All of it; each key of a profile is one of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What is done.
    pub mode: Mode,
    /// What says which pages are in memory.
    pub residency: Source,
    /// Where an agent listens, if there is one.
    pub agent: PathBuf,
    /// Most memory for what was loaded and is not read yet. None: half of what is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<ByteSize>,
    /// Smaller files are left alone.
    pub min_file: ByteSize,
    /// Smaller mappings are left alone.
    pub min_map: ByteSize,
    /// Only files whose path one of these matches; empty: all.
    pub include: Vec<String>,
    /// No files whose path one of these matches.
    pub exclude: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            residency: Source::default(),
            agent: SOCKET.into(),
            budget: None,
            // A few windows: less is read before a stream is known.
            min_file: ByteSize(1 << 20),
            min_map: ByteSize(4 << 20),
            include: Vec::new(),
            exclude: Vec::new(),
        }
    }
}

impl Settings {
    /// Reads a profile.
    ///
    /// # Errors
    /// Where it cannot be read, or has a key or value that does not exist.
    pub fn read(path: &Path) -> Result<Self, PrefetcherError> {
        let text = std::fs::read_to_string(path).map_err(PrefetcherError::file("cannot read the profile", path))?;
        toml::from_str(&text)
            .map_err(|error| PrefetcherError::Settings(format!("{}: {error}", units::Printable::path(path))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_only_what_differs() {
        let settings: Settings =
            toml::from_str("mode = \"fetchall+opt\"\nbudget = \"1GiB\"\nexclude = [\"*.log\"]").unwrap();
        assert_eq!(
            (settings.mode, settings.budget, settings.min_file),
            (Mode::FetchallOpt, Some(ByteSize(1 << 30)), ByteSize(1 << 20))
        );
        assert!(toml::from_str::<Settings>("mod = \"predict\"").unwrap_err().to_string().contains("mode"));
        for name in Mode::names() {
            assert_eq!(name.parse::<Mode>().unwrap().name(), name);
            let settings: Settings = toml::from_str(&format!("mode = \"{name}\"")).unwrap();
            assert_eq!(settings.mode.name(), name);
        }
    }
}
