//! The contract of ordered writes, held against its rules one by one over every state of small logs.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use crash::order::{EpochId, OrderedLog, Places, Violation, Visible};
use proptest::prelude::*;

const BLOCKS: u64 = 3;

fn place(stream: u64, epoch: u64) -> Option<EpochId> {
    Some(EpochId { stream, epoch, is_late: false })
}

/// A write as the oracle keeps it.
#[derive(Clone, Debug)]
struct Write {
    blocks: Vec<u64>,
    places: Places,
    durable: bool,
}

/// What a host does: a write of some blocks in up to two streams, an acknowledgement, a flush; an epoch ends.
#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, blocks: u64, in_first: bool, in_second: bool, late: bool },
    Acknowledge(prop::sample::Index),
    Force(prop::sample::Index),
    Flush,
    End { second: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..BLOCKS, 1..3_u64, any::<bool>(), any::<bool>(), prop::bool::weighted(0.1));
    let step = prop_oneof![
        6 => write.prop_map(|(at, blocks, in_first, in_second, late)| {
            Step::Write { at, blocks: blocks.min(BLOCKS - at), in_first, in_second, late }
        }),
        2 => any::<prop::sample::Index>().prop_map(Step::Acknowledge),
        1 => any::<prop::sample::Index>().prop_map(Step::Force),
        1 => Just(Step::Flush),
        3 => any::<bool>().prop_map(|second| Step::End { second }),
    ];
    prop::collection::vec(step, 0..14)
}

/// The log, and what the oracle knows of it.
fn log_of(steps: &[Step]) -> (OrderedLog, Vec<Write>) {
    let (mut log, mut writes) = (OrderedLog::default(), Vec::<Write>::new());
    let mut acknowledged = BTreeSet::new();
    let mut epochs = [0_u64, 0];
    for step in steps {
        match step {
            Step::Write { at, blocks, in_first, in_second, late } if writes.len() < 6 => {
                let is_late = |epoch: u64| *late && epoch > 0;
                let in_stream = |stream: usize| {
                    let epoch = epochs[stream] - u64::from(is_late(epochs[stream]));
                    EpochId { stream: stream as u64, epoch, is_late: is_late(epochs[stream]) }
                };
                let places = [in_first.then(|| in_stream(0)), in_second.then(|| in_stream(1))];
                assert_eq!(log.accept(*at..at + blocks, places), writes.len());
                writes.push(Write { blocks: (*at..at + blocks).collect(), places, durable: false });
            }
            Step::Acknowledge(index) if !writes.is_empty() => {
                let write = index.index(writes.len());
                log.acknowledge(write);
                acknowledged.insert(write);
            }
            Step::Force(index) if !writes.is_empty() => {
                let write = index.index(writes.len());
                log.make_durable(write);
                acknowledged.insert(write);
                writes[write].durable = true;
            }
            Step::Flush => {
                let flush = log.flush_begins();
                log.flush_ends(flush);
                acknowledged.iter().for_each(|write| writes[*write].durable = true);
            }
            Step::End { second } => epochs[usize::from(*second)] += 1,
            _ => {}
        }
    }
    (log, writes)
}

/// The rules as `docs/ordering.md` words them.
fn is_legal(writes: &[Write], visible: &Visible) -> bool {
    let covers = |block: &u64, write: &usize| writes[*write].blocks.contains(block);
    let satisfied = |write: usize| writes[write].blocks.iter().all(|b| visible.get(b).is_some_and(|at| *at >= write));
    let before = |earlier: &Write, later: &Write| {
        later.places.iter().flatten().any(|later| {
            let mut places = earlier.places.iter().flatten();
            places.any(|place| place.stream == later.stream && place.epoch < later.epoch && !place.is_late)
        })
    };
    let kept = (0..writes.len()).all(|write| !writes[write].durable || satisfied(write));
    let ordered = visible
        .values()
        .all(|later| (0..writes.len()).all(|earlier| !before(&writes[earlier], &writes[*later]) || satisfied(earlier)));
    visible.iter().all(|(block, write)| covers(block, write)) && kept && ordered
}

/// Every assignment of a write, or none, to each block.
fn every_state(writes: usize) -> Vec<Visible> {
    let mut states = vec![Visible::new()];
    for block in 0..BLOCKS {
        let holding = |state: &Visible, write: Option<usize>| {
            let mut state = state.clone();
            state.extend(write.map(|write| (block, write)));
            state
        };
        let choices = || (0..writes).map(Some).chain([None]);
        states = states.iter().flat_map(|state| choices().map(|choice| holding(state, choice))).collect();
    }
    states
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_legal_states_are_named(steps in steps(), lot: u64) {
        let (log, writes) = log_of(&steps);
        let legal: BTreeSet<Visible> =
            every_state(writes.len()).into_iter().filter(|state| is_legal(&writes, state)).collect();
        for state in every_state(writes.len()) {
            prop_assert_eq!(log.check(&state).is_ok(), legal.contains(&state), "{:?}: {:?}", state, log.check(&state));
        }
        prop_assert_eq!(log.legal_states(100_000).unwrap(), legal.clone());
        // What a device that keeps the order leaves, one write at a time: durable writes come with what must be before them.
        if legal.contains(&log.visible(&log.survivors(|_| false))) {
            let mut lot = lot;
            let there = log.survivors(|_| {
                lot = lot.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                lot >> 63 == 1
            });
            prop_assert!(legal.contains(&log.visible(&there)), "{:?}", there);
        }
    }
}

#[test]
fn a_write_of_two_streams_joins_them() {
    // Data of an application, the journal that names it, and the commit record.
    let mut log = OrderedLog::default();
    let data = log.accept(0..1, [place(7, 0), place(1, 0)]);
    let journal = log.accept(1..2, [place(1, 0), None]);
    let commit = log.accept(2..3, [place(1, 1), None]);
    let next = log.accept(3..4, [place(7, 1), None]);
    let state = |writes: &[usize]| log.visible(&writes.iter().copied().collect());
    for legal in [&[][..], &[journal], &[data], &[data, journal], &[data, journal, commit], &[data, next]] {
        assert_eq!(log.check(&state(legal)), Ok(()), "{legal:?}");
    }
    let error = log.check(&state(&[journal, commit])).unwrap_err();
    assert_eq!(error, Violation::Order { block: 0, write: data, epoch: 0, stream: 1, later: commit });
    assert!(log.check(&state(&[data, commit])).is_err());
    assert!(log.check(&state(&[next])).is_err());
    assert_eq!(log.legal_states(100).unwrap().len(), 8);
    assert_eq!(log.legal_states(7), None);
}

#[test]
fn what_a_newer_write_replaced_need_not_be_there() {
    let mut log = OrderedLog::default();
    log.accept(0..1, [place(1, 0), None]);
    let unordered = log.accept(0..1, [None, None]);
    let later = log.accept(1..2, [place(1, 1), None]);
    assert_eq!(log.check(&Visible::from([(0, unordered), (1, later)])), Ok(()));
    assert!(log.check(&Visible::from([(1, later)])).is_err());
    assert_eq!(log.check(&Visible::from([(2, later)])), Err(Violation::Elsewhere { block: 2, write: later }));
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_it_began() {
    let mut log = OrderedLog::default();
    let (early, late) = (log.accept(0..1, [None, None]), log.accept(1..2, [None, None]));
    log.acknowledge(early);
    let flush = log.flush_begins();
    log.acknowledge(late);
    assert_eq!(log.check(&Visible::new()), Ok(()));
    log.flush_ends(flush);
    assert_eq!(log.check(&Visible::new()), Err(Violation::Lost { block: 0, write: early }));
    assert_eq!(log.check(&Visible::from([(0, early)])), Ok(()));
}
