//! Runs of a sweep over the machine's cores: in parallel, resumable, in shards.

use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::results::{RunResult, Store};

use super::{LabError, PlannedRun, simulate};

/// Shard `index` of `count`, from 1: every `count`-th run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// The only shard: everything.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

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

/// What came of it.
#[derive(Debug)]
pub struct PoolOutcome {
    /// The finished runs of this shard, in the plan's order.
    pub runs: Vec<RunResult>,
    /// How many of this shard's runs were not finished before the stop.
    pub unfinished: usize,
}

/// Does every run of the shard that the store does not hold yet.
pub fn execute(plan: &[PlannedRun], store: &Store, options: PoolOptions<'_>) -> Result<PoolOutcome, LabError> {
    let ours: Vec<(usize, &PlannedRun)> =
        plan.iter().enumerate().filter(|(position, _)| options.shard.takes(*position)).collect();
    let mut finished: Vec<Option<RunResult>> = Vec::with_capacity(ours.len());
    for (_, run) in &ours {
        finished.push(store.get(&run.key)?);
    }
    let missing: Vec<usize> = (0..ours.len()).filter(|slot| finished[*slot].is_none()).collect();
    options.observer.begin(ours.len(), ours.len() - missing.len());

    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let slots = Mutex::new(finished);
    let first_error = Mutex::new(None);
    let halted = || options.stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
    let worker = || {
        while !halted() {
            let Some(slot) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let (position, run) = ours[*slot];
            let label = run.point.label();
            let progress = |fraction| options.observer.progress(position, &label, fraction);
            let done = simulate(run, &progress, &halted).and_then(|result| {
                if let Some(result) = &result {
                    store.put(result)?;
                }
                Ok(result)
            });
            match done {
                Ok(Some(result)) => {
                    if let Ok(mut slots) = slots.lock() {
                        slots[*slot] = Some(result);
                    }
                    options.observer.end(position);
                }
                Ok(None) => return,
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    if let Ok(mut first) = first_error.lock() {
                        first.get_or_insert(error);
                    }
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, missing.len().max(1)) {
            scope.spawn(worker);
        }
    });
    if let Some(error) = first_error.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    let slots = slots.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let unfinished = slots.iter().filter(|slot| slot.is_none()).count();
    Ok(PoolOutcome { runs: slots.into_iter().flatten().collect(), unfinished })
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
