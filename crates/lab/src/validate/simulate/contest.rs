//! A victim, with or without an interferer beside it.
//!
//! As the published job files do it: the first part of the zones is the
//! management stream's (full for resets, empty for finishes, each of which
//! writes one block first), the rest belongs to the other stream, full where it
//! reads.

use std::cell::Cell;
use std::rc::Rc;

use units::Nanos;
use workload::zoned::{Bench, Operation, StreamPlan, Tally, Window, Zones, start};

use super::{Peaks, Simulator, Unfit, designs, full_zones};
use crate::validate::case::{Contest, Rate, Stream};
use crate::validate::figure::{Figure, Figures};
use crate::validate::hosts::Host;

/// When the streams begin to count, in a window of the steady state.
const WARM_UP: Nanos = Nanos::from_millis(250);
/// When the victim of finishes begins to count, in a whole run: `ramp_time` of
/// the published job files, where the other jobs have none.
const RAMP: Nanos = Nanos::from_secs(5);
/// Least length of the window with an interferer, and without.
const LEAST_DISTURBED: Nanos = Nanos::from_secs(2);
const LEAST_ALONE: Nanos = Nanos::from_millis(500);
/// I/Os to see before the end, where nothing disturbs.
const IOS_ALONE: u64 = 200_000;
/// Management operations to see before the end, where they are the victim and
/// where they disturb.
const OPERATIONS_OF_VICTIM: u64 = 12;
const OPERATIONS_OF_INTERFERER: u64 = 2;
/// Management operations a second that a device may well reach.
const UNLIMITED_PER_S: f64 = 100.0;
/// The end of a window in any case.
const MOST: Nanos = Nanos::from_secs(120);
/// Virtual time between two looks at how far it is.
const SLICE: Nanos = Nanos::from_millis(10);

pub(super) fn run(simulator: &Simulator<'_>, contest: &Contest, peaks: &Peaks<'_>) -> Result<Figures, Unfit> {
    let streams: Vec<&Stream> = [Some(&contest.victim), contest.interferer.as_ref()].into_iter().flatten().collect();
    let count = zone_count(simulator)?;
    let shares = shares(&streams, count)?;
    let mut changes = designs(contest, simulator.device);
    changes.extend(full_zones(filled(&streams, &shares)));
    let profile = simulator.profile(&changes)?;
    let threads: u32 = streams.iter().map(|stream| stream.threads).sum();
    let usual = if contest.emulated { Host::VirtualMachine } else { Host::IoUringCmd };
    let host = simulator.host(contest.stack.host.unwrap_or(usual));
    let mut bench = Bench::new(&profile, threads, host, contest.stack.block_layer())?;
    check(&streams, &bench.rig.zones)?;

    let limit = limit(contest, peaks)?;
    let least = match (&contest.interferer, limit) {
        (None, _) => LEAST_ALONE,
        (Some(_), None) => LEAST_DISTURBED,
        // Whole periods, so that as much is seen of each part of one.
        (Some(_), Some(rate)) => {
            let periods = (LEAST_DISTURBED.as_secs_f64() * rate).ceil().max(1.0);
            Nanos((periods * 1e9 / rate) as u64)
        }
    };
    // A run with hardly an operation of the interferer has no steady state.
    let whole = contest.runtime_s.filter(|_| contest.short || least > MOST);
    let whole = whole.map(|runtime_s| Nanos((runtime_s * 1e9) as u64));
    if whole.is_none() && least > MOST {
        return Err(Unfit(format!("one operation of the interferer takes {least}; more than {MOST} is not simulated")));
    }
    let (from, least) = match whole {
        None if soon_over(&streams, &shares, limit, WARM_UP + least) => (Nanos::ZERO, least),
        None => (WARM_UP, least),
        Some(runtime) if contest.interferer.is_some_and(|stream| stream.operation == Operation::Finish) => {
            (RAMP, runtime)
        }
        Some(runtime) => (Nanos::ZERO, runtime),
    };
    let window = Window { from: Rc::new(Cell::new(from)), to: Rc::new(Cell::new(Nanos::MAX)) };
    let mut cpu = 0;
    let mut tallies = Vec::new();
    for (index, (stream, share)) in streams.iter().zip(&shares).enumerate() {
        let disturbs = index == 1;
        let plan = StreamPlan {
            operation: stream.operation,
            block_bytes: stream.block_bytes,
            threads: stream.threads,
            queue_depth: stream.queue_depth,
            padding_bytes: stream.padding_bytes,
            limit_per_s: limit.filter(|_| stream.rate != Rate::Unlimited),
            first_zone: share.start,
            zones: share.end - share.start,
            first_cpu: cpu,
            from: Nanos::ZERO,
            until: if disturbs && contest.active < 1.0 {
                from + Nanos((least.0 as f64 * contest.active) as u64)
            } else {
                Nanos::MAX
            },
            name: if disturbs { "interferer" } else { "victim" },
        };
        cpu += stream.threads as u16;
        tallies.push(start(&bench.rig, &plan, &window));
    }

    let victim_wants = match &contest.interferer {
        _ if contest.victim.operation.is_management() => OPERATIONS_OF_VICTIM,
        None => IOS_ALONE,
        Some(_) => 1,
    };
    let interferer_wants = match &contest.interferer {
        Some(stream) if stream.operation.is_management() && contest.active >= 1.0 && whole.is_none() => {
            OPERATIONS_OF_INTERFERER
        }
        _ => 0,
    };
    let mut now = from;
    bench.executor.run_until(now);
    let mut end = from + least;
    loop {
        while now < end {
            now = (now + SLICE).min(end);
            bench.executor.run_until(now);
            if (simulator.halted)() {
                return Err(Unfit("interrupted".to_owned()));
            }
            if let Some(failure) = tallies.iter().find_map(|tally| tally.borrow().failure.clone()) {
                return Err(failure.into());
            }
            if tallies.iter().any(|tally| tally.borrow().exhausted) {
                break;
            }
        }
        let exhausted = tallies.iter().any(|tally| tally.borrow().exhausted);
        let seen = |index: usize| tallies.get(index).map_or(0, |tally| tally.borrow().latency.count());
        let enough = seen(0) >= victim_wants && seen(1) >= interferer_wants;
        if enough || exhausted || whole.is_some() || now >= MOST {
            break;
        }
        end = (now + SLICE * 20).min(MOST);
    }

    let victim = tallies[0].borrow();
    if victim.latency.is_empty() {
        return Err(Unfit(format!("not one {} was done in {now}", contest.victim.operation)));
    }
    let mut figures = Figures::default();
    let rate = |tally: &Tally, management: bool, end: Nanos| {
        let count = tally.latency.count();
        let between = tally.last_at.since(tally.first_at).as_secs_f64();
        if management && whole.is_none() && count >= 2 && between > 0.0 {
            // From completion to completion: a window cuts long operations.
            (count - 1) as f64 / between
        } else {
            count as f64 / end.since(from).as_secs_f64().max(1e-9)
        }
    };
    figures.put(Figure::Iops, Some(rate(&victim, contest.victim.operation.is_management(), now)));
    // No latency of a finish is ever measured by fio, but the model has it.
    figures.put_latency(&victim.latency);
    if let (Some(stream), Some(tally)) = (&contest.interferer, tallies.get(1)) {
        let tally = tally.borrow();
        let ran = from + Nanos((now.since(from).0 as f64 * contest.active) as u64);
        let per_s = match whole {
            // The interferer counts from its own start.
            Some(_) => tally.completed as f64 / now.as_secs_f64().max(1e-9),
            None => rate(&tally, stream.operation.is_management(), ran),
        };
        figures.put(Figure::InterfererPerS, Some(per_s));
        if !tally.latency.is_empty() {
            figures.put(Figure::InterfererMean, Some(tally.latency.mean_ns() / 1e3));
            figures.put(Figure::InterfererP95, Some(tally.latency.percentile(95.0).0 as f64 / 1e3));
        }
    }
    Ok(figures)
}

/// Operations a second that the interferer may do; `None` where it is not limited.
fn limit(contest: &Contest, peaks: &Peaks<'_>) -> Result<Option<f64>, Unfit> {
    let Some(stream) = contest.limited() else { return Ok(None) };
    match stream.rate {
        Rate::Unlimited => Ok(None),
        Rate::PerSecond(rate) => Ok(Some(rate)),
        Rate::PercentOfPeak(percent) => match peaks(contest) {
            Some(peak) if peak > 0.0 => Ok(Some(peak * percent / 100.0)),
            _ => Err(Unfit(format!("the rate of {}s alone is not known", stream.operation))),
        },
    }
}

/// Whether zones to manage run out within `time`: on a small device everything
/// counts from the start.
fn soon_over(streams: &[&Stream], shares: &[std::ops::Range<u32>], limit: Option<f64>, time: Nanos) -> bool {
    let managing = streams.iter().zip(shares).enumerate().filter(|(_, (stream, _))| stream.operation.is_management());
    managing.into_iter().any(|(index, (_, share))| {
        let per_s = limit.filter(|_| index == 1).unwrap_or(UNLIMITED_PER_S);
        f64::from(share.end - share.start) < per_s * time.as_secs_f64()
    })
}

fn zone_count(simulator: &Simulator<'_>) -> Result<u32, Unfit> {
    Ok(Bench::new(&simulator.profile(&[])?, 1, Host::None.path(), None)?.rig.zones.count)
}

/// The zones of each stream.
fn shares(streams: &[&Stream], count: u32) -> Result<Vec<std::ops::Range<u32>>, Unfit> {
    let too_few = |wanted: u32| Unfit(format!("{wanted} zones are needed at least; the device has {count}"));
    let threads: u32 = streams.iter().map(|stream| stream.threads).sum();
    if threads > count {
        return Err(too_few(threads));
    }
    match streams {
        [_] => Ok(std::iter::once(0..count).collect()),
        [victim, other] => {
            // What is full at the start lies first: resets before reads.
            let rank = |stream: &Stream| match stream.operation {
                Operation::Reset => 0,
                Operation::Read => 1,
                Operation::Finish => 2,
                Operation::Write | Operation::Append => 3,
            };
            let (low, high) = (0..count / 2, count / 2..count);
            let fits = |stream: &Stream, share: &std::ops::Range<u32>| stream.threads <= share.end - share.start;
            let (mine, others) = if rank(victim) <= rank(other) { (low, high) } else { (high, low) };
            if fits(victim, &mine) && fits(other, &others) { Ok(vec![mine, others]) } else { Err(too_few(threads * 2)) }
        }
        _ => unreachable!("a contest has one stream or two"),
    }
}

/// How many zones, from the first on, are full at the start.
fn filled(streams: &[&Stream], shares: &[std::ops::Range<u32>]) -> u32 {
    let full =
        streams.iter().zip(shares).filter(|(stream, _)| matches!(stream.operation, Operation::Reset | Operation::Read));
    full.map(|(_, share)| share.end).max().unwrap_or(0)
}

/// Whether the device can run these streams at all.
fn check(streams: &[&Stream], zones: &Zones) -> Result<(), Unfit> {
    let mut open = 0;
    for stream in streams {
        if stream.operation != Operation::Reset {
            let block = if stream.operation == Operation::Finish { zones.block_bytes } else { stream.block_bytes };
            zones.check_block(stream.operation, block)?;
        }
        if let Some(bytes) = stream.padding_bytes {
            zones.check_block(Operation::Write, bytes)?;
        }
        open += match stream.operation {
            Operation::Write | Operation::Append | Operation::Finish => stream.threads,
            Operation::Read | Operation::Reset => 0,
        };
    }
    match zones.max_open {
        Some(limit) if open > limit => {
            Err(Unfit(format!("{open} zones are written at once; the device lets {limit} be open")))
        }
        _ => Ok(()),
    }
}
