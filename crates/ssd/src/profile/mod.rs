//! Device profiles: a device described in one TOML file.
//!
//! A profile names its `kind` (`ssd`, `zoned`, `disk` or `card`), gives that kind's
//! parameters, the public source of each in `[sources]`, and in `[[expect]]`
//! the published figures that must come out when the device is measured. The
//! parameters are physical; the figures are never inputs.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use crate::card::{CardConfig, CardError};
use crate::config::{ConfigError, Initial, SsdConfig};
use crate::controller::Start;
use crate::disk::{DiskConfig, DiskError};
use crate::zoned::ZonedError;
use crate::{Card, Contents, Device, Disk, MediaError, Ssd, Store, Zoned, ZonedConfig};

mod builtin;
mod document;
mod expectation;
mod faults;
mod measure;
mod print;

pub use document::{Keys, SourceLine};
pub use expectation::{Checked, Expectation, Statistic, Unit, check};
pub use measure::{Driver, MeasureError, Op, Pattern, Phase, Sample};

use document::{Document, nearest};
use faults::Fault;

/// A device profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What a reader should know of it.
    pub description: String,
    /// The device's parameters.
    pub config: DeviceConfig,
    /// The public source of each parameter, by dotted key; a table's key covers
    /// everything in it.
    pub sources: BTreeMap<String, String>,
    /// Published figures.
    pub expectations: Vec<Expectation>,
    /// Dotted keys of the parameters given.
    parameters: Vec<String>,
    start: SharedStart,
}

/// What the first device of a profile began with, for those that are built after it: a sweep of thousands of small points builds
/// thousands. Copies of the profile share it.
#[derive(Clone, Default)]
struct SharedStart(Arc<OnceLock<(SsdConfig, Start)>>);

impl SharedStart {
    /// A device, begun as others were where they differ in nothing but their seed.
    fn build(&self, config: &SsdConfig) -> Result<Ssd, ConfigError> {
        let under = |seed| SsdConfig { initial: Initial { seed, ..config.initial.clone() }, ..config.clone() };
        if let Some((known, start)) = self.0.get() {
            return if under(known.initial.seed) == *known { Ssd::from_start(config, start) } else { Ssd::new(config) };
        }
        let start = Start::of(config)?;
        let ssd = Ssd::from_start(config, &start);
        let _ = self.0.set((config.clone(), start));
        ssd
    }
}

/// What was built of a profile says nothing of what it is.
impl PartialEq for SharedStart {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for SharedStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedStart")
    }
}

/// The parameters of one kind of device.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceConfig {
    /// A flash SSD.
    Ssd(Box<SsdConfig>),
    /// A zoned SSD.
    Zoned(Box<ZonedConfig>),
    /// A rotating disk.
    Disk(Box<DiskConfig>),
    /// A flash card.
    Card(Box<CardConfig>),
}

/// What a profile leaves to each run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuildOptions {
    /// Where the bytes live.
    pub contents: Contents,
    /// Whether power cuts will be asked for though no contents are kept.
    pub power_cuts: bool,
    /// Whether an SSD has nothing after a power cut but what its flash holds ([`Ssd::recover_from_flash`]): for tests.
    pub recover_from_flash: bool,
    /// Key of the layout of initially overwritten data, or of a zoned device's
    /// service times; absent: the profile's.
    pub seed: Option<u64>,
    /// The state at the start, in place of the profile's; only an SSD has one.
    pub initial: Option<Initial>,
}

/// Why there is no profile, or no device.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read the device profile {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// No built-in profile has this name.
    #[error("no device profile is called `{name}`; {}known: {known}", hint(nearest))]
    Unknown {
        /// The name asked for.
        name: String,
        /// A known one like it.
        nearest: Option<String>,
        /// All of them.
        known: String,
    },
    /// The text describes no device.
    #[error("{place}: {problem}")]
    Invalid {
        /// Where.
        place: SourceLine,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// The text has several faults.
    #[error("{file}: {} faults\n{}", faults.len(), listed(faults))]
    Several {
        /// The file.
        file: String,
        /// Where, and what is wrong.
        faults: Vec<(SourceLine, String)>,
    },
    /// A file that is no profile for its size alone.
    #[error("{} is longer than {} bytes; that is no device profile", path.display(), Profile::TEXT_MAX)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// An SSD that the run's options make impossible.
    #[error(transparent)]
    Ssd(#[from] ConfigError),
    /// A zoned SSD that does not pass its check.
    #[error(transparent)]
    Zoned(#[from] ZonedError),
    /// A disk that does not pass its check.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A card that does not pass its check.
    #[error(transparent)]
    Card(#[from] CardError),
    /// The image file cannot serve.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// An option that this kind of device does not have.
    #[error("the device `{profile}` has no initial state to set; only an SSD has")]
    NoState {
        /// The profile.
        profile: String,
    },
    /// A measurement failed.
    #[error("`{profile}`, \"{figure}\": {source}")]
    Measure {
        /// The profile.
        profile: String,
        /// The figure.
        figure: String,
        /// Why.
        source: MeasureError,
    },
}

fn listed(faults: &[(SourceLine, String)]) -> String {
    faults.iter().map(|(place, problem)| format!("  {place}: {problem}")).collect::<Vec<_>>().join("\n")
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("did you mean `{name}`? ")).unwrap_or_default()
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Ssd,
    Zoned,
    Disk,
    Card,
}

/// Names of the built-in profiles.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    builtin::PROFILES.iter().map(|(name, _)| *name)
}

/// Text of a built-in profile, to copy and to override.
pub fn builtin_text(name: &str) -> Result<&'static str, ProfileError> {
    builtin::PROFILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        ProfileError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, builtin_names()).map(str::to_owned),
            known: builtin_names().collect::<Vec<_>>().join(", "),
        }
    })
}

impl Profile {
    /// The built-in profile called `name`.
    pub fn builtin(name: &str) -> Result<Self, ProfileError> {
        Self::from_toml(&format!("devices/{name}.toml"), builtin_text(name)?)
    }

    /// Bytes of the longest profile.
    pub const TEXT_MAX: u64 = 1 << 18;

    /// The profile in the file at `path`.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        Self::from_toml(&path.display().to_string(), &Self::read_text(path)?)
    }

    /// The text of the file at `path`, if it is short enough for a profile.
    pub fn read_text(path: &Path) -> Result<String, ProfileError> {
        let fail = |source| ProfileError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(fail)?;
        file.take(Self::TEXT_MAX + 1).read_to_string(&mut text).map_err(fail)?;
        if text.len() as u64 > Self::TEXT_MAX {
            return Err(ProfileError::TooLong { path: path.to_owned() });
        }
        Ok(text)
    }

    /// The profile in `text`; `file` is what errors call it.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, ProfileError> {
        Self::read(Document::parse(file, text, true)?)
    }

    /// The profile in `table`, a parsed text with overrides applied; `file` is
    /// what errors call it.
    pub fn from_table(file: &str, table: &toml::Table) -> Result<Self, ProfileError> {
        Self::read(Document::parse(file, &table.to_string(), false)?)
    }

    fn read(mut document: Document<'_>) -> Result<Self, ProfileError> {
        let mut faults = Vec::new();
        let missing = |key: &str, what: &str| Fault {
            offset: None,
            problem: format!("`{key}` is missing at the top level; add {what}"),
        };
        let mut read = Vec::new();
        let name: Option<String> = document.take("name", &mut read);
        if name.is_none() && read.is_empty() {
            read.push(missing("name", "the name that runs will use"));
        }
        faults.append(&mut read);
        let kind: Option<Kind> = document.take("kind", &mut read);
        if kind.is_none() && read.is_empty() {
            read.push(missing("kind", "kind = \"ssd\", \"zoned\", \"disk\" or \"card\""));
        }
        faults.append(&mut read);
        let description: String = document.take("description", &mut faults).unwrap_or_default();
        let given_sources: toml::Table = document.take("sources", &mut faults).unwrap_or_default();
        let expectations: Vec<Expectation> = document.take("expect", &mut faults).unwrap_or_default();
        let config = match kind {
            Some(Kind::Ssd) => document.rest(&mut faults).map(DeviceConfig::Ssd),
            Some(Kind::Zoned) => document.rest(&mut faults).map(DeviceConfig::Zoned),
            Some(Kind::Disk) => document.rest(&mut faults).map(DeviceConfig::Disk),
            Some(Kind::Card) => document.rest(&mut faults).map(DeviceConfig::Card),
            // Nothing tells which keys there should be.
            None => None,
        };
        let (Some(name), Some(config), true) = (name, config, faults.is_empty()) else {
            return Err(document.error(faults));
        };
        let mut sources = BTreeMap::new();
        flatten(&given_sources, "", &mut sources).map_err(|key| {
            document.about(&format!("sources.{key}"), format!("the source of `{key}` must be a text"))
        })?;
        for expectation in &expectations {
            expectation.check().map_err(|problem| document.about("expect", problem))?;
        }
        let parameters: Vec<String> = document
            .leaves()
            .filter(|key| !["name", "kind", "description", "expect"].contains(key) && !key.starts_with("sources."))
            .map(str::to_owned)
            .collect();
        match &config {
            DeviceConfig::Ssd(config) => config.check().map_err(|error| document.about_quoted(error.to_string()))?,
            DeviceConfig::Zoned(config) => config.check().map_err(|error| document.about_quoted(error.to_string()))?,
            DeviceConfig::Disk(config) => config.check().map_err(|error| document.about_quoted(error.to_string()))?,
            DeviceConfig::Card(config) => config.check().map_err(|error| document.about_quoted(error.to_string()))?,
        }
        for key in sources.keys() {
            if !parameters.iter().any(|parameter| covers(key, parameter)) {
                let remedy = nearest(key, parameters.iter().map(String::as_str))
                    .map_or("remove it".to_owned(), |name| format!("did you mean `{name}`?"));
                return Err(document
                    .about(&format!("sources.{key}"), format!("a source for `{key}`, which is not given; {remedy}")));
            }
        }
        Ok(Self { name, description, config, sources, expectations, parameters, start: SharedStart::default() })
    }

    /// The device's model name.
    pub fn model(&self) -> &str {
        match &self.config {
            DeviceConfig::Ssd(config) => &config.model,
            DeviceConfig::Zoned(config) => &config.model,
            DeviceConfig::Disk(config) => &config.model,
            DeviceConfig::Card(config) => &config.model,
        }
    }

    /// Dotted keys of the parameters given.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// The source of a parameter: its own, or that of the nearest table around it.
    pub fn source(&self, parameter: &str) -> Option<&str> {
        // Of keys that cover it the longest is the last.
        let mut covering = self.sources.iter().filter(|(key, _)| covers(key, parameter));
        covering.next_back().map(|(_, source)| source.as_str())
    }

    /// Parameters given without a source. `model` is a name and needs none.
    pub fn unsourced(&self) -> impl Iterator<Item = &str> {
        let parameters = self.parameters.iter().map(String::as_str);
        parameters.filter(|parameter| *parameter != "model" && self.source(parameter).is_none())
    }

    /// The device, in its initial state at time zero.
    pub fn build(&self, options: &BuildOptions) -> Result<Box<dyn Device>, ProfileError> {
        self.build_send(options).map(|device| device as Box<dyn Device>)
    }

    /// The same, for whoever hands it from thread to thread.
    pub fn build_send(&self, options: &BuildOptions) -> Result<Box<dyn Device + Send>, ProfileError> {
        let store = |lba: units::ByteSize, blocks: u64| {
            Store::new(&options.contents, lba.0 as u32, &[blocks], options.power_cuts)
        };
        if options.initial.is_some() && !matches!(self.config, DeviceConfig::Ssd(_)) {
            return Err(ProfileError::NoState { profile: self.name.clone() });
        }
        Ok(match &self.config {
            DeviceConfig::Ssd(config) => {
                let mut config = config.as_ref().clone();
                if let Some(initial) = &options.initial {
                    config.initial = initial.clone();
                }
                if let Some(seed) = options.seed {
                    config.initial.seed = seed;
                }
                let mut ssd = self.start.build(&config)?;
                ssd.keep_contents(&options.contents, options.power_cuts)?;
                if options.recover_from_flash {
                    ssd.recover_from_flash();
                }
                Box::new(ssd)
            }
            DeviceConfig::Zoned(config) => {
                let mut config = config.as_ref().clone();
                if let Some(seed) = options.seed {
                    config.controller.seed = seed;
                }
                let mut device = Zoned::new(&config)?;
                device.keep_contents(&options.contents, options.power_cuts)?;
                Box::new(device)
            }
            DeviceConfig::Disk(config) => Box::new(Disk::new(config, store(config.lba, Disk::blocks(config))?)?),
            DeviceConfig::Card(config) => Box::new(Card::new(config, store(config.lba, Card::blocks(config))?)?),
        })
    }
}

/// Whether the source of `key` is also that of `parameter`.
fn covers(key: &str, parameter: &str) -> bool {
    parameter.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Collects texts by dotted key; an entry that is neither text nor table is an error.
fn flatten(table: &toml::Table, prefix: &str, sources: &mut BTreeMap<String, String>) -> Result<(), String> {
    for (key, value) in table {
        let dotted = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::String(text) => {
                sources.insert(dotted, text.clone());
            }
            toml::Value::Table(table) => flatten(table, &dotted, sources)?,
            _ => return Err(dotted),
        }
    }
    Ok(())
}
