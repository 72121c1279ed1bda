//! One operation at a time, each on a zone of its own.
//!
//! As the published tool does it: the zone is opened by command, written with
//! one write in flight, left alone for a second, and then the operation is sent.

use std::cell::RefCell;
use std::rc::Rc;

use block::{BioOp, ZoneOp};
use units::Nanos;
use workload::zoned::{Bench, CommandError, Rig, Zone};

use super::{Simulator, Unfit};
use crate::validate::case::{Occupancy, Timed, TimedOperation};
use crate::validate::figure::Figures;
use crate::validate::hosts::Host;

/// How often an operation is timed: enough for a 95th percentile.
const TIMES: u64 = 40;

/// How long a zone is left alone before the operation.
const PAUSE: Nanos = Nanos::from_secs(1);

/// Virtual time between two looks at the stop flag.
const SLICE: Nanos = Nanos::from_secs(5);

pub(super) fn run(simulator: &Simulator<'_>, timed: &Timed) -> Result<Figures, Unfit> {
    let profile = simulator.profile(&[])?;
    let mut bench = Bench::new(&profile, 1, simulator.host(Host::Spdk), None)?;
    let zones = bench.rig.zones;
    let blocks = zones.capacity_bytes / zones.block_bytes;
    let written_blocks = match timed.occupancy {
        Occupancy::Fraction(fraction) => (fraction * blocks as f64).round() as u64,
        Occupancy::Blocks(written) if written > blocks => {
            return Err(Unfit(format!("{written} blocks are more than a zone's capacity, {blocks} blocks")));
        }
        Occupancy::Blocks(written) => written,
        Occupancy::Implied if timed.operation == TimedOperation::Open => 0,
        Occupancy::Implied => blocks - 1,
    };
    check(timed.operation, written_blocks, blocks)?;
    let times = timed.times.clamp(1, TIMES).min(zones.count.into()) as u32;
    let samples: Rc<RefCell<Vec<f64>>> = Rc::default();
    let failure: Rc<RefCell<Option<CommandError>>> = Rc::default();
    let (rig, kept, failed) = (bench.rig.clone(), samples.clone(), failure.clone());
    let timed = *timed;
    bench.rig.sim.spawn(async move {
        for zone in 0..times {
            match once(&rig, timed.operation, Zone(zone), written_blocks).await {
                Ok(latency) => kept.borrow_mut().push(latency.0 as f64 / 1e3),
                Err(reason) => {
                    *failed.borrow_mut() = Some(reason);
                    return;
                }
            }
        }
    });
    let mut deadline = SLICE;
    while bench.executor.run_tasks(deadline) > 0 {
        if (simulator.halted)() {
            return Err(Unfit("interrupted".to_owned()));
        }
        deadline += SLICE;
    }
    if let Some(reason) = failure.borrow_mut().take() {
        return Err(reason.into());
    }
    Ok(Figures::of_samples(&samples.borrow()))
}

/// Whether the operation makes sense on a zone that holds so much.
fn check(operation: TimedOperation, written: u64, blocks: u64) -> Result<(), Unfit> {
    use TimedOperation as Op;
    let (least, most) = match operation {
        Op::Finish | Op::Reset => (0, blocks),
        Op::ResetAfterFinish | Op::Open => (0, blocks - 1),
        Op::CloseAfterImplicitOpen | Op::CloseAfterExplicitOpen => (0, blocks - 1),
        Op::WriteAfterCloseImplicitOpen | Op::WriteAfterCloseExplicitOpen => (1, blocks - 1),
    };
    if (least..=most).contains(&written) {
        return Ok(());
    }
    Err(Unfit(format!("{operation:?} has no meaning on a zone with {written} of {blocks} blocks written")))
}

/// Prepares a zone, waits, and times the operation.
async fn once(rig: &Rig, operation: TimedOperation, zone: Zone, written_blocks: u64) -> Result<Nanos, CommandError> {
    use TimedOperation as Op;
    let bytes = written_blocks * rig.zones.block_bytes;
    let full = bytes == rig.zones.capacity_bytes;
    let implicit = matches!(operation, Op::CloseAfterImplicitOpen | Op::WriteAfterCloseImplicitOpen | Op::Open);
    if !implicit && written_blocks > 0 {
        rig.manage(ZoneOp::Open, zone).await?;
    }
    rig.fill(zone, bytes).await?;
    match operation {
        Op::ResetAfterFinish => rig.manage(ZoneOp::Finish, zone).await?,
        Op::CloseAfterExplicitOpen if written_blocks == 0 => rig.manage(ZoneOp::Open, zone).await?,
        Op::WriteAfterCloseImplicitOpen | Op::WriteAfterCloseExplicitOpen => rig.manage(ZoneOp::Close, zone).await?,
        // An open counts on a zone that is not open yet.
        Op::Open if written_blocks > 0 => rig.manage(ZoneOp::Close, zone).await?,
        _ => {}
    }
    rig.sim.sleep(PAUSE).await;
    let path = rig.path;
    let began = rig.sim.now();
    rig.sim.sleep(path.submit).await;
    match operation {
        Op::Finish => rig.manage(ZoneOp::Finish, zone).await?,
        Op::Reset | Op::ResetAfterFinish => rig.manage(ZoneOp::Reset, zone).await?,
        Op::Open => rig.manage(ZoneOp::Open, zone).await?,
        Op::CloseAfterImplicitOpen | Op::CloseAfterExplicitOpen => rig.manage(ZoneOp::Close, zone).await?,
        Op::WriteAfterCloseImplicitOpen | Op::WriteAfterCloseExplicitOpen => {
            rig.command(0, BioOp::Write, zone, bytes, rig.zones.block_bytes).await?;
        }
    }
    rig.sim.sleep(path.delay + path.complete).await;
    let latency = rig.sim.now().since(began);
    // Leaves no open zone behind.
    let open = matches!(operation, Op::Open | Op::CloseAfterExplicitOpen | Op::CloseAfterImplicitOpen) && !full;
    if open {
        rig.manage(ZoneOp::Reset, zone).await?;
    }
    Ok(latency)
}
