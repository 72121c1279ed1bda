//! How many states of a journaling host on a device that keeps order are planned, put together and judged a second, without a mount.
//!
//! `cargo run --release -p plumb-crash --example order_rate [TRANSACTIONS]`

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../tests/support/journal.rs"]
mod journal;

use std::time::Instant;

use crash::{Amount, Rule, Streams, VolatileCache};
use journal::{BLOCK, Host, Played, Policy};

fn main() {
    let transactions = std::env::args().nth(1).map_or(500, |text| text.parse().unwrap());
    let played = Host { policy: Policy::Counted, transactions, mistake: None, seed: 1 }.play();
    println!("rule             generated  distinct    bad  states a second");
    rate("streams", &played, &Streams::new(BLOCK));
    rate("volatile-cache", &played, &VolatileCache::default());
}

fn rate(name: &str, played: &Played, rule: &impl Rule) {
    let (begin, mut bad, mut distinct) = (Instant::now(), 0, 0);
    let plan = played.each_state(rule, Amount::Exhaustive { parts_max: 8 }, |verdict| {
        bad += usize::from(verdict.is_err());
        distinct += 1;
    });
    let rate = f64::from(distinct) / begin.elapsed().as_secs_f64();
    println!("{name:<15} {:>10} {distinct:>9} {bad:>6} {rate:>16.0}", plan.generated);
}
