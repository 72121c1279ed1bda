//! Judging a trial's states, in guests that run side by side.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::callers_words;
use super::settings::Judging;
use super::task::{Judge, Rehearsal, SMALLEST, Stand, Task};
use super::trial::{Trial, failed_inside};
use super::verdicts::{self, Summary};
use crate::error::LinuxError;
use crate::kernel::Kernel;
use crate::outcome::Outcome;
use crate::plan::Text;
use crate::run::{Input, OutputStreams};

/// How often progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Of the time, looking takes one part of so many at most.
const LOOK_SHARE: u32 = 50;

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

/// A sign that a guest goes on, in a file that it writes before each look at a state.
struct Beat {
    path: PathBuf,
    limit: Duration,
    begun: Instant,
}

impl Beat {
    fn new(path: PathBuf, limit: Duration) -> Self {
        // One of an earlier start would be old.
        let _ = std::fs::remove_file(&path);
        Self { path, limit, begun: Instant::now() }
    }

    /// Whether the look that it is at takes longer than it may. Before the first one it reads the log.
    fn is_late(&self) -> bool {
        // Most calls are well before.
        if self.begun.elapsed() <= self.limit {
            return false;
        }
        let written = std::fs::metadata(&self.path).and_then(|about| about.modified());
        let since = written.ok().and_then(|time| time.elapsed().ok());
        since.is_some_and(|since| since > self.limit)
    }

    fn error(&self) -> LinuxError {
        LinuxError::Guest {
            message: format!(
                "a look at a state was not over after {} s: a check that hangs, or one that needs more (--time-limit)",
                self.limit.as_secs()
            ),
            log: String::new(),
        }
    }
}

impl Trial {
    /// Tries the caller's scripts on the files before the command ran and after it had ended: where they fail there, they say
    /// nothing of a power cut.
    ///
    /// # Errors
    /// As [`Linux::run_until`](crate::Linux::run_until), and where they fail.
    pub fn rehearse(&self, kernel: &Kernel, stop: &dyn Fn() -> bool) -> Result<(), LinuxError> {
        let done = self.judged_folder()?.join("rehearsed");
        if done.exists() || self.judging.check.is_none() && self.judging.recover.is_none() {
            return Ok(());
        }
        let task = Task::Rehearse(Box::new(self.task()), Rehearsal { done });
        let mut run = self.guest(&task, "rehearse")?;
        // Two looks.
        run.limits.wall = self.time_limit.checked_mul(2);
        let outcome = run.run_until(kernel, stop)?;
        if outcome.ended.success() { Ok(()) } else { Err(failed_inside(&outcome)) }
    }

    /// Looks at every state of this shard that was not looked at before. `stop` is asked many times a second.
    ///
    /// # Errors
    /// As [`Linux::run_until`](crate::Linux::run_until).
    pub fn judge(
        &self,
        kernel: &Kernel,
        stop: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Summary, LinuxError> {
        let folder = self.judged_folder()?;
        let before = Summary::read(&folder)?;
        let known: Vec<String> = before.verdicts.keys().cloned().collect();
        let (shard, shards) = (self.shard.0, self.shard.1.max(1));
        let guests = self.guests.max(1);
        let next = verdicts::files(&folder)?.len();
        let mut runs = Vec::new();
        for guest in 0..guests {
            let number = next + guest;
            let beat = Beat::new(self.folder.join(format!("task-beat-{shard}-{guest}.json")), self.time_limit);
            let task = Task::Judge(Box::new(Judge {
                first: shard + shards * guest,
                step: shards * guests,
                verdicts: folder.join(format!("verdicts-{shard}-{number}.jsonl")),
                known: known.clone(),
                beat: beat.path.clone(),
                ..self.task()
            }));
            runs.push((self.guest(&task, &format!("judge-{shard}-{guest}"))?, beat));
        }
        let over = AtomicBool::new(false);
        let results: Vec<Result<Outcome, LinuxError>> = std::thread::scope(|scope| {
            let over = &over;
            let threads: Vec<_> = runs
                .iter()
                .map(|(run, beat)| {
                    scope.spawn(move || {
                        let ends = || stop() || over.load(Ordering::Relaxed) || beat.is_late();
                        let result = run.run_until(kernel, &ends).map_err(|error| match error {
                            LinuxError::Stopped if beat.is_late() => beat.error(),
                            other => other,
                        });
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
                if let Ok(summary) = Summary::read(&folder) {
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
            None => Summary::read(&folder),
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
    /// As [`Linux::run_until`](crate::Linux::run_until).
    pub fn stand(
        &self,
        kernel: &Kernel,
        state: &str,
        command: &[OsString],
        stop: &dyn Fn() -> bool,
    ) -> Result<Outcome, LinuxError> {
        let command = command.iter().map(|word| Text::from(&**word)).collect();
        let smallest = match state.strip_suffix(SMALLEST) {
            None => None,
            Some(bad) => {
                let mut summary = Summary::read(&self.judged_folder()?)?;
                let fault = summary.verdicts.remove(bad).and_then(|verdict| verdict.fault);
                let absent = || LinuxError::Invalid { message: format!("there is no state {state} in this run") };
                Some(fault.and_then(|fault| fault.smallest).ok_or_else(absent)?)
            }
        };
        let stand = Stand { hash: state.to_owned(), smallest, command };
        let task = Task::Stand(Box::new(self.task()), stand);
        let mut run = self.guest(&task, "stand")?;
        run.input = Input::Inherit;
        run.output_streams = OutputStreams::Inherit;
        run.run_until(kernel, stop)
    }

    fn task(&self) -> Judge {
        let judging = &self.judging;
        let own = |text: &str| callers_words::script(&self.linux.folder, text);
        Judge {
            log: self.log(),
            recorded: self.recorded(),
            calls: self.calls(),
            file_system: self.linux.file_system,
            mount_options: self.linux.mount_options.clone(),
            judging: Judging {
                recover: judging.recover.as_deref().map(own),
                check: judging.check.as_deref().map(own),
                ..judging.clone()
            },
            first: 0,
            step: 1,
            beat: PathBuf::new(),
            verdicts: PathBuf::new(),
            known: Vec::new(),
        }
    }
}
