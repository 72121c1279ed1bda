//! The wrapper against a model that keeps every block and counts from scratch.

use std::collections::BTreeSet;

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status, WriteCommand};
use proptest::collection::vec;
use proptest::prelude::*;
use trace::RequestId;
use units::Nanos;

use super::*;
use crate::{Completion, Contents, Device, NullDevice, Ssd, SsdConfig, Submission};

const BLOCKS: u64 = 32;
const LBA_BYTES: usize = 512;
const LATENCY: Nanos = Nanos(3_000);
const STEP: Nanos = Nanos(1_000);
const NSID: NamespaceId = NamespaceId::FIRST;

/// How the model is broken, to see that the comparison notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    CountsFromZero,
    LastFaultDecides,
    WritesClearNothing,
    DelaysReplaceEachOther,
    FailedWritesTake,
}

/// What a command comes to: its status, when, and what it read.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Fate {
    ends: Option<(Status, Nanos)>,
    read: Option<Vec<u8>>,
}

fn range(start: u64, count: u32) -> LbaRange {
    LbaRange { start: Lba(start), count }
}

fn submission(cid: usize, command: Command) -> Submission {
    let tag = (cid % 255) as u8 + 1;
    let data = match &command {
        Command::Write(WriteCommand { range, .. }) => {
            Some(vec![tag; range.count as usize * LBA_BYTES].into_boxed_slice())
        }
        _ => None,
    };
    Submission { queue: QueueId(1), cid: CommandId(cid as u16), command, data, request: RequestId(cid as u64) }
}

/// Runs the commands, one every [`STEP`], and drains the device.
fn run(faults: &[Fault], commands: &[Command]) -> Vec<Fate> {
    let plan = FaultPlan::default();
    for fault in faults {
        plan.inject(fault.clone()).unwrap();
    }
    let null = NullDevice::new(BLOCKS, LBA_BYTES as u32, LATENCY);
    let mut device = FaultyDevice::new(Box::new(null), plan);
    let mut fates = vec![Fate { ends: None, read: None }; commands.len()];
    let mut done: Vec<Completion> = Vec::new();
    for (cid, command) in commands.iter().enumerate() {
        let now = STEP * cid as u64;
        while let Some(next) = device.next_event()
            && next <= now
        {
            device.advance(next, &mut done);
        }
        device.submit(now, submission(cid, command.clone()));
    }
    while let Some(next) = device.next_event() {
        device.advance(next, &mut done);
    }
    assert!(done.is_sorted_by_key(|completion| completion.at), "completions come in order of time");
    for Completion { cid, status, data, at, .. } in done {
        let fate = &mut fates[usize::from(cid.0)];
        assert_eq!(fate.ends, None, "a command ends once");
        fate.ends = Some((status, at));
        fate.read = data.map(|data| data.chunks(LBA_BYTES).map(|block| block[0]).collect());
    }
    fates
}

/// The blocks that a command names.
fn blocks_of(command: &Command) -> BTreeSet<u64> {
    let ranges: Vec<LbaRange> = match command {
        Command::Read { range, .. }
        | Command::Write(WriteCommand { range, .. })
        | Command::WriteZeroes { range, .. } => vec![*range],
        Command::Deallocate { ranges, .. } => ranges.to_vec(),
        _ => Vec::new(),
    };
    ranges.iter().flat_map(|range| range.start.0..range.end().0).collect()
}

fn model(faults: &[Fault], commands: &[Command], bug: Bug) -> Vec<Fate> {
    let mut contents = vec![0_u8; BLOCKS as usize];
    let mut matched = vec![0_u64; faults.len()];
    let mut hits = vec![0_u64; faults.len()];
    let mut bad: Vec<BTreeSet<u64>> =
        faults.iter().map(|fault| fault.lbas.map_or(0..0, |(first, blocks)| first..first + blocks).collect()).collect();
    let mut fates = Vec::new();
    for (cid, command) in commands.iter().enumerate() {
        let now = STEP * cid as u64;
        let named = blocks_of(command);
        let operation = Operation::of(command);
        let (mut delays, mut least, mut ending) = (Vec::new(), Nanos::ZERO, None);
        for (index, fault) in faults.iter().enumerate() {
            if ending.is_some() && bug != Bug::LastFaultDecides {
                break;
            }
            let region: BTreeSet<u64> = match (&fault.effect, fault.lbas) {
                (Effect::Media { .. }, _) => bad[index].clone(),
                (_, Some((first, blocks))) => (first..first + blocks).collect(),
                (_, None) => BTreeSet::new(),
            };
            let in_region = fault.lbas.is_none() || named.intersection(&region).next().is_some();
            let possible = match fault.effect {
                Effect::Media { .. } => operation == Operation::Read,
                Effect::ReadOnly => !matches!(operation, Operation::Read | Operation::Flush),
                _ => true,
            };
            let wanted = fault.operations.is_empty() || fault.operations.contains(&operation);
            if !(in_region && possible && wanted) {
                continue;
            }
            matched[index] += 1;
            let number = if bug == Bug::CountsFromZero { matched[index] - 1 } else { matched[index] };
            let turn = number >= fault.nth && (number - fault.nth) % fault.every == 0;
            if !turn || fault.times.is_some_and(|times| hits[index] >= times) || !fault.hits(number) {
                continue;
            }
            hits[index] += 1;
            match fault.effect {
                Effect::Error { status, after } => ending = Some(Some((status, after))),
                Effect::Media { after, .. } => ending = Some(Some((Status::UNRECOVERED_READ, after))),
                Effect::ReadOnly => ending = Some(Some((Status::NAMESPACE_WRITE_PROTECTED, Nanos(10_000)))),
                Effect::Timeout => ending = Some(None),
                Effect::Delay { added } => delays.push(added),
                Effect::Latency { at_least } => least = least.max(at_least),
                Effect::LostFlush => {}
            }
        }
        let delay: Nanos = if bug == Bug::DelaysReplaceEachOther {
            delays.last().copied().unwrap_or_default()
        } else {
            delays.into_iter().sum()
        };
        let at = |taken: Nanos| (now + taken + delay).max(now + least);
        if ending.is_none() || bug == Bug::FailedWritesTake {
            let byte = match operation {
                Operation::Write => Some((cid % 255) as u8 + 1),
                Operation::WriteZeroes | Operation::Deallocate => Some(0),
                _ => None,
            };
            if let Some(byte) = byte {
                named.iter().for_each(|lba| contents[*lba as usize] = byte);
            }
        }
        if ending.is_none() && operation.changes() && bug != Bug::WritesClearNothing {
            for (fault, bad) in faults.iter().zip(&mut bad) {
                if fault.effect == (Effect::Media { cleared_by_write: true, after: Nanos(7) }) {
                    bad.retain(|lba| !named.contains(lba));
                }
            }
        }
        fates.push(match ending {
            Some(Some((status, after))) => Fate { ends: Some((status, at(after))), read: None },
            Some(None) => Fate { ends: None, read: None },
            None => Fate {
                ends: Some((Status::SUCCESS, at(LATENCY))),
                read: (operation == Operation::Read).then(|| named.iter().map(|lba| contents[*lba as usize]).collect()),
            },
        });
    }
    fates
}

fn command() -> impl Strategy<Value = Command> {
    let place = (0..BLOCKS, 1..8_u32).prop_map(|(start, count)| range(start, count.min((BLOCKS - start) as u32)));
    (0..5_u8, place).prop_map(|(kind, range)| match kind {
        0 => Command::write(NSID, range, false),
        1 => Command::WriteZeroes { nsid: NSID, range, fua: false, deallocate: true },
        2 => Command::Deallocate { nsid: NSID, ranges: [range].into() },
        3 => Command::Flush { nsid: NSID },
        _ => Command::Read { nsid: NSID, range, fua: false },
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    let effect = prop_oneof![
        Just(Effect::Error { status: Status::INTERNAL_ERROR, after: Nanos(900) }),
        any::<bool>().prop_map(|cleared_by_write| Effect::Media { cleared_by_write, after: Nanos(7) }),
        (1..9_000_u64).prop_map(|added| Effect::Delay { added: Nanos(added) }),
        (1..9_000_u64).prop_map(|at_least| Effect::Latency { at_least: Nanos(at_least) }),
        Just(Effect::ReadOnly),
        Just(Effect::Timeout),
    ];
    let lbas = proptest::option::of((0..BLOCKS, 1..BLOCKS));
    let probability = prop_oneof![3 => Just(1.0), 1 => 0.0..1.0];
    let trigger = (1..5_u64, 1..4_u64, proptest::option::of(0..4_u64), probability, any::<u64>());
    let operation = proptest::option::of(proptest::sample::select(&Operation::ALL[..5]));
    (effect, lbas, trigger, operation).prop_map(|(effect, lbas, (nth, every, times, probability, seed), operation)| {
        let media = matches!(effect, Effect::Media { .. });
        let fault = Fault {
            lbas: lbas.or(media.then_some((3, 9))),
            nth,
            every,
            times,
            probability,
            seed,
            ..Fault::new(effect)
        };
        let limited = Fault { operations: operation.into_iter().collect(), ..fault.clone() };
        if limited.check().is_ok() { limited } else { fault }
    })
}

proptest! {
    #[test]
    fn does_what_the_model_says(faults in vec(fault(), 0..5), commands in vec(command(), 1..40)) {
        prop_assert_eq!(run(&faults, &commands), model(&faults, &commands, Bug::None));
    }

    /// Through text and back, as the control socket does.
    #[test]
    fn faults_survive_their_text(fault in fault()) {
        let text = toml::to_string(&fault).unwrap();
        prop_assert_eq!(toml::from_str::<Fault>(&text).unwrap(), fault, "{}", text);
    }
}

#[test]
fn broken_models_are_noticed() {
    let read = |start| Command::Read { nsid: NSID, range: range(start, 2), fua: false };
    let write = |start| Command::write(NSID, range(start, 2), false);
    let commands = [read(4), write(4), read(4), write(20), read(20), write(4), read(4), Command::Flush { nsid: NSID }];
    let error = |status| Effect::Error { status, after: Nanos(5) };
    let only = |operation, fault: Fault| Fault { operations: vec![operation], ..fault };
    let faults = [
        Fault::new(Effect::Delay { added: Nanos(50) }),
        Fault::new(Effect::Delay { added: Nanos(30) }),
        Fault { times: Some(2), ..Fault::new(Effect::Media { cleared_by_write: true, after: Nanos(7) }).on(4, 1) },
        only(Operation::Write, Fault { nth: 2, times: Some(1), ..Fault::new(error(Status::WRITE_FAULT)) }),
        only(Operation::Write, Fault { nth: 2, times: Some(1), ..Fault::new(error(Status::INTERNAL_ERROR)) }),
    ];
    let found = run(&faults, &commands);
    assert_eq!(found, model(&faults, &commands, Bug::None));
    for bug in [
        Bug::CountsFromZero,
        Bug::LastFaultDecides,
        Bug::WritesClearNothing,
        Bug::DelaysReplaceEachOther,
        Bug::FailedWritesTake,
    ] {
        assert_ne!(found, model(&faults, &commands, bug), "{bug:?} goes unnoticed");
    }
}

#[test]
fn a_coin_is_fair_and_repeats() {
    let fault = Fault { probability: 0.25, seed: 9, ..Fault::new(Effect::ReadOnly) };
    let hits = (1..=10_000).filter(|k| fault.hits(*k)).count();
    // Five standard deviations of a binomial.
    assert!((2_283..2_717).contains(&hits), "{hits}");
    let other = Fault { seed: 10, ..fault.clone() };
    assert!((1..100).any(|k| fault.hits(k) != other.hits(k)));
    assert!((1..100).all(|k| fault.hits(k) == fault.clone().hits(k)));
    assert!((1..100).all(|k| !Fault { probability: 0.0, ..fault.clone() }.hits(k)));
}

#[test]
fn a_cleared_timeout_lets_its_commands_go() {
    let plan = FaultPlan::default();
    let id = plan.inject(Fault { times: Some(1), ..Fault::new(Effect::Timeout) }).unwrap();
    let null = NullDevice::new(BLOCKS, LBA_BYTES as u32, LATENCY);
    let mut device = FaultyDevice::new(Box::new(null), plan.clone());
    let flush = || Command::Flush { nsid: NSID };
    device.submit(Nanos(0), submission(0, flush()));
    device.submit(Nanos(0), submission(1, flush()));
    let mut done = Vec::new();
    device.advance(Nanos(1_000_000), &mut done);
    assert_eq!(done.len(), 1, "the second only");
    assert_eq!(device.next_event(), None);
    assert_eq!(device.live_state().outstanding_commands, 1);
    assert_eq!(plan.clear(Some(FaultId(99))), 0);
    assert_eq!(plan.clear(Some(id)), 1);
    let next = device.next_event().unwrap();
    device.advance(next, &mut done);
    assert_eq!((done[1].cid, done[1].status), (CommandId(0), Status::ABORT_REQUESTED));
    assert_eq!(device.next_event(), None);
}

/// A device that lies about a flush loses in a power cut what a true one keeps.
#[test]
fn a_lost_flush_is_lost() {
    for (lies, survived) in [(false, 7), (true, 0)] {
        let mut ssd = Ssd::new(&SsdConfig::reference()).unwrap();
        ssd.keep_contents(&Contents::Memory, true).unwrap();
        ssd.recover_from_flash();
        let plan = FaultPlan::default();
        if lies {
            plan.inject(Fault::new(Effect::LostFlush)).unwrap();
        }
        let lba_bytes = ssd.identity().lba_bytes as usize;
        let mut device = FaultyDevice::new(Box::new(ssd), plan.clone());
        let (mut now, mut done) = (Nanos::ZERO, Vec::new());
        let mut call = |device: &mut FaultyDevice, command, data| {
            let submission = Submission { queue: QueueId(1), cid: CommandId(0), command, data, request: RequestId(0) };
            device.submit(now, submission);
            done.clear();
            while done.is_empty() {
                now = device.next_event().unwrap();
                device.advance(now, &mut done);
            }
            let done = done.remove(0);
            assert_eq!(done.status, Status::SUCCESS);
            (done.data, now)
        };
        let write = |at, fua| Command::write(NSID, range(at, 1), fua);
        call(&mut device, write(0, false), Some(vec![7; lba_bytes].into()));
        call(&mut device, Command::Flush { nsid: NSID }, None);
        let (_, now) = call(&mut device, write(80, true), Some(vec![7; lba_bytes].into()));
        device.power_cut(now);
        for at in [0, 80] {
            let (data, _) = call(&mut device, Command::Read { nsid: NSID, range: range(at, 1), fua: false }, None);
            assert_eq!(data.unwrap()[0], survived, "block {at}, lies: {lies}");
        }
        assert_eq!(plan.list().first().map(|fault| fault.hits), lies.then_some(2));
    }
}

#[test]
fn faults_that_make_no_sense_are_refused() {
    let plan = FaultPlan::default();
    let error = || Fault::new(Effect::error(Status::INTERNAL_ERROR));
    let media = |cleared_by_write| Fault::new(Effect::Media { cleared_by_write, after: Nanos::ZERO });
    for (fault, expected) in [
        (Fault { nth: 0, ..error() }, FaultError::Zero { field: "nth" }),
        (Fault { every: 0, ..error() }, FaultError::Zero { field: "every" }),
        (Fault { probability: 1.5, ..error() }, FaultError::Probability { value: 1.5 }),
        (error().on(3, 0), FaultError::Range { first: 3, blocks: 0 }),
        (error().on(3, u64::MAX), FaultError::Range { first: 3, blocks: u64::MAX }),
        (media(false), FaultError::NoRange),
        (media(true).on(0, 1 << 40), FaultError::TooManyBlocks { blocks: 1 << 40 }),
        (Fault { operations: vec![Operation::Write], ..media(false).on(0, 1) }, FaultError::Operations),
        (Fault::new(Effect::Delay { added: Nanos::MAX }), FaultError::TooLong { time: Nanos::MAX }),
    ] {
        assert_eq!(plan.inject(fault), Err(expected));
    }
    assert!(matches!(plan.inject(Fault { probability: f64::NAN, ..error() }), Err(FaultError::Probability { .. })));
    for _ in 0..64 {
        plan.inject(error()).unwrap();
    }
    assert_eq!(plan.inject(error()), Err(FaultError::Full { limit: 64 }));
    assert_eq!(plan.clear(None), 64);
}
