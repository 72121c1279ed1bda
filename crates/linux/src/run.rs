//! One run: what to run on which device, and how it is asked for.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::charge::Charges;
use crate::choice::FrontEnd;
use crate::environment::{Environment, environment};
use crate::error::LinuxError;
use crate::kernel::Kernel;
use crate::ordering::{self, Streams, SubmissionCpus};
use crate::outcome::Outcome;
use crate::plan::Text;
use file_systems::FileSystem;

/// A command to run under a real kernel on a modelled device.
///
/// The run is a function of this value, the kernel and the files that the command
/// reads: virtual times, and every byte the kernel makes up (identifiers of file
/// systems, hash seeds), are the same each time.
///
/// ```no_run
/// use linux::{FileSystem, Kernel, Linux};
///
/// let kernel = Kernel::cached()?;
/// let mut run = Linux::new("target/debug/plumb", "samsung-980pro-1tb");
/// run.file_system = FileSystem::Ext4;
/// let outcome = run.script("dd if=/dev/zero of=file bs=4k count=16 oflag=dsync").run(&kernel)?;
/// println!("{} of virtual time", outcome.virtual_time());
/// # Ok::<(), linux::LinuxError>(())
/// ```
///
/// Written down (`serde`), it is what decides what the guest does: not how it is watched, fed and stopped, which is as for a new run
/// where it is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Linux {
    /// The plumb program: it is the first process inside, and serves the device.
    #[serde(skip)]
    pub plumb: PathBuf,
    /// Device profile: a built-in name or a file.
    pub device: String,
    /// Changes of the profile, `key=value`, as `plumb serve --set` takes them.
    pub settings: Vec<String>,
    /// Keeps the device's contents, made when absent; an absolute path. Otherwise they lie in a file that goes with
    /// the run.
    #[serde(skip)]
    pub image: Option<PathBuf>,
    /// Devices beside it, without file systems.
    #[serde(skip)]
    pub more_devices: Vec<Device>,
    /// More arguments for `plumb serve` of the first device.
    #[serde(skip)]
    pub serve_arguments: Vec<OsString>,
    /// How the devices are shown.
    pub front_end: FrontEnd,
    /// What is made on it and mounted.
    pub file_system: FileSystem,
    /// The image holds the file system already: it is mounted as it is.
    #[serde(skip)]
    pub file_system_is_made: bool,
    /// The file system in a file of which it lies; it takes the device itself where nothing is said. For one that is served.
    pub image_on: Option<FileSystem>,
    /// How much of the device the file system takes; all of it where nothing is said.
    pub file_system_bytes: Option<u64>,
    /// Words for `mkfs`, split at white space.
    pub mkfs_options: String,
    /// Options for `mount`, separated by commas.
    pub mount_options: String,
    /// The program and its arguments.
    #[serde(with = "words")]
    pub command: Vec<OsString>,
    /// Environment of the command; [`environment`](crate::environment) makes one of the caller's.
    #[serde(with = "variables", default = "own_environment")]
    pub environment: Environment,
    /// The caller's folder: where relative names in `command` are looked for.
    #[serde(with = "path")]
    pub folder: PathBuf,
    /// A folder of the host that can be written from inside, at the same path.
    #[serde(skip)]
    pub output: Option<PathBuf>,
    /// Memory of the guest in bytes.
    pub memory_bytes: u64,
    /// Order of writes that the device keeps; for ext4, with the kernel [`KERNEL`](crate::ordering::KERNEL).
    #[serde(default)]
    pub ordering: Option<Streams>,
    /// How many processors seem to submit, which that kernel knows too. With an order there are several.
    #[serde(default)]
    pub submission_cpus: Option<SubmissionCpus>,
    /// Of so many places where the kernel may put a task to sleep, it does for a tick at one, chosen by the seed; that
    /// kernel again.
    #[serde(default)]
    pub delay_every: Option<NonZeroU32>,
    /// More words of the kernel's command line.
    #[serde(skip)]
    pub kernel_parameters: Vec<String>,
    /// What the processor's work for the command costs; nothing where there is none.
    #[serde(skip)]
    pub charge: Option<Charges>,
    /// Whether block and NVMe events of the kernel and spans of the device are recorded.
    #[serde(skip)]
    pub trace: bool,
    /// Whether writes and flushes of the NVMe driver are set beside what the device got; for NVMe/TCP.
    #[serde(skip)]
    pub commands: bool,
    /// Seed of the kernel's random numbers.
    pub seed: u64,
    /// Standard input of the command.
    #[serde(skip)]
    pub input: Input,
    /// Where its output goes.
    #[serde(skip)]
    pub output_streams: OutputStreams,
    /// When to give up.
    #[serde(skip)]
    pub limits: Limits,
}

fn own_environment() -> Environment {
    // Only a given name can be wrong, and none is.
    environment(std::env::vars_os(), std::iter::empty::<OsString>(), &[], false).unwrap_or_default()
}

mod variables {
    use super::{Environment, OsString, Text};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(variables: &Environment, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(variables.iter().map(|(name, value)| (Text::from(&**name), Text::from(&**value))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Environment, D::Error> {
        let variables = Vec::<(Text, Text)>::deserialize(from)?;
        Ok(variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect())
    }
}

mod words {
    use super::{OsString, Text};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(words: &[OsString], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(words.iter().map(|word| Text::from(&**word)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<OsString>, D::Error> {
        Ok(Vec::<Text>::deserialize(from)?.iter().map(OsString::from).collect())
    }
}

mod path {
    use super::{Path, PathBuf, Text};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        Text::from(path).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(PathBuf::from(&Text::deserialize(from)?))
    }
}

/// A further device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// Profile: a built-in name or a file.
    pub profile: String,
    /// Changes of the profile, `key=value`.
    pub settings: Vec<String>,
    /// Keeps its contents, as that of the first.
    pub image: Option<PathBuf>,
}

/// What the command reads.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// Nothing: `/dev/null`.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// What the caller's standard input holds. The clock stands still while the
    /// command waits for it.
    Inherit,
}

/// Where the command's standard output and standard error go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OutputStreams {
    /// Into the [`Outcome`].
    #[default]
    Capture,
    /// To the caller's, as they come. Where all three of the caller's streams are
    /// a terminal, the command has a terminal too.
    Inherit,
}

/// When a run is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Time on the wall clock, if bounded.
    pub wall: Option<Duration>,
    /// Bytes of captured output and log that are kept.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { wall: None, output_bytes: 64 << 20 }
    }
}

/// Memory of a guest where nothing else is said: 4 GiB, taken as it is used.
pub const DEFAULT_MEMORY_BYTES: u64 = 4 << 30;

impl Linux {
    /// A run on `device` with nothing to run yet; `plumb` is the plumb program.
    pub fn new(plumb: impl Into<PathBuf>, device: impl Into<String>) -> Self {
        Self {
            plumb: plumb.into(),
            device: device.into(),
            settings: Vec::new(),
            image: None,
            more_devices: Vec::new(),
            serve_arguments: Vec::new(),
            front_end: FrontEnd::Auto,
            file_system: FileSystem::None,
            file_system_is_made: false,
            image_on: None,
            file_system_bytes: None,
            mkfs_options: String::new(),
            mount_options: String::new(),
            command: Vec::new(),
            environment: own_environment(),
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            output: None,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            ordering: None,
            submission_cpus: None,
            delay_every: None,
            kernel_parameters: Vec::new(),
            charge: None,
            trace: false,
            commands: false,
            seed: 1,
            input: Input::Empty,
            output_streams: OutputStreams::Capture,
            limits: Limits::default(),
        }
    }

    /// The same with `text` as the command, run by `sh -e`.
    pub fn script(&self, text: &str) -> Self {
        self.command(["sh", "-ec", text])
    }

    /// The same with these words as the command.
    pub fn command<W: Into<OsString>>(&self, words: impl IntoIterator<Item = W>) -> Self {
        Self { command: words.into_iter().map(Into::into).collect(), ..self.clone() }
    }

    /// What the kernel is told beside what every run tells it.
    pub(crate) fn parameters(&self) -> Vec<String> {
        let cpus = self.cpus().map(|cpus| cpus.parameters(self.seed)).unwrap_or_default();
        let delays = self.delay_every.map(|every| ordering::delay_parameters(every, self.seed)).unwrap_or_default();
        cpus.into_iter().chain(delays).chain(self.kernel_parameters.iter().cloned()).collect()
    }

    /// From how many processors tasks seem to submit, if the kernel is told.
    pub(crate) fn cpus(&self) -> Option<SubmissionCpus> {
        self.submission_cpus.or_else(|| self.ordering.map(|_| SubmissionCpus::default()))
    }

    /// All devices in order, of which the first carries the file system.
    pub(crate) fn devices(&self) -> Vec<Device> {
        let (profile, settings) = (self.device.clone(), self.settings.clone());
        let mut devices = vec![Device { profile, settings, image: self.image.clone() }];
        devices.extend(self.more_devices.iter().cloned());
        devices
    }

    /// Boots, serves, makes and mounts the file system, runs the command, and powers off.
    ///
    /// A command that fails is no error: its status is in the outcome.
    ///
    /// # Errors
    /// When the guest cannot be started or fails: each says what is missing and
    /// the remedy, with the last lines of the kernel's log where they help.
    pub fn run(&self, kernel: &Kernel) -> Result<Outcome, LinuxError> {
        crate::boot::run(self, kernel, &|| false)
    }

    /// As [`run`](Self::run), but given up when `stop` says so; it is asked many times a second.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`LinuxError::Stopped`].
    pub fn run_until(&self, kernel: &Kernel, stop: &dyn Fn() -> bool) -> Result<Outcome, LinuxError> {
        crate::boot::run(self, kernel, stop)
    }
}
