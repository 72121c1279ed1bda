//! Perfect foresight within the same budget.

use super::machine::Machine;
use super::outcome::Outcome;
use super::run::{Driver, Run};
use super::trace::Trace;

/// How many steps are looked at together, whose pages are then loaded in order of the file: few are there in time, many make long
/// requests.
const BATCHES: [usize; 4] = [4, 32, 256, 4096];

/// What could be had at best: what will be read is loaded before, as far ahead as the budget allows, nothing else is. Of several ways
/// to do that, the fastest.
///
/// The cache drops its least recently used pages here, too: choosing what leaves is the kernel's business, not a prefetcher's.
pub fn oracle(trace: &Trace, machine: &Machine) -> Outcome {
    let runs = BATCHES.map(|batch| Run::new(trace, machine, Driver::Oracle { batch }).finish().0);
    runs.into_iter().min_by_key(|outcome| outcome.time_ns).unwrap_or_default()
}
