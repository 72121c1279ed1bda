//! What the guests of a trial found.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::settings::FOLDER_PREFIX;
use super::task::{Answer, SMALLEST, Verdict};
use super::trial::JUDGING;
use crate::error::LinuxError;

/// Everything that was found so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// Distinct states of the trial, of all shards; 0 before a guest has counted them.
    pub states: usize,
    /// States before equal ones were made one.
    pub generated: u64,
    /// Moments at which a cut can leave something new.
    pub moments: usize,
    /// Moments with too many undecided parts for each subset to be looked at.
    pub sampled_moments: usize,
    /// Subsets of undecided parts, of all moments: at most so many distinct states there are.
    pub subsets: f64,
    /// By the state's name.
    pub verdicts: BTreeMap<String, Verdict>,
}

impl Summary {
    /// States with a fault, in the order of the log.
    pub fn bad(&self) -> Vec<&Verdict> {
        let mut bad: Vec<&Verdict> = self.verdicts.values().filter(|verdict| verdict.fault.is_some()).collect();
        bad.sort_by_key(|verdict| (verdict.entries, &verdict.state));
        bad
    }

    /// What stands in the files of a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, LinuxError> {
        let mut summary = Self::default();
        for path in files(folder)? {
            let file = fs::File::open(&path).map_err(LinuxError::system(format!("cannot read {}", path.display())))?;
            for line in BufReader::new(file).split(b'\n') {
                let line = line.map_err(LinuxError::system(format!("cannot read {}", path.display())))?;
                // The last line of a guest that was stopped may be torn: its state is looked at again.
                let Ok(answer) = serde_json::from_slice::<Answer>(&line) else { continue };
                match answer {
                    Answer::StatePlan { states, generated, moments, sampled_moments, subsets } => {
                        summary.states = states;
                        summary.generated = generated;
                        summary.moments = moments;
                        summary.sampled_moments = sampled_moments;
                        summary.subsets = subsets;
                    }
                    Answer::Verdict(verdict) => {
                        summary.verdicts.insert(verdict.state.clone(), *verdict);
                    }
                    Answer::Done => {}
                }
            }
        }
        Ok(summary)
    }
}

/// Of a trial's folders with verdicts the one that has this state's, or else the one that was made last; nothing where there is none.
pub(super) fn folder_with(trial: &Path, state: &str) -> Result<Option<PathBuf>, LinuxError> {
    let failed = || format!("cannot read {}", trial.display());
    let state = state.strip_suffix(SMALLEST).unwrap_or(state);
    let mut newest: Option<(std::time::SystemTime, PathBuf)> = None;
    for entry in fs::read_dir(trial).map_err(LinuxError::system(failed()))? {
        let path = entry.map_err(LinuxError::system(failed()))?.path();
        let is_one = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FOLDER_PREFIX));
        if !is_one || !path.is_dir() {
            continue;
        }
        if Summary::read(&path)?.verdicts.contains_key(state) {
            return Ok(Some(path));
        }
        let made = fs::metadata(path.join(JUDGING)).and_then(|about| about.modified());
        let made = made.unwrap_or(std::time::SystemTime::UNIX_EPOCH);
        if newest.as_ref().is_none_or(|(other, _)| *other < made) {
            newest = Some((made, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// The files with verdicts.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, LinuxError> {
    let failed = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(LinuxError::system(failed()))? {
        let path = entry.map_err(LinuxError::system(failed()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("verdicts-") && name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
