//! What makes a recording, and what makes verdicts, the same as those that are there.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crash::Amount;
use file_systems::FileSystem;
use serde::{Deserialize, Serialize};

use super::inputs::{Inputs, Search};
use super::survival::Survival;
use super::trial::Trial;
use crate::choice::FrontEnd;
use crate::error::LinuxError;
use crate::kernel::Kernel;
use crate::ordering::{Streams, SubmissionCpus};
use crate::plan::Text;
use crate::run::Linux;

/// Of the recording: `trial.json`. Another makes another trial, but for the contents of files, which ask for a new recording.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Recorded {
    version: String,
    pub(super) kernel: String,
    device: String,
    settings: Vec<String>,
    file_system: FileSystem,
    file_system_bytes: Option<u64>,
    mkfs_options: String,
    mount_options: String,
    front_end: FrontEnd,
    #[serde(default)]
    ordering: Option<Streams>,
    #[serde(default)]
    submission_cpus: Option<SubmissionCpus>,
    #[serde(default)]
    delay_every: Option<NonZeroU32>,
    seed: u64,
    memory_bytes: u64,
    command: Vec<Text>,
    folder: Text,
    setup: Option<String>,
    /// Files of the host that command and setup name.
    pub(super) inputs: Inputs,
}

/// Of verdicts over a recording: `judging.json`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Judged {
    recover: Option<String>,
    check: Option<String>,
    #[serde(default)]
    checked_paths: Vec<String>,
    files: bool,
    fsck: bool,
    survival: Survival,
    atomic_bytes: u32,
    amount: Amount,
    /// Files of the host that both scripts name.
    inputs: Inputs,
}

impl Recorded {
    pub(super) fn of(trial: &Trial, kernel: &Kernel) -> Self {
        let linux = &trial.linux;
        let texts = linux.command.iter().map(|word| &**word).chain(trial.setup.as_deref().map(OsStr::new));
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: kernel.name(),
            device: linux.device.clone(),
            settings: linux.settings.clone(),
            file_system: linux.file_system,
            file_system_bytes: linux.file_system_bytes,
            mkfs_options: linux.mkfs_options.clone(),
            mount_options: linux.mount_options.clone(),
            front_end: linux.front_end,
            ordering: linux.ordering,
            submission_cpus: linux.submission_cpus,
            delay_every: linux.delay_every,
            seed: linux.seed,
            memory_bytes: linux.memory_bytes,
            command: linux.command.iter().map(|word| Text::from(&**word)).collect(),
            folder: Text::from(linux.folder.as_path()),
            setup: trial.setup.clone(),
            inputs: inputs(trial, texts.chain([OsStr::new(&linux.device)])),
        }
    }

    /// Whether all but the contents of files is the same.
    pub(super) fn is_as_asked(&self, other: &Self) -> bool {
        let without = |key: &Self| Self { inputs: Inputs::new(), ..key.clone() };
        without(self) == without(other)
    }

    /// What is run, by the program `plumb`.
    pub(super) fn linux(self, plumb: PathBuf) -> (Linux, Option<String>) {
        let mut linux = Linux::new(plumb, self.device);
        linux.settings = self.settings;
        linux.file_system = self.file_system;
        linux.file_system_bytes = self.file_system_bytes;
        linux.mkfs_options = self.mkfs_options;
        linux.mount_options = self.mount_options;
        linux.front_end = self.front_end;
        linux.ordering = self.ordering;
        linux.submission_cpus = self.submission_cpus;
        linux.delay_every = self.delay_every;
        linux.seed = self.seed;
        linux.memory_bytes = self.memory_bytes;
        linux.command = self.command.iter().map(OsString::from).collect();
        linux.folder = PathBuf::from(&self.folder);
        (linux, self.setup)
    }
}

impl Judged {
    pub(super) fn of(trial: &Trial) -> Self {
        let texts = [&trial.recover, &trial.check].into_iter().flatten().map(OsStr::new);
        Self {
            recover: trial.recover.clone(),
            check: trial.check.clone(),
            checked_paths: trial.checked_paths.clone(),
            files: trial.files,
            fsck: trial.fsck,
            survival: trial.survival,
            atomic_bytes: trial.atomic_bytes,
            amount: trial.amount,
            inputs: inputs(trial, texts),
        }
    }

    /// A folder's name for it: the same for the same.
    pub(super) fn folder_name(&self) -> Result<String, LinuxError> {
        let text = serde_json::to_vec(self).map_err(|error| LinuxError::Invalid { message: error.to_string() })?;
        Ok(format!("{FOLDER_PREFIX}{}", &blake3::hash(&text).to_hex()[..16]))
    }

    /// The trial that judges so what `linux` runs after `setup`.
    pub(super) fn trial(self, (linux, setup): (Linux, Option<String>), folder: PathBuf) -> Trial {
        Trial {
            linux,
            setup,
            recover: self.recover,
            check: self.check,
            checked_paths: self.checked_paths,
            files: self.files,
            fsck: self.fsck,
            survival: self.survival,
            atomic_bytes: self.atomic_bytes,
            amount: self.amount,
            folder,
            time_limit: Duration::MAX,
            guests: 1,
            shard: (0, 1),
        }
    }
}

/// What folders of verdicts are called, before a digest.
pub(super) const FOLDER_PREFIX: &str = "judged-";

fn inputs<'t>(trial: &Trial, texts: impl Iterator<Item = &'t OsStr>) -> Inputs {
    let path = trial.linux.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let programs = crate::guest::search_path(path);
    Search { folder: &trial.linux.folder, programs: &programs, own: &trial.folder }.inputs(texts)
}
