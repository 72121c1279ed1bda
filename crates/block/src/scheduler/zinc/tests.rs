//! ZINC by itself: its rules, the bound on waiting, and what the published code does.

use rand::RngExt;

use super::*;
use crate::config::NoMerges;
use crate::scheduler::bench::Bench;

const RESET_OP: BioOp = BioOp::Zone(ZoneOp::Reset);
const FINISH_OP: BioOp = BioOp::Zone(ZoneOp::Finish);
/// Sectors of a write unit.
const UNIT: u64 = 16;
const PERIOD: Nanos = Nanos::from_millis(1);

fn tunables(command_tokens: u64, minimum_concurrency: u64, maximum_epoch_holds: u32) -> ZincClassConfig {
    ZincClassConfig { epoch_interval: PERIOD, command_tokens, minimum_concurrency, maximum_epoch_holds }
}

fn zinc(variant: Variant, class: &ZincClassConfig) -> Bench<Zinc> {
    let config = ZincConfig { tick: Nanos::ZERO, reset: class.clone(), finish: class.clone() };
    let mut bench = Bench::new(Zinc::new(variant, &config, MqDeadlineConfig::default()));
    bench.pool.nomerges = NoMerges::Never;
    bench
}

/// Both variants agree on what the rules are.
const VARIANTS: [Variant; 2] = [Variant::Described, Variant::Published];

impl Bench<Zinc> {
    fn take(&mut self, now: Nanos) -> Option<Rq> {
        self.scheduler.dispatch(&mut self.pool, 0, now)
    }

    /// Dispatches a write of so many units, which stays in flight.
    fn load(&mut self, units: u64, now: Nanos) -> Rq {
        let rq = self.insert(BioOp::Write, 0, units * UNIT, now);
        assert_eq!(self.take(now), Some(rq));
        rq
    }
}

#[test]
fn a_period_lasts_its_interval_and_a_tick() {
    let length = |millis, tick| {
        period(&ZincClassConfig { epoch_interval: Nanos::from_millis(millis), ..Default::default() }, tick)
    };
    let tick = ZincConfig::default().tick;
    assert_eq!([16, 17, 64].map(|millis| length(millis, tick)), [20, 24, 68].map(Nanos::from_millis));
    assert_eq!(length(64, Nanos::ZERO), Nanos::from_millis(64));
}

/// The middle of a period, counted from 0.
fn within(period: u64) -> Nanos {
    Nanos(PERIOD.0 * period + PERIOD.0 / 2)
}

#[test]
fn management_goes_at_once_below_the_threshold() {
    for variant in VARIANTS {
        for op in [RESET_OP, FINISH_OP] {
            let mut bench = zinc(variant, &tunables(1000, 3, 3));
            bench.load(2, within(0));
            let free = bench.insert(op, 0, 0, within(0));
            assert_eq!(bench.take(within(0)), Some(free), "two units are below three");
            bench.load(1, within(0));
            let held = bench.insert(op, 0, 0, within(0));
            assert_eq!(bench.take(within(0)), None, "three are not");
            assert_eq!(bench.take(within(1)), None);
            assert_eq!(bench.scheduler.known[held].holds, 1);
        }
    }
}

#[test]
fn a_periods_end_looks_by_itself_only_where_no_write_is_in_flight() {
    for variant in VARIANTS {
        let mut bench = zinc(variant, &tunables(1000, 3, 1000));
        let write = bench.load(3, within(0));
        let held = bench.insert(RESET_OP, 0, 0, within(0));
        assert!(!bench.scheduler.tick(within(1)), "the end of the write will ask");
        bench.finish(write);
        assert_eq!(bench.take(within(1)), Some(held), "and finds the flag of the period that ended");
        bench.insert(RESET_OP, 0, 0, within(1));
        assert!(bench.scheduler.tick(within(2)), "nothing else would ask");
    }
}

#[test]
fn a_small_write_counts_one_unit_and_a_read_none() {
    let mut bench = zinc(Variant::Described, &tunables(1000, 1, 3));
    bench.insert(BioOp::Read, 0, 64, within(0));
    bench.take(within(0));
    assert_eq!(bench.scheduler.in_flight_units, 0);
    let small = bench.insert(BioOp::Write, 0, 1, within(0));
    bench.take(within(0));
    assert_eq!(bench.scheduler.in_flight_units, 1);
    bench.insert(BioOp::ZoneAppend, 0, 5 * UNIT - 1, within(0));
    bench.take(within(0));
    assert_eq!(bench.scheduler.in_flight_units, 5);
    bench.finish(small);
    assert_eq!(bench.scheduler.in_flight_units, 4);
}

#[test]
fn tokens_let_one_go() {
    for variant in VARIANTS {
        let mut bench = zinc(variant, &tunables(10, 3, 1000));
        bench.load(10, within(0));
        let first = bench.insert(RESET_OP, 0, 0, within(0));
        assert_eq!(bench.take(within(1)), None, "ten units are not more than ten");
        bench.load(1, within(1));
        assert_eq!(bench.take(within(1)), None, "the flag is down until the period ends");
        assert_eq!(bench.take(within(2)), Some(first));
        // The count starts again, for this class and not for the other.
        bench.insert(RESET_OP, 0, 0, within(2));
        let finish = bench.insert(FINISH_OP, 0, 0, within(2));
        assert_eq!(bench.take(within(3)), Some(finish));
        assert_eq!(bench.take(within(3)), None);
    }
}

#[test]
fn holds_are_counted_per_request_and_bounded() {
    for variant in VARIANTS {
        let mut bench = zinc(variant, &tunables(1000, 3, 3));
        bench.load(3, within(0));
        let early = bench.insert(RESET_OP, 0, 0, within(0));
        for period in 1..=2 {
            assert_eq!(bench.take(within(period)), None);
        }
        let late = (variant == Variant::Described).then(|| bench.insert(RESET_OP, 8, 0, within(2)));
        assert_eq!(bench.take(within(3)), None);
        assert_eq!(bench.scheduler.known[early].holds, 3);
        assert_eq!(bench.take(within(4)), Some(early));
        if let Some(late) = late {
            assert_eq!(bench.scheduler.known[late].holds, 1, "the period of a dispatch holds nothing back");
            assert_eq!((bench.take(within(5)), bench.take(within(6))), (None, None));
            assert_eq!(bench.take(within(7)), Some(late));
        }
        assert_eq!(bench.scheduler.holds(), if late.is_some() { 6 } else { 3 });
    }
}

#[test]
fn many_looks_in_one_period_hold_once() {
    let mut bench = zinc(Variant::Described, &tunables(1000, 3, 3));
    bench.load(3, within(0));
    let reset = bench.insert(RESET_OP, 0, 0, within(0));
    for _ in 0..20 {
        assert_eq!(bench.take(within(1)), None);
    }
    assert_eq!(bench.scheduler.known[reset].holds, 1);
    assert_eq!(bench.scheduler.next_event(), Some(PERIOD * 2));
}

#[test]
fn a_reset_that_ends_in_quiet_lets_the_next_go() {
    for (variant, goes) in [(Variant::Described, true), (Variant::Published, false)] {
        let mut bench = zinc(variant, &tunables(1000, 3, 3));
        let write = bench.load(3, within(0));
        let resets = [0, 8].map(|sector| bench.insert(RESET_OP, sector, 0, within(0)));
        bench.finish(write);
        let first = bench.take(within(1)).unwrap();
        assert!(resets.contains(&first));
        assert_eq!(bench.take(within(1)), None, "one look, one reset");
        bench.finish(first);
        assert_eq!(bench.take(within(1)).is_some(), goes, "{variant:?}");
    }
}

#[test]
fn only_resets_and_finishes_are_held() {
    let others = [
        BioOp::Read,
        BioOp::Write,
        BioOp::ZoneAppend,
        BioOp::Discard,
        BioOp::WriteZeroes,
        BioOp::Zone(ZoneOp::Open),
        BioOp::Zone(ZoneOp::Close),
    ];
    let managed = [RESET_OP, FINISH_OP, BioOp::Zone(ZoneOp::ResetAll)];
    for op in others.into_iter().chain(managed) {
        for variant in VARIANTS {
            let mut bench = zinc(variant, &tunables(1000, 3, 3));
            bench.load(3, within(0));
            let sectors = if matches!(op, BioOp::Zone(_)) { 0 } else { UNIT };
            bench.insert(op, 0, sectors, within(0));
            let held = bench.take(within(0)).is_none();
            let expected = match variant {
                Variant::Described => managed.contains(&op),
                Variant::Published => !matches!(op, BioOp::Read | BioOp::Write),
            };
            assert_eq!(held, expected, "{op:?}, {variant:?}");
            assert!(bench.scheduler.has_work(0) == held);
        }
    }
}

/// Resets come as fast as the rules let them go. How many periods the first waits, of `periods`.
fn wait_of_the_first(variant: Variant, periods: u64) -> Option<u64> {
    let mut bench = zinc(variant, &tunables(u64::MAX, 3, 2));
    bench.load(3, within(0));
    let first = bench.insert(RESET_OP, 0, 0, within(0));
    bench.insert(RESET_OP, 8, 0, within(0));
    for period in 1..periods {
        match bench.take(within(period)) {
            Some(rq) if rq == first => return Some(period),
            // Whoever reset a zone resets the next one, long before the period ends.
            Some(_) => drop(bench.insert(RESET_OP, 16 * period, 0, within(period))),
            None => {}
        }
    }
    None
}

#[test]
fn the_oldest_starves_in_the_published_code_only() {
    assert_eq!(wait_of_the_first(Variant::Described, 10_000), Some(3));
    assert_eq!(wait_of_the_first(Variant::Published, 10_000), None);
}

/// What the checker knows of a management request.
struct Known {
    rq: Rq,
    inserted_at: Nanos,
    /// Requests of its class before it.
    rank: u64,
    /// Looks that let none of its class go.
    holds: u64,
}

/// Runs random traffic through `scheduler` and holds it against the rules with
/// the tunables `told`, from outside: periods are counted on the clock, units
/// from what was given out and ended.
fn judge(variant: Variant, configured: &ZincClassConfig, told: &ZincClassConfig, seed: u64) -> Result<(), String> {
    let mut rng = sim::rng::stream(seed, "zinc");
    let mut bench = zinc(variant, configured);
    let mut waiting: [Vec<Known>; 2] = Default::default();
    let mut since_last = [0_u64; 2];
    let mut period_of_last = [None; 2];
    let mut in_flight: Vec<(Rq, u64)> = Vec::new();
    let (mut now, mut looked_at, mut inserted, mut given) = (Nanos::ZERO, Nanos::ZERO, 0, 0);
    let quiet_from = Nanos(PERIOD.0 * 60);
    while now < Nanos(PERIOD.0 * 400) {
        let step = now + Nanos::from_micros(rng.random_range(1..40));
        let ticks = bench.scheduler.next_event().filter(|tick| *tick <= step);
        now = ticks.unwrap_or(step);
        // The flag is up whenever a period has ended since the last look.
        let flagged = periods_between(looked_at, now) > 0;
        let most_holds = u64::from(told.maximum_epoch_holds);
        if ticks.is_some() {
            bench.scheduler.tick(now);
        } else if now < quiet_from && rng.random_bool(0.45) && in_flight.len() < 30 {
            let sectors = [1, 8, 16, 32, 128][rng.random_range(0..5)];
            bench.insert(BioOp::Write, rng.random_range(0..1000) * 1000, sectors, now);
            inserted += 1;
        } else if now < quiet_from && rng.random_bool(0.05) {
            let class = rng.random_range(0..2);
            let rq = bench.insert([RESET_OP, FINISH_OP][class], 0, 0, now);
            let rank = waiting[class].len() as u64;
            waiting[class].push(Known { rq, inserted_at: now, rank, holds: 0 });
            inserted += 1;
        } else if !in_flight.is_empty() && (now >= quiet_from || rng.random_bool(0.7)) {
            let (rq, _) = in_flight.swap_remove(rng.random_range(0..in_flight.len()));
            bench.finish(rq);
        }
        let units_in_flight: u64 = in_flight.iter().map(|write| write.1).sum();
        let may_go = |class: usize, waiting: &[Vec<Known>; 2], units_in_flight: u64, since_last: &[u64; 2]| {
            units_in_flight < told.minimum_concurrency
                || since_last[class] > told.command_tokens
                || waiting[class][0].holds >= most_holds
        };
        let waits = |class: usize| !waiting[class].is_empty();
        let due: Vec<usize> = (0..2)
            .filter(|class| flagged && waits(*class) && may_go(*class, &waiting, units_in_flight, &since_last))
            .collect();
        let mut served = Vec::new();
        looked_at = now;
        while let Some(rq) = bench.take(now) {
            given += 1;
            let class = match bench.pool.requests[rq].kind {
                Kind::Bio(RESET_OP) => RESET,
                Kind::Bio(FINISH_OP) => FINISH,
                _ => {
                    let units = (bench.pool.requests[rq].bytes / 8192).max(1);
                    in_flight.push((rq, units));
                    since_last.iter_mut().for_each(|since| *since += units);
                    continue;
                }
            };
            let units_in_flight: u64 = in_flight.iter().map(|write| write.1).sum();
            if waiting[class].first().map(|known| known.rq) != Some(rq) {
                return Err("not the oldest".to_owned());
            }
            if !may_go(class, &waiting, units_in_flight, &since_last) {
                return Err(format!("sent after {} holds, {} units", waiting[class][0].holds, since_last[class]));
            }
            let known = waiting[class].remove(0);
            let waited = periods_between(known.inserted_at, now);
            if waited > known.rank + most_holds + 1 {
                return Err(format!("of rank {}, waited {waited} periods", known.rank));
            }
            let loaded = units_in_flight >= told.minimum_concurrency;
            let period = now.0 / PERIOD.0;
            if loaded && period_of_last[class].replace(period) == Some(period) {
                return Err("two in one period under load".to_owned());
            }
            since_last[class] = 0;
            served.push(class);
            bench.finish(rq);
        }
        if due.iter().any(|class| !served.contains(class)) {
            return Err("a period ended, a rule let one go, and none went".to_owned());
        }
        for class in (0..2).filter(|class| flagged && !served.contains(class)) {
            waiting[class].iter_mut().for_each(|known| known.holds += 1);
        }
    }
    if inserted != given { Err(format!("{given} of {inserted} were sent")) } else { Ok(()) }
}

/// Ends of periods after `from`, up to and with `to`.
fn periods_between(from: Nanos, to: Nanos) -> u64 {
    to.0 / PERIOD.0 - from.0 / PERIOD.0
}

#[test]
fn every_request_goes_when_the_rules_say() {
    for seed in 0..60 {
        let tokens = if seed % 2 == 0 { 20 + seed * 3 } else { 5000 };
        let told = tunables(tokens, 1 + seed % 5, (seed % 4) as u32);
        judge(Variant::Described, &told, &told, seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

#[test]
fn a_scheduler_with_a_wrong_rule_is_seen() {
    // Each rule where it decides: with few tokens the tokens, with many the holds.
    let (few, many) = (tunables(100, 3, 30), tunables(5000, 3, 3));
    let mutants = [
        ("a token too many", &few, tunables(101, 3, 30)),
        ("a token too few", &few, tunables(99, 3, 30)),
        ("threshold too high", &many, tunables(5000, 4, 3)),
        ("threshold too low", &many, tunables(5000, 2, 3)),
        ("a hold too many", &many, tunables(5000, 3, 4)),
        ("a hold too few", &many, tunables(5000, 3, 2)),
    ];
    for (name, told, mutant) in mutants {
        assert!((0..60).any(|seed| judge(Variant::Described, &mutant, told, seed).is_err()), "{name}");
    }
    assert!((0..60).any(|seed| judge(Variant::Published, &many, &many, seed).is_err()), "youngest first");
}
