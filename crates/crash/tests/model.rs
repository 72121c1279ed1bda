//! Plans held against the rule as NVMe words it, unit by unit, and broken rules that the comparison must find out.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use crash::{
    Amount, Content, Event, FlushId, Image, Log, LoggedWrite, LyingCache, Moments, ProtectedCache, Rule,
    SUBSETS_WALKED, StatePlan, VolatileCache, WriteId,
};
use proptest::prelude::*;
use units::Nanos;

const UNIT: u64 = 512;
const UNITS: u64 = 6;

/// What a host does: a write of some units, complete the n-th outstanding, flush, complete a flush.
#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, units: u64, fua: bool, zeroes: bool },
    Complete(prop::sample::Index),
    Flush,
    CompleteFlush(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..UNITS, 1..3_u64, prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    proptest::collection::vec(
        prop_oneof![
            4 => write.prop_map(|(at, units, fua, zeroes)| Step::Write { at, units: units.min(UNITS - at), fua, zeroes }),
            4 => any::<prop::sample::Index>().prop_map(Step::Complete),
            1 => Just(Step::Flush),
            1 => any::<prop::sample::Index>().prop_map(Step::CompleteFlush),
        ],
        0..14,
    )
}

/// The log of these steps; a host does not write where a write of its own is outstanding.
fn log_of(steps: &[Step]) -> Log {
    let mut log = Log::new(UNITS * UNIT, UNIT as u32).unwrap();
    let mut writes: Vec<(WriteId, std::ops::Range<u64>)> = Vec::new();
    let mut flushes: Vec<FlushId> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let event = match step {
            Step::Write { at, units, fua, zeroes } => {
                let range = *at..at + units;
                if writes.iter().any(|(_, other)| other.start < range.end && range.start < other.end) {
                    continue;
                }
                let id = log.next_write();
                writes.push((id, range));
                let bytes: Vec<u8> = (0..*units).flat_map(|_| [number as u8 + 1; UNIT as usize]).collect();
                let content = if *zeroes { Content::Zeroes(units * UNIT) } else { Content::Bytes(bytes.into()) };
                Event::write_of(id, at * UNIT, content, *fua)
            }
            Step::Complete(_) if writes.is_empty() => continue,
            Step::Complete(index) => Event::Completed(writes.remove(index.index(writes.len())).0),
            Step::Flush => {
                let id = log.next_flush();
                flushes.push(id);
                Event::FlushSubmitted(id)
            }
            Step::CompleteFlush(_) if flushes.is_empty() => continue,
            Step::CompleteFlush(index) => Event::FlushCompleted(flushes.remove(index.index(flushes.len()))),
        };
        log.push(Nanos(number as u64), event).unwrap();
    }
    log
}

/// A write, as the words of the specification look at it.
struct Version {
    value: u8,
    units: std::ops::Range<u64>,
    fua: bool,
    submitted: usize,
    completed: Option<usize>,
}

/// What makes a write durable.
#[derive(Clone, Copy)]
enum Promise {
    /// A flush, or FUA.
    Flush,
    /// Its completion.
    Completion,
    /// Nothing.
    Nothing,
}

/// What each unit may read as after a cut that follows the first `entries` entries.
fn may_read(log: &Log, entries: usize, promise: Promise) -> Vec<BTreeSet<u8>> {
    let events: Vec<&Event> = log.entries()[..entries].iter().map(|entry| &entry.event).collect();
    let position = |wanted: &Event| events.iter().position(|event| *event == wanted);
    let versions: Vec<Version> = events
        .iter()
        .enumerate()
        .filter_map(|(submitted, event)| match event {
            Event::Write { id, offset_bytes, content, fua, .. } => Some(Version {
                value: if let Content::Bytes(bytes) = content { bytes[0] } else { 0 },
                units: offset_bytes / UNIT..(offset_bytes + content.len_bytes()) / UNIT,
                fua: *fua,
                submitted,
                completed: position(&Event::Completed(*id)),
            }),
            _ => None,
        })
        .collect();
    let flushed = |version: &Version| {
        events.iter().enumerate().any(|(at, event)| match event {
            Event::FlushSubmitted(id) => {
                version.completed.is_some_and(|done| done < at) && position(&Event::FlushCompleted(*id)).is_some()
            }
            _ => false,
        })
    };
    let durable = |version: &Version| match promise {
        Promise::Flush => version.completed.is_some() && (version.fua || flushed(version)),
        Promise::Completion => version.completed.is_some(),
        Promise::Nothing => false,
    };
    (0..UNITS)
        .map(|unit| {
            let here: Vec<&Version> = versions.iter().filter(|version| version.units.contains(&unit)).collect();
            let kept = here.iter().filter(|version| durable(version)).map(|version| version.submitted).max();
            let mut values: BTreeSet<u8> =
                here.iter().filter(|version| Some(version.submitted) >= kept).map(|version| version.value).collect();
            if kept.is_none() {
                values.insert(0);
            }
            values
        })
        .collect()
}

/// Every image that may be left after any cut.
fn expected(log: &Log, promise: Promise) -> BTreeSet<Vec<u8>> {
    let mut images = BTreeSet::new();
    for entries in 0..=log.entries().len() {
        let mut of_this = vec![Vec::new()];
        for values in may_read(log, entries, promise) {
            of_this = of_this
                .iter()
                .flat_map(|image: &Vec<u8>| values.iter().map(|value| [&image[..], &[*value]].concat()))
                .collect();
        }
        images.extend(of_this);
    }
    images
}

/// The images of a plan, each made of the durable bytes at its moment and what survives; with them, until when.
fn images<R: Rule>(log: &Log, rule: &R, plan: &StatePlan) -> Vec<(Vec<u8>, usize)> {
    let mut found = Vec::new();
    let mut walk = Moments::new(log, rule.clone());
    let mut durable = vec![0_u8; UNITS as usize];
    let mut moment = 0;
    while walk.advance() {
        let put = |image: &mut Vec<u8>, pieces: Vec<crash::Piece<'_>>| {
            for piece in pieces {
                for unit in 0..piece.len_bytes / UNIT {
                    let value = piece.bytes().map_or(0, |bytes| bytes[(unit * UNIT) as usize]);
                    image[(piece.offset_bytes / UNIT + unit) as usize] = value;
                }
            }
        };
        for write in walk.settled() {
            put(&mut durable, write.whole());
        }
        for state in plan.states.iter().filter(|state| state.moment == moment) {
            assert_eq!(state.entries, walk.entries());
            let mut image = durable.clone();
            put(&mut image, state.survivors.pieces(&walk.undecided(), UNIT as u32));
            found.push((image, state.until));
        }
        moment += 1;
    }
    found
}

/// Whether the plan of all states has exactly those that the words allow, each once, and each as late as it is possible.
fn compare<R: Rule>(log: &Log, rule: &R, promise: Promise) -> Result<(), String> {
    let plan = StatePlan::new(log, rule, 0, UNIT as u32, Amount::Exhaustive { parts_max: 20 });
    assert_eq!(plan.sampled_moments, 0);
    let found = images(log, rule, &plan);
    let set: BTreeSet<Vec<u8>> = found.iter().map(|(image, _)| image.clone()).collect();
    let all = expected(log, promise);
    if set.len() != found.len() {
        return Err("a state is there twice".to_owned());
    }
    if set != all {
        return Err(format!("{:?} are missing, {:?} cannot be", all.difference(&set), set.difference(&all)));
    }
    for (image, until) in found {
        let allowed = |entries: usize| {
            image.iter().zip(may_read(log, entries, promise)).all(|(value, values)| values.contains(value))
        };
        let latest = (0..=log.entries().len()).rev().find(|entries| allowed(*entries));
        // Later it is possible only by chance: the same bytes written once more.
        if !allowed(until) || latest.is_some_and(|latest| latest < until) {
            return Err(format!("{image:?} is not possible until {until}, but until {latest:?}"));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_volatile_cache_leaves_what_nvme_allows(steps in steps()) {
        let log = log_of(&steps);
        prop_assert_eq!(compare(&log, &VolatileCache::default(), Promise::Flush), Ok(()));
    }

    #[test]
    fn a_protected_cache_leaves_what_completed(steps in steps()) {
        let log = log_of(&steps);
        prop_assert_eq!(compare(&log, &ProtectedCache::default(), Promise::Completion), Ok(()));
    }

    #[test]
    fn a_lying_cache_keeps_what_fits_and_nothing_else(steps in steps()) {
        let log = log_of(&steps);
        prop_assert_eq!(compare(&log, &LyingCache::new(u64::MAX, 0), Promise::Nothing), Ok(()));
        prop_assert_eq!(compare(&log, &LyingCache::new(0, 0), Promise::Completion), Ok(()));
        let all = log.entries().len();
        prop_assert_eq!(compare(&log, &LyingCache::new(u64::MAX, all), Promise::Completion), Ok(()));
    }

    #[test]
    fn a_sample_is_no_larger_than_asked_and_covers_each_moment(steps in steps(), states in 1..200_usize, seed in 0..1000_u64) {
        let log = log_of(&steps);
        let rule = VolatileCache::default();
        let plan = StatePlan::new(&log, &rule, 0, UNIT as u32, Amount::Sampled { states, seed });
        prop_assert_eq!(&plan.states, &StatePlan::new(&log, &rule, 0, UNIT as u32, Amount::Sampled { states, seed }).states);
        let all = expected(&log, Promise::Flush);
        let found = images(&log, &rule, &plan);
        for (image, _) in &found {
            prop_assert!(all.contains(image));
        }
        prop_assert!(plan.states.len() <= states);
        let wanted = states.min(all.len());
        if plan.subsets <= SUBSETS_WALKED as f64 {
            prop_assert_eq!(found.len(), wanted);
        } else {
            // Drawn by lot: the last ones of a moment may not be met.
            prop_assert!(found.len() * 10 >= wanted * 9, "{} of {}", found.len(), wanted);
        }
        if states < 2 * plan.moments {
            // Some of these were left out by lot.
            return Ok(());
        }
        // Of each moment, the state with everything and the one with nothing are among them.
        for cut in crash::Cuts::new(Image::new(4096), &log, rule) {
            for kept in [false, true] {
                let image = cut.image(UNIT as u32, |_, _| kept);
                let mut bytes = vec![0; (UNITS * UNIT) as usize];
                image.read(0, &mut bytes);
                let units: Vec<u8> = bytes.chunks(UNIT as usize).map(|unit| unit[0]).collect();
                prop_assert!(found.iter().any(|(image, _)| *image == units));
            }
        }
    }
}

/// Of twelve writes of a unit each, all of which may be there or not, a draw by lot misses some.
#[test]
fn a_sample_of_all_states_misses_none() {
    const WRITES: u64 = 12;
    let mut log = Log::new(WRITES * UNIT, UNIT as u32).unwrap();
    for at in 0..WRITES {
        let content = Content::Bytes(vec![1; UNIT as usize].into());
        let write = Event::write_of(log.next_write(), at * UNIT, content, false);
        log.push(Nanos(at), write).unwrap();
    }
    let amount = Amount::Sampled { states: 1 << WRITES, seed: 1 };
    let plan = StatePlan::new(&log, &VolatileCache::default(), 0, UNIT as u32, amount);
    assert!(plan.subsets <= SUBSETS_WALKED as f64);
    assert_eq!(plan.states.len(), 1 << WRITES);
}

/// A rule with a fault, for the comparison to find out.
#[derive(Clone)]
struct Broken {
    fault: Fault,
    inner: VolatileCache,
    outstanding: BTreeSet<WriteId>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A flush covers what was submitted before it and has not completed.
    FlushCoversOutstanding,
    /// A flush covers what completed after it was submitted.
    FlushCoversLater,
    /// FUA is ignored.
    FuaIgnored,
    /// A write is durable when it completes.
    CompletionIsDurable,
    /// What became durable is forgotten.
    NothingSettles,
    /// What did not complete is never there.
    OutstandingIsLost,
}

impl Rule for Broken {
    fn step(&mut self, index: usize, event: &Event, settled: &mut Vec<LoggedWrite>) -> bool {
        match (self.fault, event) {
            (_, Event::Write { id, .. }) => {
                self.outstanding.insert(*id);
            }
            (_, Event::Completed(id)) => {
                self.outstanding.remove(id);
            }
            _ => {}
        }
        let everything = |rule: &mut VolatileCache, settled: &mut Vec<LoggedWrite>| {
            let flush = FlushId(1 << 40);
            rule.step(index, &Event::FlushSubmitted(flush), settled);
            rule.step(index, &Event::FlushCompleted(flush), settled);
        };
        match (self.fault, event) {
            (Fault::FlushCoversOutstanding, Event::FlushSubmitted(_)) => {
                for id in std::mem::take(&mut self.outstanding) {
                    self.inner.step(index, &Event::Completed(id), settled);
                }
                self.inner.step(index, event, settled)
            }
            (Fault::FlushCoversLater, Event::FlushCompleted(_)) => {
                everything(&mut self.inner, settled);
                true
            }
            (Fault::FuaIgnored, Event::Write { id, offset_bytes, content, .. }) => {
                let plain = Event::write_of(*id, *offset_bytes, content.clone(), false);
                self.inner.step(index, &plain, settled)
            }
            (Fault::CompletionIsDurable, Event::Completed(_)) => {
                self.inner.step(index, event, settled);
                everything(&mut self.inner, settled);
                true
            }
            (Fault::NothingSettles, _) => {
                let changed = self.inner.step(index, event, settled);
                settled.clear();
                changed
            }
            _ => self.inner.step(index, event, settled),
        }
    }

    fn undecided(&self) -> Vec<&LoggedWrite> {
        let mut undecided = self.inner.undecided();
        if matches!(self.fault, Fault::OutstandingIsLost) {
            undecided.retain(|write| !self.outstanding.contains(&write.id));
        }
        undecided
    }
}

#[test]
fn broken_rules_are_found_out() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, TestRunner};

    let faults = [
        Fault::FlushCoversOutstanding,
        Fault::FlushCoversLater,
        Fault::FuaIgnored,
        Fault::CompletionIsDurable,
        Fault::NothingSettles,
        Fault::OutstandingIsLost,
    ];
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let logs: Vec<Log> = (0..400).map(|_| log_of(&steps().new_tree(&mut runner).unwrap().current())).collect();
    for fault in faults {
        let broken = Broken { fault, inner: VolatileCache::default(), outstanding: BTreeSet::new() };
        let found = logs.iter().filter(|log| compare(log, &broken, Promise::Flush).is_err()).count();
        println!("{fault:?}: found out by {found} of {} logs", logs.len());
        assert!(found > 0, "{fault:?}");
    }
}
