//! What makes a recording, and what makes verdicts, the same as those that are there.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crash::{Amount, State};
use serde::{Deserialize, Serialize};

use super::inputs::{Inputs, Search};
use super::survival::Survival;
use super::trial::Trial;
use crate::error::LinuxError;
use crate::kernel::Kernel;
use crate::run::Linux;

/// Of the recording: `trial.json`. Another makes another trial, but for the contents of files, which ask for a new recording.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct RecordedTrial {
    version: String,
    pub(super) kernel: String,
    /// All of it but what does not change what is recorded.
    #[serde(flatten)]
    linux: Linux,
    setup: Option<String>,
    /// Files of the host that command and setup name.
    pub(super) inputs: Inputs,
}

/// How states are judged, and which of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judging {
    /// For `sh -e` in each recovered state, before the check: what the program does after a crash.
    pub recover: Option<String>,
    /// For `sh -e` in each recovered state: what must hold there. `$PLUMB_ACKNOWLEDGED` names a file with the lines that the
    /// command wrote to `$PLUMB_ACKNOWLEDGE` before the cut.
    pub check: Option<String>,
    /// Files, from the mounted file system on, that must be there when the command has ended: what a check looks at.
    #[serde(default)]
    pub checked_paths: Vec<String>,
    /// Whether files are held against what fsync and its like promised of them (`docs/crash-promises.md`).
    pub files: bool,
    /// Whether the file system's own checker has a look at each state.
    pub fsck: bool,
    /// What survives; not [`Survival::Auto`], which is for whoever knows the device.
    pub survival: Survival,
    /// What the device writes whole or not at all when the power goes: a power of two, at least a logical block.
    pub atomic_bytes: u32,
    /// How many states.
    pub amount: Amount,
    /// States that are looked at besides, since another judge wants the kernel's word on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brought: Vec<State>,
}

/// Of verdicts over a recording: `judging.json`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct JudgedTrial {
    #[serde(flatten)]
    judging: Judging,
    /// Files of the host that both scripts name.
    inputs: Inputs,
}

impl RecordedTrial {
    pub(super) fn of(trial: &Trial, kernel: &Kernel) -> Self {
        let linux = &trial.linux;
        let texts = linux.command.iter().map(|word| &**word).chain(trial.setup.as_deref().map(OsStr::new));
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: kernel.name(),
            linux: linux.clone(),
            setup: trial.setup.clone(),
            inputs: inputs(trial, texts.chain([OsStr::new(&linux.device)])),
        }
    }

    /// Whether all that is kept of it is the same.
    pub(super) fn is_the_same(&self, other: &Self) -> bool {
        matches!((serde_json::to_value(self), serde_json::to_value(other)), (Ok(one), Ok(other)) if one == other)
    }

    /// Whether all but the contents of files is the same.
    pub(super) fn is_as_asked(&self, other: &Self) -> bool {
        let without = |key: &Self| Self { inputs: Inputs::new(), ..key.clone() };
        without(self).is_the_same(&without(other))
    }

    /// The trial that judges so what was recorded, by the program `plumb`.
    pub(super) fn trial(self, judged: JudgedTrial, plumb: &Path, folder: &Path) -> Trial {
        Trial {
            linux: Linux { plumb: plumb.to_owned(), ..self.linux },
            setup: self.setup,
            judging: judged.judging,
            folder: folder.to_owned(),
            time_limit: Duration::MAX,
            guests: 1,
            shard: (0, 1),
        }
    }
}

impl JudgedTrial {
    pub(super) fn of(trial: &Trial) -> Self {
        let texts = [&trial.judging.recover, &trial.judging.check].into_iter().flatten().map(OsStr::new);
        Self { judging: trial.judging.clone(), inputs: inputs(trial, texts) }
    }

    /// A folder's name for it: the same for the same.
    pub(super) fn folder_name(&self) -> Result<String, LinuxError> {
        let text = serde_json::to_vec(self).map_err(|error| LinuxError::Invalid { message: error.to_string() })?;
        Ok(format!("{FOLDER_PREFIX}{}", &blake3::hash(&text).to_hex()[..16]))
    }
}

/// What folders of verdicts are called, before a digest.
pub(super) const FOLDER_PREFIX: &str = "judged-";

fn inputs<'t>(trial: &Trial, texts: impl Iterator<Item = &'t OsStr>) -> Inputs {
    let path = trial.linux.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let programs = crate::guest::search_path(path);
    Search { folder: &trial.linux.folder, programs: &programs, own: &trial.folder }.inputs(texts)
}
