//! States of ext4 that `plumb crash` judges without a kernel, and what came of it.

use std::fmt::Write;

use crash::{LyingCache, ProtectedCache, Rule, State, Streams, VolatileCache};
use ext4_states::{Bad, Counts, Judged, Judgement, OfflineError, Progress, Scripts};
use linux::crash::{CallersScripts, RecordedRun, Survival, Trial};

use super::crash_report::bad_state;
use super::linux::failure;
use crate::failure::Failure;

/// Bad states of a kind that are kept for each part of the work.
const SHOWN_MAX: usize = 3;

/// What was found.
pub struct Offline {
    counts: Counts,
    shown: Vec<Bad>,
}

/// How many states are generated, and what looks at them.
pub struct Asked {
    /// More or less.
    pub states: u64,
    /// Of the sample.
    pub seed: u64,
    /// Whether each bad state is kept, and not some for each kind.
    pub all: bool,
    /// At a time.
    pub threads: usize,
    /// The caller's scripts that look at each of them, on this machine.
    pub scripts: Option<CallersScripts>,
}

/// Judges states of what a trial recorded; nothing where somebody asked to stop.
pub fn judge(
    trial: &Trial,
    asked: &Asked,
    stop: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Offline>, Failure> {
    let run = trial.recorded_run().map_err(failure)?;
    let unit_bytes = run.log.log.unit_bytes();
    let found = match trial.judging.survival {
        Survival::Streams => by(trial, &run, asked, &Streams::new(unit_bytes), stop, progress),
        Survival::ProtectedCache => by(trial, &run, asked, &ProtectedCache::default(), stop, progress),
        Survival::LyingCache => by(trial, &run, asked, &LyingCache::of_a_cheap_drive(run.first), stop, progress),
        Survival::Auto | Survival::VolatileCache => by(trial, &run, asked, &VolatileCache::default(), stop, progress),
    };
    match found {
        Ok((counts, shown)) => Ok(Some(Offline { counts, shown })),
        Err(OfflineError::Stopped) => Ok(None),
        Err(error @ (OfflineError::System { .. } | OfflineError::Late(_))) => Err(Failure::Machine(error.to_string())),
        Err(error) => Err(Failure::input(error.to_string())),
    }
}

fn by<R: Rule + Sync>(
    trial: &Trial,
    run: &RecordedRun,
    asked: &Asked,
    rule: &R,
    stop: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(Progress),
) -> Result<(Counts, Vec<Bad>), OfflineError> {
    let scripts = asked.scripts.as_ref().map(|callers| Scripts {
        texts: [(Judged::Recover, "--recover", &callers.recover), (Judged::Check, "--check", &callers.check)]
            .into_iter()
            .filter_map(|(judged, name, text)| Some((judged, name, text.clone()?)))
            .collect(),
        environment: &callers.environment,
        acknowledged: &run.acknowledged,
        time_limit: trial.time_limit,
    });
    // Verdicts of scripts have a folder for each way of judging, as those under the kernel do.
    let folder = match &asked.scripts {
        Some(callers) => trial.folder.join(format!("offline-{}", callers.name)),
        None => trial.folder.join("offline"),
    };
    let judgement = Judgement {
        log: &run.log,
        from: run.first,
        device: run.device,
        calls: trial.judging.files.then_some(&run.calls),
        fsck: trial.judging.fsck,
        scripts: scripts.as_ref(),
        atomic_bytes: trial.judging.atomic_bytes,
        states: asked.states,
        seed: asked.seed,
        shown_max: if asked.all { usize::MAX } else { SHOWN_MAX },
        threads: asked.threads,
        folder: &folder,
        name: &format!(
            "survives {}\nfiles {} fsck {}",
            trial.judging.survival, trial.judging.files, trial.judging.fsck
        ),
        defect: None,
    };
    ext4_states::judge(&judgement, rule, stop, progress)
}

/// States that the kernel is asked about, too.
const BROUGHT_MAX: usize = 24;

impl Offline {
    /// Some of those that are bad or unread, for the kernel to mount: with its word their cause is known.
    pub fn for_the_kernel(&self) -> Vec<State> {
        self.in_order().take(BROUGHT_MAX).map(|bad| bad.state.clone()).collect()
    }

    /// Those that were made small first: they say most.
    fn in_order(&self) -> impl Iterator<Item = &Bad> {
        let mut shown: Vec<&Bad> = self.shown.iter().collect();
        shown.sort_by_key(|bad| (bad.smallest.is_none(), bad.state.entries));
        shown.into_iter()
    }

    /// Whether a state is bad.
    pub fn is_bad(&self) -> bool {
        self.counts.bad > 0
    }

    /// Whether every state could be read.
    pub fn is_whole(&self) -> bool {
        self.counts.unread == 0
    }

    /// A table, and the first bad states.
    pub fn text(&self, mounted: usize, show: usize) -> String {
        let Counts { generated, distinct, recovered, recovered_files, checked, scripted, bad, unread } = self.counts;
        let mut text = String::from("without a kernel:\n");
        let rows = [
            ("generated", generated),
            ("distinct", distinct),
            ("distinct metadata after recovery", recovered),
            ("distinct files after recovery", recovered_files),
            ("looked at by e2fsck", checked),
            ("looked at by --check and its like", scripted),
            ("bad", bad),
            ("left to the kernel", unread),
            ("mounted by the kernel", mounted as u64),
        ];
        for (name, count) in rows {
            let _ = writeln!(text, "  {name:<34} {count:>10}");
        }
        for bad in self.in_order().take(show) {
            text.push('\n');
            let cut = (bad.state.entries, bad.state.survivors.lost(), bad.state.survivors.parts());
            bad_state(&mut text, &bad.state.name(), cut, said_by(bad.by), &bad.what);
            if let Some(lost) = &bad.smallest {
                let _ =
                    writeln!(text, "  it is enough that these entries of the log are lost, whole or in part: {lost:?}");
            }
        }
        text
    }

    /// One object.
    pub fn json(&self) -> serde_json::Value {
        let shown: Vec<serde_json::Value> = self.shown.iter().map(shown).collect();
        serde_json::json!({ "counts": self.counts, "shown": shown })
    }
}

fn shown(bad: &Bad) -> serde_json::Value {
    let Bad { state, by, what, smallest } = bad;
    serde_json::json!({
        "state": state.name(),
        "entries": state.entries,
        "until": state.until,
        "lost": state.survivors.lost(),
        "parts": state.survivors.parts(),
        "by": by,
        "what": what,
        "smallest": smallest,
    })
}

fn said_by(judged: Judged) -> &'static str {
    match judged {
        Judged::Journal => "the journal's replay",
        Judged::Fsck => "e2fsck",
        Judged::Files => "the durability guarantees of fsync and its like",
        Judged::Recovery => "e2fsck's replay, beside ours,",
        Judged::Recover => "--recover",
        Judged::Check => "--check",
        Judged::Unread => "nobody: only the kernel can judge it, since the reader",
    }
}
