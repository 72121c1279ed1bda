//! What was found, kept in files of parts of the work, so that what was stopped goes on.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crash::State;
use serde::{Deserialize, Serialize};

use crate::error::{OfflineError, system};

/// Who found a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// The journal has a committed transaction that cannot be replayed: a mount refuses.
    Journal,
    /// e2fsck, after recovery.
    Fsck,
    /// Files are not as fsync and its like promised.
    Files,
    /// Two recoveries leave other files.
    Recovery,
    /// The caller's script for recovery fails.
    Recover,
    /// The caller's check fails.
    Check,
    /// Nobody: it cannot be read without the kernel.
    Unread,
}

/// A state that is not good.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bad {
    /// Which.
    pub state: State,
    /// Who says so.
    pub by: Judged,
    /// In its words.
    pub what: String,
    /// Of the first of its kind: the entries of the log whose writes are lost in the smallest state with the same fault.
    pub smallest: Option<Vec<usize>>,
}

/// What was done, without what was found to be bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// States that were generated.
    pub generated: u64,
    /// Of these with other bytes than the others.
    pub distinct: u64,
    /// Metadata that recovery leaves, each counted once.
    pub recovered: u64,
    /// Files with contents that recovery leaves, each counted once.
    pub recovered_files: u64,
    /// Distinct metadata that e2fsck recovered and looked at.
    pub checked: u64,
    /// Files with contents and acknowledged lines that scripts looked at, each counted once.
    #[serde(default)]
    pub scripted: u64,
    /// Distinct states that are bad.
    pub bad: u64,
    /// Distinct states that only the kernel can judge.
    pub unread: u64,
}

/// Neighbouring moments, done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) generated: u64,
    pub(crate) states: BTreeSet<u64>,
    pub(crate) metadata: BTreeSet<u64>,
    pub(crate) files: BTreeSet<u64>,
    /// Metadata that e2fsck looked at in this part.
    pub(crate) checked: BTreeSet<u64>,
    /// Files and lines that scripts looked at in this part.
    #[serde(default)]
    pub(crate) scripted: BTreeSet<u64>,
    pub(crate) bad: BTreeSet<u64>,
    pub(crate) unread: BTreeSet<u64>,
    /// Some of those that are bad or not read.
    pub(crate) shown: Vec<Bad>,
}

impl Part {
    pub(crate) fn join(&mut self, other: Self) {
        self.generated += other.generated;
        self.states.extend(other.states);
        self.metadata.extend(other.metadata);
        self.files.extend(other.files);
        self.checked.extend(other.checked);
        self.scripted.extend(other.scripted);
        self.bad.extend(other.bad);
        self.unread.extend(other.unread);
        self.shown.extend(other.shown);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            generated: self.generated,
            distinct: self.states.len() as u64,
            recovered: self.metadata.len() as u64,
            recovered_files: self.files.len() as u64,
            checked: self.checked.len() as u64,
            scripted: self.scripted.len() as u64,
            bad: self.bad.len() as u64,
            unread: self.unread.len() as u64,
        }
    }
}

/// The folder of the parts of one run.
pub(crate) struct Parts {
    folder: PathBuf,
}

impl Parts {
    /// Opens or makes it. `run` says what is run: parts of another run are not taken.
    pub(crate) fn open(folder: &Path, run: &str) -> Result<Self, OfflineError> {
        let failed = || format!("cannot make {}", folder.display());
        fs::create_dir_all(folder).map_err(system(failed()))?;
        let name = folder.join("run.txt");
        match fs::read_to_string(&name) {
            Ok(found) if found == run => {}
            Ok(_) => {
                let said = format!("{} holds other states (its run.txt differs): remove the folder", folder.display());
                return Err(OfflineError::Damaged(said));
            }
            Err(_) => fs::write(&name, run).map_err(system(failed()))?,
        }
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("part-{number}.json"))
    }

    /// A part that was done; a damaged one is done again.
    pub(crate) fn read(&self, number: usize) -> Option<Part> {
        serde_json::from_slice(&fs::read(self.path(number)).ok()?).ok()
    }

    pub(crate) fn write(&self, number: usize, part: &Part) -> Result<(), OfflineError> {
        let (path, begun) = (self.path(number), self.folder.join(format!("part-{number}.begun")));
        let failed = || format!("cannot write {}", path.display());
        let text = serde_json::to_vec(part).map_err(|error| OfflineError::Damaged(error.to_string()))?;
        fs::write(&begun, text).map_err(system(failed()))?;
        fs::rename(&begun, &path).map_err(system(failed()))
    }
}
