//! What a trial recorded and asks, for whoever judges its states without a kernel.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crash::files::Call;
use crash::{Amount, LogReader};
use observe::calls::Followed;

use super::callers_words;
use super::settings::{JudgedTrial, Judging};
use super::task::Recorded;
use super::trial::Trial;
use crate::environment::Environment;
use crate::error::LinuxError;

/// A command's run, as the device and the kernel's callers saw it.
pub struct RecordedRun {
    /// The device's log, from before the file system was made.
    pub log: LogReader,
    /// The first entry after which the power may go.
    pub first: usize,
    /// The number of the device under which the command saw its files.
    pub device: u64,
    /// The command's calls on files.
    pub calls: Vec<Call>,
    /// Lines that the command acknowledged, and how long the log was in bytes.
    pub acknowledged: Vec<(u64, String)>,
}

/// The caller's scripts, for whoever runs them without a guest.
pub struct CallersScripts {
    /// For `sh -e`.
    pub recover: Option<String>,
    /// For `sh -e`, after it.
    pub check: Option<String>,
    /// All of it.
    pub environment: Environment,
    /// The same for scripts and files that these name with the same contents, and for the same way of judging.
    pub name: String,
}

impl CallersScripts {
    pub(super) fn of(trial: &Trial) -> Result<Self, LinuxError> {
        let own = |text: &String| callers_words::script(&trial.linux.folder, text);
        let mut environment = trial.linux.environment.clone();
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        environment.retain(|(name, _)| name != "PATH");
        environment.push(("PATH".into(), crate::guest::search_path(path)));
        // Which states the kernel mounts is no part of it.
        let judging =
            Judging { amount: Amount::Sampled { states: 0, seed: 0 }, brought: Vec::new(), ..trial.judging.clone() };
        let name = JudgedTrial::of(&Trial { judging, ..trial.clone() }).folder_name()?;
        let Judging { recover, check, .. } = &trial.judging;
        Ok(Self { recover: recover.as_ref().map(own), check: check.as_ref().map(own), environment, name })
    }
}

impl RecordedRun {
    pub(super) fn read(log: &Path, calls: &Path, recorded: &Recorded) -> Result<Self, LinuxError> {
        let open = |path: &Path| {
            let file = File::open(path).map_err(LinuxError::system(format!("cannot read {}", path.display())))?;
            Ok::<_, LinuxError>(BufReader::with_capacity(1 << 20, file))
        };
        let damaged =
            |path: &Path, why: String| LinuxError::Invalid { message: format!("{} is damaged: {why}", path.display()) };
        let reader = LogReader::read(open(log)?).map_err(|error| damaged(log, error.to_string()))?;
        let followed = Followed::read(open(calls)?).map_err(|error| damaged(calls, error.to_string()))?;
        let first = reader.entries_at(recorded.began_bytes);
        let acknowledged = recorded.acknowledgements.iter().map(|one| (one.position_bytes, one.line.clone())).collect();
        Ok(Self { log: reader, first, device: recorded.device, calls: followed.calls, acknowledged })
    }
}
