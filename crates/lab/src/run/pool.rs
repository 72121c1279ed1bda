//! Runs of a sweep over the machine's cores: in parallel, resumable, in shards.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::results::{ResultError, RunResult, Store};

use super::PlannedRun;
use crate::error::LabError;

/// Shard `index` of `count`, from 1: every `count`-th run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// The only shard: everything.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Its place from 0, and how many there are.
    pub fn place(self) -> (usize, usize) {
        (self.index - 1, self.count)
    }

    fn takes(self, position: usize) -> bool {
        position % self.count == self.index - 1
    }

    /// Whether other shards do the rest.
    pub fn is_part(self) -> bool {
        self.count > 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || format!("`{text}` is not a shard; write I/N with 1 <= I <= N, such as 3/16");
        let (index, count) = text.split_once('/').ok_or_else(fail)?;
        let index = index.trim().parse().map_err(|_| fail())?;
        let count = count.trim().parse().map_err(|_| fail())?;
        if index == 0 || index > count { Err(fail()) } else { Ok(Self { index, count }) }
    }
}

/// Told what happens while runs go on, from any thread.
pub trait Observer: Sync {
    /// The runs of this shard: `total`, of which `done` were finished before.
    fn begin(&self, total: usize, done: usize) {
        let _ = (total, done);
    }
    /// The run at `position` has come this far (0 to 1).
    fn progress(&self, position: usize, label: &str, fraction: f64) {
        let _ = (position, label, fraction);
    }
    /// The run at `position` is finished and kept.
    fn end(&self, position: usize) {
        let _ = position;
    }
}

/// An observer that looks away.
pub struct Quiet;

impl Observer for Quiet {}

/// How to go about it.
#[derive(Clone, Copy)]
pub struct PoolOptions<'a> {
    /// Worker threads; results do not depend on it.
    pub threads: usize,
    /// Which runs are ours.
    pub shard: Shard,
    /// Told of progress.
    pub observer: &'a dyn Observer,
    /// Set by Ctrl-C: finish nothing more, keep what is done.
    pub stop: &'a AtomicBool,
}

/// The runs of one experiment and the folder that keeps them.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// The experiment's name, for the progress; empty where there is only one.
    pub name: &'a str,
    /// Its runs.
    pub plan: &'a [PlannedRun],
    /// Where they are kept.
    pub store: &'a Store,
}

/// What came of one experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOutcome {
    /// Runs of this shard that are finished and kept.
    pub finished: usize,
    /// How many of this shard's runs were not finished before the stop.
    pub unfinished: usize,
}

/// A run that nobody has done yet.
struct Missing<'a> {
    batch: usize,
    position: usize,
    run: &'a PlannedRun,
}

/// Does every run of the shard that its store does not hold yet, the batches'
/// runs in one queue. A fault ends the runs of its own batch only.
pub fn execute(batches: &[Batch<'_>], options: PoolOptions<'_>) -> Vec<Result<PoolOutcome, LabError>> {
    let mut outcomes: Vec<Result<PoolOutcome, LabError>> = Vec::with_capacity(batches.len());
    let mut missing: Vec<Missing<'_>> = Vec::new();
    let mut total = 0;
    for (batch, work) in batches.iter().enumerate() {
        let mut outcome = PoolOutcome { finished: 0, unfinished: 0 };
        let mut fault = None;
        let mut wanted = BTreeSet::new();
        for (_, run) in work.plan.iter().enumerate().filter(|(position, _)| options.shard.takes(*position)) {
            let done = is_done(run, work.store).unwrap_or_else(|error| {
                fault.get_or_insert(error);
                true
            });
            // Two points of the same settings are one run.
            if done || !wanted.insert(&run.key) {
                outcome.finished += 1;
            } else {
                outcome.unfinished += 1;
                missing.push(Missing { batch, position: total, run });
            }
            total += 1;
        }
        outcomes.push(fault.map_or(Ok(outcome), |error| Err(error.into())));
    }
    options.observer.begin(total, total - missing.len());

    let next = AtomicUsize::new(0);
    let faulty: Vec<AtomicBool> = outcomes.iter().map(|outcome| AtomicBool::new(outcome.is_err())).collect();
    let outcomes = Mutex::new(outcomes);
    let settle = |batch: usize, settle: &mut dyn FnMut(&mut Result<PoolOutcome, LabError>)| {
        settle(&mut outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[batch]);
    };
    let worker = || {
        while let Some(item) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (work, fault) = (&batches[item.batch], &faulty[item.batch]);
            let halted = || options.stop.load(Ordering::Relaxed) || fault.load(Ordering::Relaxed);
            if halted() {
                continue;
            }
            let label = format!("{} {}", work.name, item.run.point.label());
            let progress = |fraction| options.observer.progress(item.position, label.trim_start(), fraction);
            let result = item.run.inputs.workload.run(item.run.stand(), &progress, &halted);
            let done = result.and_then(|result| {
                let kept = result.map(|result| work.store.put(item.run.named(result))).transpose()?;
                Ok(kept.is_some())
            });
            match done {
                Ok(false) => {}
                Ok(true) => {
                    settle(item.batch, &mut |outcome| {
                        if let Ok(outcome) = outcome {
                            outcome.finished += 1;
                            outcome.unfinished -= 1;
                        }
                    });
                    options.observer.end(item.position);
                }
                Err(error) => {
                    fault.store(true, Ordering::Relaxed);
                    let mut error = Some(error);
                    settle(item.batch, &mut |outcome| {
                        if outcome.is_ok()
                            && let Some(error) = error.take()
                        {
                            *outcome = Err(error);
                        }
                    });
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, missing.len().max(1)) {
            scope.spawn(worker);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (work, outcome) in batches.iter().zip(&mut outcomes) {
        if let (Err(error), Ok(_)) = (work.store.sync(), &outcome) {
            *outcome = Err(error.into());
        }
    }
    outcomes
}

/// Whether a run is kept that has not to be repeated. One whose program failed has: what it lacked may be there now.
fn is_done(run: &PlannedRun, store: &Store) -> Result<bool, ResultError> {
    if run.point.spec.workload.program.is_none() {
        return Ok(store.contains(&run.key));
    }
    Ok(run.kept(store)?.is_some_and(|kept| kept.failures.is_empty()))
}

/// The finished runs of a shard, in the plan's order.
pub fn finished(plan: &[PlannedRun], store: &Store, shard: Shard) -> Result<Vec<RunResult>, ResultError> {
    let ours = plan.iter().enumerate().filter(|(position, _)| shard.takes(*position));
    ours.filter_map(|(_, run)| run.kept(store).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_partition() {
        let shards: Vec<Shard> = ["1/3", "2/3", "3/3"].iter().map(|text| text.parse().unwrap()).collect();
        for position in 0..100 {
            assert_eq!(shards.iter().filter(|shard| shard.takes(position)).count(), 1);
        }
        for bad in ["0/3", "4/3", "3", "a/b", "1/0", ""] {
            assert!(bad.parse::<Shard>().is_err(), "{bad} was accepted");
        }
    }
}
