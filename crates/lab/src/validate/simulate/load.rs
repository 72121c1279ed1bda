//! One kind of operation from several threads, each on zones of its own.

use std::cell::Cell;
use std::rc::Rc;

use units::Nanos;
use workload::zoned::{Bench, Operation, StreamPlan, Window, start};

use super::{Simulator, Unfit, full_zones};
use crate::validate::case::Load;
use crate::validate::figure::{Figure, Figures};
use crate::validate::hosts::Host;

/// Virtual time before anything counts: buffers fill, queues settle.
const WARM_UP: Nanos = Nanos::from_millis(100);
/// At least this long, ...
const LEAST: Nanos = Nanos::from_millis(200);
/// ... until so many operations were counted, ...
const ENOUGH: u64 = 20_000;
/// ... and no longer than this.
const MOST: Nanos = Nanos::from_secs(3);

pub(super) fn run(simulator: &Simulator<'_>, load: &Load) -> Result<Figures, Unfit> {
    let changes = if load.operation == Operation::Read { full_zones(load.threads) } else { Vec::new() };
    let profile = simulator.profile(&changes)?;
    let mut bench = Bench::new(
        &profile,
        load.threads,
        simulator.host(load.stack.host.unwrap_or(Host::Spdk)),
        load.stack.block_layer(),
    )?;
    let zones = bench.rig.zones;
    zones.check_block(load.operation, load.block_bytes)?;
    let limit = zones.max_open.unwrap_or(zones.count).min(zones.count);
    if load.operation != Operation::Read && load.threads > limit {
        return Err(Unfit(format!("{} zones at once; the device lets {limit} be open", load.threads)));
    }
    if load.threads > zones.count {
        return Err(Unfit(format!("{} zones at once; the device has {}", load.threads, zones.count)));
    }
    // Reads: each job its own zone. Writes and appends: each its own range.
    let plan = StreamPlan {
        operation: load.operation,
        block_bytes: load.block_bytes,
        threads: load.threads,
        queue_depth: load.queue_depth,
        padding_bytes: None,
        limit_per_s: None,
        first_zone: 0,
        zones: if load.operation == Operation::Read { load.threads } else { zones.count },
        first_cpu: 0,
        from: Nanos::ZERO,
        until: Nanos::MAX,
        name: "load",
    };
    let window = Window { from: Rc::new(Cell::new(WARM_UP)), to: Rc::new(Cell::new(Nanos::MAX)) };
    let tally = start(&bench.rig, &plan, &window);
    let mut now = WARM_UP;
    bench.executor.run_until(now);
    while now < WARM_UP + MOST {
        now += LEAST;
        bench.executor.run_until(now);
        let tally = tally.borrow();
        if tally.latency.count() >= ENOUGH || tally.failure.is_some() || tally.exhausted {
            break;
        }
        if (simulator.halted)() {
            return Err(Unfit("interrupted".to_owned()));
        }
    }
    let tally = tally.borrow();
    if let Some(failure) = &tally.failure {
        return Err(failure.clone().into());
    }
    let count = tally.latency.count();
    if count == 0 {
        return Err(Unfit(format!("not one operation was done in {now}")));
    }
    // Zones that ran out end the run early.
    let end = if tally.exhausted { tally.last_at } else { now };
    let mut figures = Figures::default();
    figures.put(Figure::Iops, Some(count as f64 / end.since(WARM_UP).as_secs_f64().max(1e-9)));
    figures.put_latency(&tally.latency);
    Ok(figures)
}
