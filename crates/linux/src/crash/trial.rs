//! A trial, from the outside.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::explain::Evidence;
use super::recorded_run::{CallersScripts, RecordedRun};
use super::settings::Judging;

use super::callers_words;
use super::inputs;
use super::settings;
use super::task::{Record, Recorded, Task};
use super::verdicts;
use crate::charge::Charges;
use crate::choice::FrontEnd;
use crate::error::LinuxError;
use crate::kernel::Kernel;
use crate::outcome::{Ended, Outcome};
use crate::plan::Text;
use crate::run::{Input, Linux, OutputStreams};
use file_systems::FileSystem;

/// What was asked for.
const TRIAL: &str = "trial.json";
/// How states were judged, in the folder of the verdicts.
pub(super) const JUDGING: &str = "judging.json";

/// A command, the device and file system under it, and how what a power cut leaves is judged.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Device, file system and command; what it says of output, input and traces is not used.
    pub linux: Linux,
    /// For `sh -e` in the mounted file system, before the command; the log begins after it.
    pub setup: Option<String>,
    /// How states are judged.
    pub judging: Judging,
    /// An absolute path.
    pub folder: PathBuf,
    /// On the wall clock: for the command with its setup, and for each look at a state.
    pub time_limit: Duration,
    /// Guests that run side by side.
    pub guests: usize,
    /// Which part of how many this process looks at, from 0.
    pub shard: (usize, usize),
}

/// What came of running the command.
#[derive(Clone, Debug)]
pub struct Recording {
    /// How it ended.
    pub ended: Ended,
    /// Lines that it acknowledged.
    pub acknowledgements: usize,
    /// Ways of changing files that it used and that are not followed: from the first of them on, files are not judged.
    pub unfollowed: Vec<String>,
    /// What it wrote to both of its streams, where it ran now and not at an earlier start.
    pub said: Option<(Vec<u8>, Vec<u8>)>,
}

impl Trial {
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("writes.log")
    }

    pub(super) fn calls(&self) -> PathBuf {
        self.folder.join("calls.jsonl")
    }

    pub(super) fn recorded(&self) -> PathBuf {
        self.folder.join("recorded.json")
    }

    /// The trial that a folder, an absolute path, holds, and the [name](Kernel::name) of its kernel. Of several ways in which its
    /// states were judged, it is the one that knows `state`, or else the newest.
    ///
    /// # Errors
    /// Where it holds none.
    pub fn of_folder(folder: &Path, state: &str, plumb: &Path) -> Result<(Self, String), LinuxError> {
        let key: settings::RecordedTrial = read_json(&folder.join(TRIAL))?
            .ok_or_else(|| LinuxError::Invalid { message: format!("{} holds no trial", folder.display()) })?;
        let verdicts = verdicts::folder_with(folder, state)?
            .ok_or_else(|| LinuxError::Invalid { message: format!("no state was judged in {}", folder.display()) })?;
        let judged: settings::JudgedTrial = read_json(&verdicts.join(JUDGING))?
            .ok_or_else(|| LinuxError::Invalid { message: format!("{} has no {JUDGING}", verdicts.display()) })?;
        let kernel = key.kernel.clone();
        Ok((key.trial(judged, plumb, folder), kernel))
    }

    /// Whether the folder holds this trial, or none.
    pub fn is_at_home(&self, kernel: &Kernel) -> bool {
        match read_json::<settings::RecordedTrial>(&self.folder.join(TRIAL)) {
            Ok(Some(found)) => found.is_as_asked(&settings::RecordedTrial::of(self, kernel)),
            Ok(None) => !self.recorded().exists(),
            Err(_) => false,
        }
    }

    /// Sees to it that the folder is this trial's, and that nothing of another is in it. Where files of the host that command or
    /// setup name are not what they were when the command ran, what was recorded is removed, and they are named. With `fresh`
    /// everything of an earlier trial is removed.
    ///
    /// # Errors
    /// Where the folder holds another trial, or something else.
    pub fn open(&self, kernel: &Kernel, fresh: bool) -> Result<Vec<String>, LinuxError> {
        let path = self.folder.join(TRIAL);
        let key = settings::RecordedTrial::of(self, kernel);
        fs::create_dir_all(&self.folder)
            .map_err(LinuxError::system(format!("cannot make {}", self.folder.display())))?;
        let mut changed = Vec::new();
        if fresh && path.exists() {
            self.forget()?;
        }
        match fs::read(&path) {
            Ok(found) => match serde_json::from_slice::<settings::RecordedTrial>(&found) {
                Ok(found) if found.is_the_same(&key) => return Ok(Vec::new()),
                Ok(found) if found.is_as_asked(&key) => {
                    if self.recorded().exists() {
                        changed = inputs::changed(&found.inputs, &key.inputs);
                    }
                    self.forget()?;
                }
                _ => {
                    return Err(LinuxError::Invalid {
                        message: format!(
                            "{} holds another trial (its {TRIAL} differs): --fresh removes it, or give another folder with --out",
                            self.folder.display()
                        ),
                    });
                }
            },
            Err(_) if self.recorded().exists() => {
                return Err(LinuxError::Invalid {
                    message: format!("{} has a recording and no {TRIAL}: give another folder", self.folder.display()),
                });
            }
            Err(_) => {}
        }
        let text =
            serde_json::to_vec_pretty(&key).map_err(|error| LinuxError::Invalid { message: error.to_string() })?;
        fs::write(&path, text).map_err(LinuxError::system(format!("cannot write {}", path.display())))?;
        Ok(changed)
    }

    /// Removes what a trial leaves in its folder, and nothing else. The name that stands for a whole recording goes first.
    fn forget(&self) -> Result<(), LinuxError> {
        let files =
            [self.recorded(), self.folder.join("recorded.part"), self.log(), self.calls(), self.folder.join(TRIAL)];
        let remove = |path: &Path| match fs::symlink_metadata(path) {
            Ok(about) if about.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(_) => Ok(()),
        };
        let failed = |path: &Path| LinuxError::system(format!("cannot remove {}", path.display()));
        for path in files {
            remove(&path).map_err(failed(&path))?;
        }
        let entries = fs::read_dir(&self.folder);
        let entries = entries.map_err(LinuxError::system(format!("cannot read {}", self.folder.display())))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_task = name.starts_with("task-") && name.ends_with(".json");
            if name.starts_with(settings::FOLDER_PREFIX) || name == "offline" || is_task {
                remove(&entry.path()).map_err(failed(&entry.path()))?;
            }
        }
        Ok(())
    }

    /// Where verdicts of these checks over this recording go; another check, or one that was edited, has another folder.
    pub(super) fn judged_folder(&self) -> Result<PathBuf, LinuxError> {
        let key = settings::JudgedTrial::of(self);
        let folder = self.folder.join(key.folder_name()?);
        fs::create_dir_all(&folder).map_err(LinuxError::system(format!("cannot make {}", folder.display())))?;
        let path = folder.join(JUDGING);
        if !path.exists() {
            let text =
                serde_json::to_vec_pretty(&key).map_err(|error| LinuxError::Invalid { message: error.to_string() })?;
            fs::write(&path, text).map_err(LinuxError::system(format!("cannot write {}", path.display())))?;
        }
        Ok(folder)
    }

    /// Runs the command and keeps the log, or finds what an earlier start kept.
    ///
    /// # Errors
    /// As [`Linux::run_until`]; where the setup fails, or the command cannot be started.
    pub fn record(&self, kernel: &Kernel, stop: &dyn Fn() -> bool) -> Result<Recording, LinuxError> {
        if let Some(recorded) = self.read_recorded()? {
            return Ok(Recording {
                ended: recorded.ended,
                acknowledgements: recorded.acknowledgements.len(),
                unfollowed: recorded.unfollowed,
                said: None,
            });
        }
        let command = callers_words::command(&self.linux.folder, &self.linux.command);
        let task = Task::Record(Record {
            setup: self.setup.as_deref().map(|text| callers_words::script(&self.linux.folder, text)),
            command: command.iter().map(|word| Text::from(&**word)).collect(),
            callers_folder: Text::from(self.linux.folder.as_path()),
            log: self.log(),
            calls: self.calls(),
            recorded: self.folder.join("recorded.part"),
        });
        let mut run = self.guest(&task, "record")?;
        run.limits.wall = Some(self.time_limit);
        // Without any price a command that never waits, such as a loop that reads cached files, stops the clock for good.
        run.kernel_parameters.extend(Charges::floor().parameters());
        run.serve_arguments.extend([OsString::from("--write-log"), self.log().into_os_string()]);
        let outcome = run.run_until(kernel, stop)?;
        let part = self.folder.join("recorded.part");
        if !part.exists() {
            return Err(failed_inside(&outcome));
        }
        // The name says that the run came to its end, with the whole log on the disk.
        fs::rename(&part, self.recorded()).map_err(LinuxError::system(format!("cannot rename {}", part.display())))?;
        let recorded = self.read_recorded()?.ok_or_else(|| failed_inside(&outcome))?;
        Ok(Recording {
            ended: recorded.ended,
            acknowledgements: recorded.acknowledgements.len(),
            unfollowed: recorded.unfollowed,
            said: Some((outcome.stdout, outcome.stderr)),
        })
    }

    fn read_recorded(&self) -> Result<Option<Recorded>, LinuxError> {
        read_json(&self.recorded())
    }

    /// What was recorded, to explain verdicts with.
    ///
    /// # Errors
    /// Where nothing was, or it is damaged.
    pub fn evidence(&self) -> Result<Evidence, LinuxError> {
        let recorded = self
            .read_recorded()?
            .ok_or_else(|| LinuxError::Invalid { message: format!("{} has no recording", self.folder.display()) })?;
        Evidence::read(&self.log(), &self.calls(), recorded, self.judging.survival, self.linux.file_system)
    }

    /// What was recorded, to judge states without a kernel.
    ///
    /// # Errors
    /// Where nothing was, or it is damaged.
    pub fn recorded_run(&self) -> Result<RecordedRun, LinuxError> {
        let recorded = self
            .read_recorded()?
            .ok_or_else(|| LinuxError::Invalid { message: format!("{} has no recording", self.folder.display()) })?;
        RecordedRun::read(&self.log(), &self.calls(), &recorded)
    }

    /// What the caller asks of states, to ask it without a guest.
    ///
    /// # Errors
    /// Where its settings cannot be written down.
    pub fn scripts(&self) -> Result<CallersScripts, LinuxError> {
        CallersScripts::of(self)
    }

    /// A guest that does this.
    pub(super) fn guest(&self, task: &Task, name: &str) -> Result<Linux, LinuxError> {
        let path = self.folder.join(format!("task-{name}.json"));
        let text = serde_json::to_vec(task).map_err(|error| LinuxError::Invalid { message: error.to_string() })?;
        fs::write(&path, text).map_err(LinuxError::system(format!("cannot write {}", path.display())))?;
        let mut run = self.linux.command([
            self.linux.plumb.as_os_str(),
            crate::guest::crash::SUBCOMMAND.as_ref(),
            path.as_os_str(),
        ]);
        run.output = Some(self.folder.clone());
        run.output_streams = OutputStreams::Capture;
        run.input = Input::Empty;
        run.trace = false;
        if !matches!(task, Task::Record(_)) {
            // States lie on memory devices of the guest's own.
            run.front_end = FrontEnd::NullBlk;
            run.file_system = FileSystem::None;
            run.image = None;
            (run.ordering, run.submission_cpus, run.delay_every) = (None, None, None);
        }
        Ok(run)
    }
}

/// What a guest's own words are where it did not do what it was asked for.
pub(super) fn failed_inside(outcome: &Outcome) -> LinuxError {
    let said = String::from_utf8_lossy(&outcome.stderr).trim().to_owned();
    let message = match outcome.ended {
        // The status of what is wrong with what was asked for.
        Ended::Exited(crate::guest::crash::STATUS_INVALID) => return LinuxError::Invalid { message: said },
        _ if !said.is_empty() => said,
        Ended::Exited(status) => format!("the guest ended with status {status} before it was done"),
        // Its memory is in pieces that the host bounds (vm.max_map_count), and the whole log lies in it.
        Ended::Signaled(signal) => format!(
            "the guest was killed by signal {signal} before it was done: the log of what the command wrote may be more \
             than it can hold (some 200 MB); let the command write less at once, or `sysctl vm.max_map_count=1000000` on \
             the host"
        ),
    };
    LinuxError::Guest { message, log: String::new() }
}

/// What a file of JSON holds, if it is there.
fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, LinuxError> {
    let Ok(text) = fs::read(path) else { return Ok(None) };
    let damaged = |error| LinuxError::Invalid { message: format!("{} is damaged: {error}", path.display()) };
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}
