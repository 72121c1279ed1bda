//! Events per CPU-second of an event loop.
//!
//! *Timers* is the hold model (Jones, "An empirical comparison of priority-queue
//! and event-set implementations", CACM 29(4), 1986): so many timers are
//! pending; the earliest fires and sets one at a random distance. *Messages*
//! passes one token round a ring of tasks at one instant. *Time-outs* sets a
//! timer 30 s ahead and cancels it for every timer that fires.

mod heap;
mod nexo;
mod plumb;

use rand::RngExt;
use sim::rng::Rng;

/// Pending timers, or members of the ring.
const SIZES: [usize; 3] = [64, 1_024, 16_384];
/// Rounds of which the median counts.
const ROUNDS: usize = 7;
/// Events in a round.
const EVENTS: u64 = 1_000_000;

/// The distance to the next timer, in nanoseconds: 1 to 200 000, on average as
/// long as a flash read and a bit. The same sequence for every contender.
struct Delays(Rng);

impl Delays {
    fn new() -> Self {
        Self(sim::rng::stream(1, "delays"))
    }

    fn next_ns(&mut self) -> u64 {
        self.0.random_range(1..=200_000)
    }
}

/// CPU time of this thread in seconds.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Millions of events per CPU-second: the median over the rounds of what `round`
/// reports, which is the number of events it ran.
fn measure(mut round: impl FnMut() -> u64) -> f64 {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let before = cpu_s();
            let events = round();
            events as f64 / (cpu_s() - before) / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}

fn main() {
    println!("millions of events per CPU-second, median of {ROUNDS} rounds of {EVENTS} events\n");
    println!(
        "| pending | BinaryHeap alone: timers | plumb: timers | nexosim: timers | plumb: messages | nexosim: messages | plumb: time-outs |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    for size in SIZES {
        let mut heap = heap::Hold::new(size);
        let heap = measure(|| heap.run(EVENTS));
        let mut timers = plumb::Hold::new(size, false);
        let timers = measure(|| timers.run(EVENTS));
        let mut nexo_timers = nexo::Hold::new(size);
        let nexo_timers = measure(|| nexo_timers.run(EVENTS));
        let mut ring = plumb::Ring::new(size);
        let ring = measure(|| ring.run(EVENTS));
        let mut nexo_ring = nexo::Ring::new(size);
        let nexo_ring = measure(|| nexo_ring.run(EVENTS));
        let mut timeouts = plumb::Hold::new(size, true);
        let timeouts = measure(|| timeouts.run(EVENTS));
        println!(
            "| {size} | {heap:.1} | {timers:.1} | {nexo_timers:.1} | {ring:.1} | {nexo_ring:.1} | {timeouts:.1} |"
        );
    }
}
