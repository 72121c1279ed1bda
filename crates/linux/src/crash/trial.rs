//! A trial, from the outside.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::explain::Evidence;
use super::recorded_run::RecordedRun;
use super::survival::Survival;
use crash::Amount;

use super::task::{Judge, Record, Recorded, Stand, Task};
use super::verdicts::{self, Summary};
use crate::choice::FrontEnd;
use crate::error::LinuxError;
use crate::kernel::Kernel;
use crate::ordering::{Streams, SubmissionCpus};
use crate::outcome::{Ended, Outcome};
use crate::plan::Text;
use crate::run::{Input, Linux, OutputStreams};
use file_systems::FileSystem;

/// How often progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Of the time, looking takes one part of so many at most.
const LOOK_SHARE: u32 = 50;

/// A command, the device and file system under it, and how what a power cut leaves is judged.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Device, file system and command; what it says of output, input and traces is not used.
    pub linux: Linux,
    /// For `sh -e` in the mounted file system, before the command; the log begins after it.
    pub setup: Option<String>,
    /// For `sh -e` in each recovered state, before the check: what the program does after a crash.
    pub recover: Option<String>,
    /// For `sh -e` in each recovered state: what must hold there. `$PLUMB_ACKNOWLEDGED` names a file with the lines that the
    /// command wrote to `$PLUMB_ACKNOWLEDGE` before the cut.
    pub check: Option<String>,
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
    /// An absolute path.
    pub folder: PathBuf,
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

/// How far the states are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Looked at, with those of earlier starts.
    pub judged: usize,
    /// Of this shard.
    pub states: usize,
    /// With a fault.
    pub bad: usize,
}

/// What makes a trial the same as another: a second start goes on with what is there, and `replay` finds it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Key {
    version: String,
    kernel: String,
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
    seed: u64,
    memory_bytes: u64,
    command: Vec<Text>,
    folder: Text,
    setup: Option<String>,
    recover: Option<String>,
    check: Option<String>,
    files: bool,
    fsck: bool,
    survival: Survival,
    atomic_bytes: u32,
    amount: Amount,
}

impl Trial {
    fn log(&self) -> PathBuf {
        self.folder.join("writes.log")
    }

    fn calls(&self) -> PathBuf {
        self.folder.join("calls.jsonl")
    }

    fn recorded(&self) -> PathBuf {
        self.folder.join("recorded.json")
    }

    fn key(&self, kernel: &Kernel) -> Key {
        Key {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: kernel.name(),
            device: self.linux.device.clone(),
            settings: self.linux.settings.clone(),
            file_system: self.linux.file_system,
            file_system_bytes: self.linux.file_system_bytes,
            mkfs_options: self.linux.mkfs_options.clone(),
            mount_options: self.linux.mount_options.clone(),
            front_end: self.linux.front_end,
            ordering: self.linux.ordering,
            submission_cpus: self.linux.submission_cpus,
            seed: self.linux.seed,
            memory_bytes: self.linux.memory_bytes,
            command: self.linux.command.iter().map(|word| Text::from(&**word)).collect(),
            folder: Text::from(self.linux.folder.as_path()),
            setup: self.setup.clone(),
            recover: self.recover.clone(),
            check: self.check.clone(),
            files: self.files,
            fsck: self.fsck,
            survival: self.survival,
            atomic_bytes: self.atomic_bytes,
            amount: self.amount,
        }
    }

    /// The trial that a folder, an absolute path, holds, and the [name](Kernel::name) of its kernel.
    ///
    /// # Errors
    /// Where it holds none.
    pub fn of_folder(folder: &Path, plumb: &Path) -> Result<(Self, String), LinuxError> {
        let path = folder.join("trial.json");
        let text = fs::read(&path).map_err(LinuxError::system(format!("there is no trial: {}", path.display())))?;
        let damaged = |error| LinuxError::Invalid { message: format!("{} is damaged: {error}", path.display()) };
        let key: Key = serde_json::from_slice(&text).map_err(damaged)?;
        let mut linux = Linux::new(plumb, key.device);
        linux.settings = key.settings;
        linux.file_system = key.file_system;
        linux.file_system_bytes = key.file_system_bytes;
        linux.mkfs_options = key.mkfs_options;
        linux.mount_options = key.mount_options;
        linux.front_end = key.front_end;
        linux.ordering = key.ordering;
        linux.submission_cpus = key.submission_cpus;
        linux.seed = key.seed;
        linux.memory_bytes = key.memory_bytes;
        linux.command = key.command.iter().map(OsString::from).collect();
        linux.folder = PathBuf::from(&key.folder);
        let trial = Self {
            linux,
            setup: key.setup,
            recover: key.recover,
            check: key.check,
            files: key.files,
            fsck: key.fsck,
            survival: key.survival,
            atomic_bytes: key.atomic_bytes,
            amount: key.amount,
            folder: folder.to_owned(),
            guests: 1,
            shard: (0, 1),
        };
        Ok((trial, key.kernel))
    }

    /// Sees to it that the folder is this trial's, and that nothing of another is in it.
    fn claim(&self, kernel: &Kernel) -> Result<(), LinuxError> {
        let path = self.folder.join("trial.json");
        let key = self.key(kernel);
        fs::create_dir_all(&self.folder)
            .map_err(LinuxError::system(format!("cannot make {}", self.folder.display())))?;
        match fs::read(&path) {
            Ok(found) if serde_json::from_slice::<Key>(&found).is_ok_and(|found| found == key) => Ok(()),
            Ok(_) => Err(LinuxError::Invalid {
                message: format!(
                    "{} holds another trial (its trial.json differs): remove the folder, or give another with --out",
                    self.folder.display()
                ),
            }),
            Err(_) if self.recorded().exists() => Err(LinuxError::Invalid {
                message: format!("{} has a recording and no trial.json: give another folder", self.folder.display()),
            }),
            Err(_) => {
                let text = serde_json::to_vec_pretty(&key)
                    .map_err(|error| LinuxError::Invalid { message: error.to_string() })?;
                fs::write(&path, text).map_err(LinuxError::system(format!("cannot write {}", path.display())))
            }
        }
    }

    /// Runs the command and keeps the log, or finds what an earlier start kept.
    ///
    /// # Errors
    /// As [`Linux::run_until`]; where the setup fails; and where the folder holds another trial.
    pub fn record(&self, kernel: &Kernel, stop: &dyn Fn() -> bool) -> Result<Recording, LinuxError> {
        self.claim(kernel)?;
        if let Some(recorded) = self.read_recorded()? {
            return Ok(Recording {
                ended: recorded.ended,
                acknowledgements: recorded.acknowledgements.len(),
                unfollowed: recorded.unfollowed,
                said: None,
            });
        }
        let task = Task::Record(Record {
            setup: self.setup.clone(),
            command: self.linux.command.iter().map(|word| Text::from(&**word)).collect(),
            log: self.log(),
            calls: self.calls(),
            recorded: self.folder.join("recorded.part"),
        });
        let mut run = self.guest(&task, "record")?;
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
        let path = self.recorded();
        let Ok(text) = fs::read(&path) else { return Ok(None) };
        let damaged = |error| LinuxError::Invalid { message: format!("{} is damaged: {error}", path.display()) };
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }

    /// What was recorded, to explain verdicts with.
    ///
    /// # Errors
    /// Where nothing was, or it is damaged.
    pub fn evidence(&self) -> Result<Evidence, LinuxError> {
        let recorded = self
            .read_recorded()?
            .ok_or_else(|| LinuxError::Invalid { message: format!("{} has no recording", self.folder.display()) })?;
        Evidence::read(&self.log(), recorded, self.survival)
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

    /// Looks at every state of this shard that was not looked at before. `stop` is asked many times a second.
    ///
    /// # Errors
    /// As [`Linux::run_until`].
    pub fn judge(
        &self,
        kernel: &Kernel,
        stop: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Summary, LinuxError> {
        let before = Summary::read(&self.folder)?;
        let known: Vec<String> = before.verdicts.keys().cloned().collect();
        let (shard, shards) = (self.shard.0, self.shard.1.max(1));
        let guests = self.guests.max(1);
        let next = verdicts::files(&self.folder)?.len();
        let mut runs = Vec::new();
        for guest in 0..guests {
            let number = next + guest;
            let task = Task::Judge(Box::new(Judge {
                first: shard + shards * guest,
                step: shards * guests,
                verdicts: self.folder.join(format!("verdicts-{shard}-{number}.jsonl")),
                known: known.clone(),
                ..self.task(None)
            }));
            runs.push(self.guest(&task, &format!("judge-{shard}-{guest}"))?);
        }
        let over = AtomicBool::new(false);
        let results: Vec<Result<Outcome, LinuxError>> = std::thread::scope(|scope| {
            let over = &over;
            let threads: Vec<_> = runs
                .iter()
                .map(|run| {
                    scope.spawn(move || {
                        let result = run.run_until(kernel, &|| stop() || over.load(Ordering::Relaxed));
                        // One that fails takes the others with it.
                        let is_done = result.as_ref().is_ok_and(|outcome| outcome.ended.success());
                        over.fetch_or(!is_done, Ordering::Relaxed);
                        result
                    })
                })
                .collect();
            let mut pause = LOOK_EVERY;
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                std::thread::sleep(pause);
                let begun = Instant::now();
                if let Ok(summary) = Summary::read(&self.folder) {
                    progress(self.progress(&summary));
                }
                // A look at many verdicts takes long itself.
                pause = LOOK_EVERY.max(begun.elapsed() * LOOK_SHARE);
            }
            let lost = |_| Err(LinuxError::Invalid { message: "a guest's thread failed".to_owned() });
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).collect()
        });
        // What stopped the others is what went wrong.
        let mut stopped = None;
        for result in results {
            match result {
                Ok(outcome) if outcome.ended.success() => {}
                Ok(outcome) => return Err(failed_inside(&outcome)),
                Err(LinuxError::Stopped) => stopped = Some(LinuxError::Stopped),
                Err(error) => return Err(error),
            }
        }
        match stopped {
            Some(error) => Err(error),
            None => Summary::read(&self.folder),
        }
    }

    fn progress(&self, summary: &Summary) -> Progress {
        let shards = self.shard.1.max(1);
        let states = (summary.states + shards - 1 - self.shard.0.min(shards - 1)) / shards;
        let bad = summary.verdicts.values().filter(|verdict| verdict.fault.is_some()).count();
        Progress { judged: summary.verdicts.len(), states, bad }
    }

    /// Mounts one state and runs a command in it, with the caller's terminal; its exit status.
    ///
    /// # Errors
    /// As [`Linux::run_until`].
    pub fn stand(
        &self,
        kernel: &Kernel,
        state: &str,
        command: &[OsString],
        stop: &dyn Fn() -> bool,
    ) -> Result<Outcome, LinuxError> {
        let command = command.iter().map(|word| Text::from(&**word)).collect();
        let task = Task::Judge(Box::new(self.task(Some(Stand { hash: state.to_owned(), command }))));
        let mut run = self.guest(&task, "stand")?;
        run.input = Input::Inherit;
        run.output_streams = OutputStreams::Inherit;
        run.run_until(kernel, stop)
    }

    fn task(&self, stand: Option<Stand>) -> Judge {
        Judge {
            log: self.log(),
            recorded: self.recorded(),
            calls: self.calls(),
            file_system: self.linux.file_system,
            mount_options: self.linux.mount_options.clone(),
            recover: self.recover.clone(),
            check: self.check.clone(),
            files: self.files,
            fsck: self.fsck,
            survival: self.survival,
            atomic_bytes: self.atomic_bytes,
            amount: self.amount,
            first: 0,
            step: 1,
            verdicts: PathBuf::new(),
            stand,
            known: Vec::new(),
        }
    }

    /// A guest that does this.
    fn guest(&self, task: &Task, name: &str) -> Result<Linux, LinuxError> {
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
        if let Task::Judge(_) = task {
            // States lie on memory devices of the guest's own.
            run.front_end = FrontEnd::NullBlk;
            run.file_system = FileSystem::None;
            run.image = None;
            (run.ordering, run.submission_cpus) = (None, None);
        }
        Ok(run)
    }
}

/// What a guest's own words are where it did not do what it was asked for.
fn failed_inside(outcome: &Outcome) -> LinuxError {
    let said = String::from_utf8_lossy(&outcome.stderr).trim().to_owned();
    let message = match outcome.ended {
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
