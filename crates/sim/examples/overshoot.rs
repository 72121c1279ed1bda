//! How late timers fire on the wall clock of this machine, by spin window.
//!
//!     cargo run --release -p plumb-sim --example overshoot

use sim::{Executor, WallConfig};
use units::Nanos;

fn main() {
    println!("{:>10} {:>10} {:>10} {:>10} {:>10}", "spin", "p50", "p90", "p99", "max");
    for spin in [0, 20, 50, 100] {
        let spin_ns = Nanos::from_micros(spin);
        let mut executor = Executor::new_wall_with(WallConfig { spin_ns });
        let handle = executor.handle();
        let mut late = executor.block_on(async {
            let mut late = Vec::new();
            for round in 0..4_000_u64 {
                // Distances of 60 to 459 us, about a flash operation.
                let at = handle.now() + Nanos::from_micros(60 + round * 37 % 400);
                handle.sleep_until(at).await;
                late.push(handle.now() - at);
            }
            // The first timers teach the executor how late it is woken.
            late.split_off(400)
        });
        late.sort_unstable();
        let at = |percent: usize| late[(late.len() - 1) * percent / 100].to_string();
        println!("{:>10} {:>10} {:>10} {:>10} {:>10}", spin_ns.to_string(), at(50), at(90), at(99), at(100));
    }
}
