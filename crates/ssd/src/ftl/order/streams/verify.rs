//! Any sequence of what an order is told, against the contract: nothing is mapped before its turn, and every wait ends.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::*;
use crate::slab::NONE;

/// What happens to an order, in the numbering of a [`Record`].
#[derive(Clone, Copy, Debug)]
enum Action {
    /// A version of the present epochs of one stream, or of two, on the newest version or on none.
    Accept {
        first: usize,
        second: Option<usize>,
        is_partial: bool,
    },
    Complete(usize),
    Program(usize),
    Drop(usize),
    Close(usize),
}

const STREAMS: usize = 3;

fn action() -> impl Strategy<Value = Action> {
    let stream = || 0..STREAMS;
    prop_oneof![
        4 => (stream(), prop::option::of(stream()), prop::bool::weighted(0.1))
            .prop_map(|(first, second, is_partial)| Action::Accept { first, second, is_partial }),
        3 => stream().prop_map(Action::Complete),
        4 => any::<usize>().prop_map(Action::Program),
        1 => any::<usize>().prop_map(Action::Drop),
        1 => stream().prop_map(Action::Close),
    ]
}

/// What an order was told, and what it may say.
struct Record {
    order: Streams,
    /// The stream under each number, and its present epoch.
    now: [Option<(u64, u64)>; STREAMS],
    streams: u64,
    versions: Vec<Known>,
}

struct Known {
    places: Places,
    below: Option<usize>,
    is_programmed: bool,
    /// Mapped, or needed by nobody.
    is_satisfied: bool,
}

impl Record {
    fn new(order: Streams) -> Self {
        Self { order, now: [None; STREAMS], streams: 0, versions: Vec::new() }
    }

    /// The stream of this number, opened where it is closed.
    fn stream(&mut self, number: usize) -> (u64, u64) {
        if self.now[number].is_none() {
            self.streams += 1;
            self.order.opened(self.streams);
            self.now[number] = Some((self.streams, 0));
        }
        self.now[number].unwrap()
    }

    /// The contract: all of earlier epochs is satisfied, and so is what the version carries.
    fn map(&mut self, version: usize) -> Result<(), String> {
        let known = &self.versions[version];
        let comes_before = |other: &Known, place: &EpochId| {
            other.places.iter().flatten().any(|it| it.stream == place.stream && it.epoch < place.epoch)
        };
        for place in known.places.iter().flatten() {
            if self.versions.iter().any(|other| !other.is_satisfied && comes_before(other, place)) {
                return Err(format!("{version} is mapped before its turn in stream {}", place.stream));
            }
        }
        if known.below.is_some_and(|below| !self.versions[below].is_satisfied) {
            return Err(format!("{version} is mapped before what it carries"));
        }
        if !known.is_programmed || known.is_satisfied {
            return Err(format!("{version} is not to be mapped"));
        }
        self.versions[version].is_satisfied = true;
        Ok(())
    }

    fn pick(&self, lot: usize, is_wanted: impl Fn(&Known) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.versions.len()).filter(|at| is_wanted(&self.versions[*at])).collect();
        (!all.is_empty()).then(|| all[lot % all.len()])
    }

    fn program(&mut self, version: usize) -> Result<(), String> {
        self.versions[version].is_programmed = true;
        match self.order.programmed(version as u32) {
            Plan::Map => self.map(version)?,
            Plan::Delay => {}
        }
        self.drain()
    }

    fn drain(&mut self) -> Result<(), String> {
        while let Some(version) = self.order.next_ready() {
            self.map(version as usize)?;
        }
        Ok(())
    }

    fn apply(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Accept { first, second, is_partial } => {
                let place = |(stream, epoch)| Some(EpochId { stream, epoch, is_late: false });
                let second = second.filter(|second| *second != first).map(|second| self.stream(second));
                let places = [place(self.stream(first)), second.and_then(place)];
                let below = (self.versions.len().checked_sub(1)).filter(|_| is_partial);
                let version = self.versions.len() as u32;
                self.order.accepted(version, &places, below.map_or(NONE, |below| below as u32));
                self.versions.push(Known { places, below, is_programmed: false, is_satisfied: false });
            }
            Action::Complete(number) => {
                let (stream, epoch) = self.stream(number);
                self.order.completed(stream, epoch);
                self.now[number] = Some((stream, epoch + 1));
                self.drain()?;
            }
            Action::Program(lot) => {
                let waits = |known: &Known| !known.is_programmed && !known.is_satisfied;
                if let Some(version) = self.pick(lot, waits) {
                    self.program(version)?;
                }
            }
            Action::Drop(lot) => {
                if let Some(version) = self.pick(lot, |known| !known.is_satisfied) {
                    self.versions[version].is_satisfied = true;
                    self.order.dropped(version as u32);
                    self.drain()?;
                }
            }
            Action::Close(number) => {
                if let Some((stream, _)) = self.now[number].take() {
                    self.order.closed(stream);
                    self.drain()?;
                }
            }
        }
        Ok(())
    }

    /// Once everything is programmed, nothing waits.
    fn end(&mut self) -> Result<(), String> {
        while let Some(version) = self.pick(0, |known| !known.is_programmed && !known.is_satisfied) {
            self.program(version)?;
        }
        match self.pick(0, |known| !known.is_satisfied) {
            Some(version) => Err(format!("{version} waits for ever")),
            None => Ok(()),
        }
    }
}

fn holds(order: Streams, actions: &[Action]) -> Result<(), TestCaseError> {
    let mut record = Record::new(order);
    let done = actions.iter().try_for_each(|action| record.apply(*action)).and_then(|()| record.end());
    done.map_err(TestCaseError::fail)
}

proptest! {
    #[test]
    fn a_version_is_mapped_in_its_turn_and_every_wait_ends(actions in prop::collection::vec(action(), 0..80)) {
        holds(Streams::default(), &actions)?;
    }
}

#[test]
fn orders_that_are_broken_are_noticed() {
    let defects = [Defect::MapsEarly, Defect::NoSecondStream, Defect::WokenIsReady, Defect::ClosingForgets];
    for defect in defects {
        let config = Config { cases: 2000, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let found =
            runner.run(&prop::collection::vec(action(), 0..80), |actions| holds(Streams::broken(defect), &actions));
        let Err(TestError::Fail(why, actions)) = found else { panic!("{defect:?} is not noticed: {found:?}") };
        println!("{defect:?}: {why} after {actions:?}");
    }
}
