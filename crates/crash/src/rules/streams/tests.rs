//! Plans of random logs held against the contract's own list of legal states, and defects that the comparison must find.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use units::Nanos;

use super::*;
use crate::log::{Content, Log};
use crate::moments::Moments;
use crate::order::{Closing, EpochId, OrderTuple, OrderedLog, Places, Visible, WirePlace};
use crate::states::{Amount, PartOrder, StatePlan};
use crate::write::Piece;

const UNIT: u64 = 512;
const BLOCKS: u64 = 4;
const WRITES: usize = 5;
/// Epochs wrap within a case.
const FIRST: u16 = u16::MAX;

/// What a host does: a write in up to two streams, which may close its epochs and be sent later than others; the device completes
/// one; flushes.
#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, blocks: u64, streams: [bool; 2], closes: [bool; 2], fua: bool, held: bool },
    Send(prop::sample::Index),
    Complete(prop::sample::Index),
    Flush,
    CompleteFlush(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = (bool, Vec<Step>)> {
    let half = prop::bool::weighted(0.5);
    let write = (0..BLOCKS, 1..3_u64, [half; 2], [half; 2], prop::bool::weighted(0.15), prop::bool::weighted(0.3));
    let step = prop_oneof![
        6 => write.prop_map(|(at, blocks, streams, closes, fua, held)| {
            Step::Write { at, blocks: blocks.min(BLOCKS - at), streams, closes, fua, held }
        }),
        3 => any::<prop::sample::Index>().prop_map(Step::Send),
        4 => any::<prop::sample::Index>().prop_map(Step::Complete),
        1 => Just(Step::Flush),
        2 => any::<prop::sample::Index>().prop_map(Step::CompleteFlush),
    ];
    (any::<bool>(), prop::collection::vec(step, 0..22))
}

/// A write as its host knows it.
#[derive(Clone)]
struct Write {
    id: WriteId,
    blocks: std::ops::Range<u64>,
    places: Places,
    tuple: OrderTuple,
    fua: bool,
    closes: [bool; 2],
}

/// A log, and the contract's view of it after each entry.
struct Run {
    log: Log,
    views: Vec<OrderedLog>,
    /// The byte of each write, in the order of acceptance.
    values: Vec<u8>,
}

/// Plays the steps on a device that accepts what it may as soon as it may.
struct Player {
    run: Run,
    contract: OrderedLog,
    is_counted: bool,
    writes: Vec<Write>,
    epochs: [u64; 2],
    held: Vec<usize>,
    sent: Vec<usize>,
    accepted: Vec<usize>,
    outstanding: Vec<usize>,
    flushes: Vec<(FlushId, usize)>,
}

impl Player {
    fn push(&mut self, event: Event) {
        let at = Nanos(self.run.views.len() as u64);
        self.run.log.push(at, event).unwrap();
        self.run.views.push(self.contract.clone());
    }

    fn epoch_of(&self, write: usize, stream: usize) -> Option<u64> {
        self.writes[write]
            .places
            .iter()
            .flatten()
            .find(|place| place.stream == stream as u64 + 1)
            .map(|place| place.epoch)
    }

    /// All of an epoch and of the earlier ones is accepted, and it is closed.
    fn is_complete(&self, stream: usize, epoch: u64) -> bool {
        let of_it = || (0..self.writes.len()).filter(|write| self.epoch_of(*write, stream) == Some(epoch));
        let is_closed = of_it().any(|write| self.writes[write].closes[stream] && self.sent.contains(&write));
        is_closed && of_it().all(|write| self.accepted.contains(&write))
    }

    fn accept_what_may_be(&mut self) {
        while let Some(write) = self.sent.iter().copied().find(|write| {
            let is_due = |stream: usize| match self.epoch_of(*write, stream) {
                Some(epoch) => (0..epoch).all(|earlier| self.is_complete(stream, earlier)),
                None => true,
            };
            !self.accepted.contains(write) && is_due(0) && is_due(1)
        }) {
            let Write { blocks, places, .. } = self.writes[write].clone();
            assert_eq!(self.contract.accept(blocks, places), self.accepted.len());
            self.accepted.push(write);
            self.outstanding.push(write);
        }
    }

    fn send(&mut self, write: usize) {
        self.sent.push(write);
        self.accept_what_may_be();
        let Write { id, blocks, tuple, fua, .. } = self.writes[write].clone();
        let bytes: Vec<u8> = vec![write as u8 + 1; ((blocks.end - blocks.start) * UNIT) as usize];
        let (offset_bytes, content) = (blocks.start * UNIT, Content::Bytes(bytes.into()));
        self.push(Event::Write { id, offset_bytes, content, fua, order: tuple });
    }

    fn write(&mut self, at: u64, blocks: u64, streams: [bool; 2], closes: [bool; 2], fua: bool, held: bool) {
        let range = at..at + blocks;
        let mut closes = [closes[0] && streams[0], closes[1] && streams[1]];
        if !self.is_counted && (closes[0] || closes[1]) {
            closes = streams;
        }
        let in_stream = |stream: usize| {
            let epoch = self.epochs[stream];
            streams[stream].then_some(EpochId { stream: stream as u64 + 1, epoch, is_late: false })
        };
        let places = [in_stream(0), in_stream(1)];
        // A host does not write where a write of its own is under way, unless the device keeps the two in order.
        let is_after = |other: &Write| {
            let before = |one: &Option<EpochId>, other: &Option<EpochId>| {
                one.zip(*other).is_some_and(|(one, other)| other.epoch < one.epoch)
            };
            places.iter().zip(&other.places).any(|(one, other)| before(one, other))
        };
        let overlaps = |other: &Write| other.blocks.start < range.end && range.start < other.blocks.end;
        let is_under_way = |number: &usize| !self.accepted.contains(number) || self.outstanding.contains(number);
        let mut others = (0..self.writes.len()).filter(is_under_way).map(|number| &self.writes[number]);
        if others.any(|other| overlaps(other) && !is_after(other)) {
            return;
        }
        let count = |stream: usize| {
            let epoch = self.epochs[stream];
            let of_it = (0..self.writes.len()).filter(|write| self.epoch_of(*write, stream) == Some(epoch));
            let earlier: u64 = of_it.map(|write| self.writes[write].blocks.end - self.writes[write].blocks.start).sum();
            if closes[stream] { (earlier + blocks) as u32 } else { 0 }
        };
        let wire = |stream: usize| match streams[stream] {
            true => WirePlace { stream: stream as u16 + 1, epoch: FIRST.wrapping_add(self.epochs[stream] as u16) },
            false => WirePlace::default(),
        };
        let mut tuple = OrderTuple { queue: 1, first: wire(0), second: wire(1), closing: Closing::None };
        let mut counts = [count(0), count(1)];
        if !streams[0] {
            (tuple.first, tuple.second, counts) = (tuple.second, WirePlace::default(), [counts[1], 0]);
        }
        if closes[0] || closes[1] {
            let [first_blocks, second_blocks] = counts;
            tuple.closing =
                if self.is_counted { Closing::Counted { first_blocks, second_blocks } } else { Closing::ByArrival };
        }
        let id = self.run.log.next_write();
        self.writes.push(Write { id, blocks: range, places, tuple, fua, closes });
        for (epoch, closes) in self.epochs.iter_mut().zip(closes) {
            *epoch += u64::from(closes);
        }
        let number = self.writes.len() - 1;
        if held && self.is_counted { self.held.push(number) } else { self.send(number) }
    }
}

fn play(is_counted: bool, steps: &[Step]) -> Run {
    let log = Log::new(BLOCKS * UNIT, UNIT as u32).unwrap();
    let mut player = Player {
        run: Run { log, views: Vec::new(), values: Vec::new() },
        contract: OrderedLog::default(),
        is_counted,
        writes: Vec::new(),
        epochs: [0, 0],
        held: Vec::new(),
        sent: Vec::new(),
        accepted: Vec::new(),
        outstanding: Vec::new(),
        flushes: Vec::new(),
    };
    for stream in [1, 2] {
        player.push(Event::StreamOpened { stream, first: FIRST });
    }
    for step in steps {
        match *step {
            Step::Write { at, blocks, streams, closes, fua, held } if player.writes.len() < WRITES => {
                player.write(at, blocks, streams, closes, fua, held);
            }
            Step::Send(index) if !player.held.is_empty() => {
                let write = player.held.remove(index.index(player.held.len()));
                player.send(write);
            }
            Step::Complete(index) if !player.outstanding.is_empty() => {
                let write = player.outstanding.remove(index.index(player.outstanding.len()));
                let number = player.accepted.iter().position(|accepted| *accepted == write).unwrap();
                let Write { id, fua, .. } = player.writes[write];
                if fua {
                    player.contract.make_durable(number)
                } else {
                    player.contract.acknowledge(number)
                }
                player.push(Event::Completed(id));
            }
            Step::Flush => {
                let id = player.run.log.next_flush();
                let flush = player.contract.flush_begins();
                player.flushes.push((id, flush));
                player.push(Event::FlushSubmitted(id));
            }
            Step::CompleteFlush(index) if !player.flushes.is_empty() => {
                let (id, flush) = player.flushes.remove(index.index(player.flushes.len()));
                player.contract.flush_ends(flush);
                player.push(Event::FlushCompleted(id));
            }
            _ => {}
        }
    }
    player.run.values = player.accepted.iter().map(|write| *write as u8 + 1).collect();
    player.run
}

/// Bytes of the device, a byte a block.
type Image = Vec<u8>;

fn put(image: &mut Image, piece: &Piece<'_>) {
    let first = (piece.offset_bytes / UNIT) as usize;
    let blocks = piece.bytes().unwrap_or_default().chunks(UNIT as usize).map(|block| block[0]);
    image.splice(first..first + (piece.len_bytes / UNIT) as usize, blocks);
}

/// Every image that a plan names.
fn planned(log: &Log, rule: &Streams, amount: Amount, defect: Option<crate::states::OrderDefect>) -> BTreeSet<Image> {
    let plan = StatePlan::with_defect(log, rule, amount, defect);
    let mut durable: Image = vec![0; BLOCKS as usize];
    let mut images = BTreeSet::new();
    let mut moments = Moments::new(log, rule.clone());
    let mut moment = 0;
    while moments.advance() {
        for write in moments.settled() {
            write.whole().iter().for_each(|piece| put(&mut durable, piece));
        }
        let undecided = moments.undecided();
        for state in plan.states.iter().filter(|state| state.moment == moment) {
            let mut image = durable.clone();
            state.survivors.pieces(&undecided, UNIT as u32).iter().for_each(|piece| put(&mut image, piece));
            images.insert(image);
        }
        moment += 1;
    }
    images
}

fn image_of(visible: &Visible, values: &[u8]) -> Image {
    (0..BLOCKS).map(|block| visible.get(&block).map_or(0, |write| values[*write])).collect()
}

/// The images that the contract allows after each entry.
fn allowed_after(run: &Run) -> impl Iterator<Item = BTreeSet<Image>> {
    let of_view = |view: &OrderedLog| {
        let states = view.legal_states(1_000_000).unwrap();
        states.iter().map(|state| image_of(state, &run.values)).collect()
    };
    run.views.iter().map(of_view)
}

/// Every image that the contract allows after some cut.
fn allowed(run: &Run) -> BTreeSet<Image> {
    allowed_after(run).flatten().collect()
}

const ALL: Amount = Amount::Exhaustive { parts_max: 12 };

proptest! {
    #![proptest_config(Config { cases: 64, failure_persistence: None, ..Config::default() })]

    #[test]
    fn exactly_the_states_of_the_contract((is_counted, steps) in steps(), seed: u64) {
        let run = play(is_counted, &steps);
        let (rule, allowed) = (Streams::new(UNIT as u32), allowed(&run));
        prop_assert_eq!(planned(&run.log, &rule, ALL, None), allowed.clone());
        let sample = planned(&run.log, &rule, Amount::Sampled { states: 60, seed }, None);
        prop_assert!(sample.is_subset(&allowed), "{:?}", sample.difference(&allowed).next());
    }

    /// What an earlier moment left stays possible until the plan says.
    #[test]
    fn states_are_possible_as_long_as_said((is_counted, steps) in steps()) {
        let run = play(is_counted, &steps);
        let rule = Streams::new(UNIT as u32);
        let plan = StatePlan::new(&run.log, &rule, 0, UNIT as u32, ALL);
        let legal: Vec<BTreeSet<Image>> = allowed_after(&run).collect();
        let mut durable: Image = vec![0; BLOCKS as usize];
        let (mut moments, mut moment) = (Moments::new(&run.log, rule), 0);
        while moments.advance() {
            for write in moments.settled() {
                write.whole().iter().for_each(|piece| put(&mut durable, piece));
            }
            let undecided = moments.undecided();
            for state in plan.states.iter().filter(|state| state.moment == moment) {
                let mut image = durable.clone();
                state.survivors.pieces(&undecided, UNIT as u32).iter().for_each(|piece| put(&mut image, piece));
                // Before the first entry there is nothing.
                let Some(legal) = state.until.checked_sub(1).and_then(|until| legal.get(until)) else { continue };
                prop_assert!(legal.contains(&image), "{:?}", state);
            }
            moment += 1;
        }
    }
}

/// The comparison finds a rule with this defect out.
fn is_caught(defect: Option<Defect>, order: Option<crate::states::OrderDefect>) -> bool {
    let mut runner =
        TestRunner::new(Config { cases: 2000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() });
    let result = runner.run(&steps(), |(is_counted, steps)| {
        let run = play(is_counted, &steps);
        let rule = Streams { defect, ..Streams::new(UNIT as u32) };
        match planned(&run.log, &rule, ALL, order) == allowed(&run) {
            true => Ok(()),
            false => Err(TestCaseError::fail("caught")),
        }
    });
    matches!(result, Err(TestError::Fail(..)))
}

#[test]
fn defects_are_caught() {
    use crate::states::OrderDefect;
    for defect in [Defect::DualDropped, Defect::FlushIgnored, Defect::UnorderedOrdered, Defect::Eager] {
        assert!(is_caught(Some(defect), None), "{defect:?}");
    }
    for defect in [OrderDefect::OffByOne, OrderDefect::SupersededMissed] {
        assert!(is_caught(None, Some(defect)), "{defect:?}");
    }
}

fn ordered(queue: u16, stream: u16, epoch: u16, closing: Closing) -> OrderTuple {
    OrderTuple { queue, first: WirePlace { stream, epoch }, second: WirePlace::default(), closing }
}

/// A log of a stream 1 and single blocks, by their tuples; completed at once where that is said.
fn log_of(writes: &[(u64, OrderTuple, bool)]) -> Log {
    let mut log = Log::new(BLOCKS * UNIT, UNIT as u32).unwrap();
    log.push(Nanos(0), Event::StreamOpened { stream: 1, first: 0 }).unwrap();
    for (block, order, is_completed) in writes {
        let id = log.next_write();
        let content = Content::Bytes(vec![*block as u8 + 1; UNIT as usize].into());
        log.push(Nanos(0), Event::Write { id, offset_bytes: block * UNIT, content, fua: false, order: *order })
            .unwrap();
        if *is_completed {
            log.push(Nanos(0), Event::Completed(id)).unwrap();
        }
    }
    log
}

fn leaves(writes: &[(u64, OrderTuple, bool)], image: [u8; BLOCKS as usize]) -> bool {
    planned(&log_of(writes), &Streams::new(UNIT as u32), ALL, None).contains(&image[..])
}

/// What was under way in another queue when a barrier closed its epoch may be late.
#[test]
fn arrival_is_known_within_a_queue_only() {
    let plain = |queue| (0, ordered(queue, 1, 0, Closing::None), false);
    let barrier = (1, ordered(1, 1, 0, Closing::ByArrival), false);
    let next = (2, ordered(1, 1, 1, Closing::None), false);
    assert!(!leaves(&[plain(1), barrier, next], [0, 2, 3, 0]), "the same queue");
    assert!(leaves(&[plain(2), barrier, next], [0, 2, 3, 0]), "another queue");
    assert!(!leaves(&[plain(2), barrier, next], [1, 0, 3, 0]), "the barrier itself is of its epoch");
    let done = (0, ordered(2, 1, 0, Closing::None), true);
    assert!(!leaves(&[done, barrier, next], [0, 2, 3, 0]), "it was complete");
    assert!(leaves(&[barrier, next, plain(1)], [0, 2, 3, 0]), "after its barrier");
    let counted = (1, ordered(1, 1, 0, Closing::Counted { first_blocks: 2, second_blocks: 0 }), false);
    assert!(!leaves(&[plain(2), counted, next], [0, 2, 3, 0]), "counted");
    assert!(leaves(&[counted, next, plain(2)], [1, 2, 3, 0]) && !leaves(&[counted, next], [0, 2, 3, 0]), "it waits");
}

/// Streams that nobody opened, or that were closed, order nothing and accept nothing, unless the device did.
#[test]
fn what_is_of_no_open_stream_is_not_accepted() {
    let of = |stream, epoch, done| (0, ordered(1, stream, epoch, Closing::None), done);
    assert!(!leaves(&[of(7, 0, false)], [1, 0, 0, 0]) && leaves(&[of(7, 0, true)], [1, 0, 0, 0]));
    assert!(!leaves(&[of(1, 1 << 15, false)], [1, 0, 0, 0]) && !leaves(&[of(1, 40_000, false)], [1, 0, 0, 0]));
    let twice = OrderTuple { second: WirePlace { stream: 1, epoch: 1 }, ..ordered(1, 1, 0, Closing::None) };
    assert!(!leaves(&[(0, twice, false)], [1, 0, 0, 0]));
    // Closed while it waits, and opened again.
    let mut log = log_of(&[(0, ordered(1, 1, 1, Closing::None), false)]);
    log.push(Nanos(0), Event::StreamClosed(1)).unwrap();
    log.push(Nanos(0), Event::StreamOpened { stream: 1, first: 1 }).unwrap();
    let id = log.next_write();
    let order = ordered(1, 1, 1, Closing::None);
    let content = Content::Bytes(vec![9; UNIT as usize].into());
    log.push(Nanos(0), Event::Write { id, offset_bytes: UNIT, content, fua: false, order }).unwrap();
    let images = planned(&log, &Streams::new(UNIT as u32), ALL, None);
    assert_eq!(images, BTreeSet::from([vec![0, 0, 0, 0], vec![0, 9, 0, 0]]));
}

/// Writes are torn between atomic units, whatever the size of a block, and a torn epoch is not complete.
#[test]
fn an_epoch_that_is_torn_is_missing() {
    let mut log = Log::new(1 << 20, 512).unwrap();
    log.push(Nanos(0), Event::StreamOpened { stream: 1, first: 0 }).unwrap();
    for (epoch, at) in [(0, 0), (1, 1 << 16)] {
        let id = log.next_write();
        let order = ordered(1, 1, epoch, Closing::Counted { first_blocks: 24, second_blocks: 0 });
        let content = Content::Bytes(vec![epoch as u8 + 1; 24 * 512].into());
        log.push(Nanos(0), Event::Write { id, offset_bytes: at, content, fua: false, order }).unwrap();
    }
    let plan = StatePlan::new(&log, &Streams::new(512), 0, 4096, ALL);
    // Subsets of the first three units, and with all of them those of the second three.
    assert_eq!((plan.states.len(), plan.states.iter().map(|state| state.survivors.parts()).max()), (15, Some(6)));
}

/// A sample has states on both sides of every cut between two epochs.
#[test]
fn a_sample_covers_every_cut() {
    const EPOCHS: u64 = 12;
    let mut log = Log::new(1 << 20, UNIT as u32).unwrap();
    for stream in [1, 2] {
        log.push(Nanos(0), Event::StreamOpened { stream, first: 0 }).unwrap();
    }
    for number in 0..4 * EPOCHS {
        let (stream, within) = (number % 2, number / 2 % 2);
        let id = log.next_write();
        let closing = Closing::Counted { first_blocks: 2 * within as u32, second_blocks: 0 };
        let closing = if within == 1 { closing } else { Closing::None };
        let order = ordered(1, stream as u16 + 1, (number / 4) as u16, closing);
        let content = Content::Bytes(vec![number as u8 + 1; UNIT as usize].into());
        log.push(Nanos(0), Event::Write { id, offset_bytes: number * UNIT, content, fua: false, order }).unwrap();
    }
    for seed in 0..8 {
        let rule = Streams::new(UNIT as u32);
        let plan = StatePlan::new(&log, &rule, log.entries().len(), UNIT as u32, Amount::Sampled { states: 200, seed });
        let mut moments = Moments::new(&log, rule);
        while moments.advance() {}
        let order: PartOrder = moments.part_order(UNIT as u32).unwrap();
        // Of each stream the first epoch that is not whole.
        let mut cuts = BTreeSet::new();
        for state in &plan.states {
            assert!(order.allows(&state.survivors));
            for stream in 0..2 {
                let is_there = |number: &u64| state.survivors.has(*number as usize);
                let missing = (0..4 * EPOCHS).filter(|number| number % 2 == stream).find(|number| !is_there(number));
                cuts.insert((stream, missing.map_or(EPOCHS, |number| number / 4)));
            }
        }
        assert_eq!(cuts.len() as u64, 2 * (EPOCHS + 1), "{seed}: {cuts:?}");
    }
}
