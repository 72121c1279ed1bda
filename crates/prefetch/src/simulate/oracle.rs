//! Perfect foresight within the same budget.

use super::machine::Machine;
use super::outcome::Outcome;
use super::run::{Driver, Run};
use super::trace::Trace;

/// How many steps are looked at together, whose pages are then loaded in order of the file: few are there in time, many make long
/// requests.
const BATCHES: [usize; 4] = [4, 32, 256, MOST];
const MOST: usize = 4096;

/// What could be had at best: what will be read is loaded before, as far ahead as the budget allows. Of several ways
/// to do that, the fastest.
///
/// The cache drops its least recently used pages here, too: choosing what leaves is the kernel's business, not a prefetcher's.
pub fn oracle(trace: &Trace, machine: &Machine) -> Outcome {
    // Where a page more costs less than a request more, requests are worth joining.
    let worth = machine.latency_ns / machine.queue_depth.max(1) as u64 / machine.transfer_ns(1).max(1);
    let ways = BATCHES.map(|batch| (batch, 0)).into_iter().chain([(MOST, worth)]);
    let run = |(batch, gap_pages)| Run::new(trace, machine, Driver::Oracle { batch, gap_pages }).finish().0;
    ways.map(run).min_by_key(|outcome| outcome.time_ns).unwrap_or_default()
}
