//! Power cuts on every built-in device: what a completed flush or FUA write
//! covered has survived, what is newer may have, and nothing else is there.

use std::collections::BTreeMap;

use crash::Choice;
use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use ssd::faults::{Effect, Fault, FaultPlan, FaultyDevice};
use ssd::profile::{BuildOptions, DeviceConfig, Profile, builtin_names};
use ssd::{Completion, Contents, Device, Submission};
use trace::RequestId;
use units::Nanos;

const LBAS: u64 = 128;
const LBA_BYTES: usize = 512;

#[derive(Clone, Debug)]
enum Op {
    Write {
        start: u64,
        count: u32,
        fua: bool,
    },
    Deallocate {
        start: u64,
        count: u32,
    },
    Read {
        start: u64,
        count: u32,
    },
    Flush,
    /// Lets this much time pass.
    Wait {
        micros: u64,
    },
    /// Waits for everything outstanding.
    Drain,
}

fn op() -> impl Strategy<Value = Op> {
    let place = (0..LBAS).prop_flat_map(|start| (Just(start), 1..=(LBAS - start).min(24) as u32));
    // Half of the writes fill mapping units of 4 KiB.
    let aligned = (0..LBAS / 8)
        .prop_flat_map(|unit| (Just(unit * 8), (1..=(LBAS / 8 - unit).min(3) as u32).prop_map(|units| units * 8)));
    let place = prop_oneof![place, aligned];
    prop_oneof![
        6 => (place.clone(), prop::bool::weighted(0.15)).prop_map(|((start, count), fua)| Op::Write { start, count, fua }),
        1 => place.clone().prop_map(|(start, count)| Op::Deallocate { start, count }),
        2 => place.prop_map(|(start, count)| Op::Read { start, count }),
        2 => Just(Op::Flush),
        // SSDs act within microseconds, disks within tens of milliseconds.
        2 => prop_oneof![1u64..200, 200u64..30_000].prop_map(|micros| Op::Wait { micros }),
        2 => Just(Op::Drain),
    ]
}

/// What is known of one write.
#[derive(Clone, Debug)]
struct Write {
    /// 0 for a deallocation, else unique.
    fill: u8,
    start: u64,
    count: u32,
    completed: bool,
    /// Guaranteed to survive.
    durable: bool,
    /// A deallocation is advice: the old contents may stay.
    advice: bool,
}

enum Outstanding {
    Write {
        index: usize,
        fua: bool,
    },
    Read {
        start: u64,
        count: u32,
        expected: Vec<Vec<u8>>,
    },
    /// The writes that were complete when it was submitted.
    Flush {
        covers: Vec<usize>,
    },
}

struct Host {
    device: Box<dyn Device>,
    now: Nanos,
    writes: Vec<Write>,
    outstanding: BTreeMap<u16, Outstanding>,
    next_cid: u16,
    /// Completions until the cut: most lies show at the moment one is told.
    completions_left: usize,
}

impl Host {
    fn submit(&mut self, command: Command, data: Option<Box<[u8]>>, kind: Outstanding) {
        while self.outstanding.len() >= usize::from(self.device.identity().queue_depth.min(4)) {
            self.step();
            if self.is_over() {
                return;
            }
        }
        let (queue, cid, request) = (QueueId(1), CommandId(self.next_cid), RequestId(0));
        self.next_cid += 1;
        self.outstanding.insert(cid.0, kind);
        self.device.submit(self.now, Submission { queue, cid, command, data, request });
    }

    fn is_over(&self) -> bool {
        self.completions_left == 0
    }

    fn step(&mut self) {
        self.now = self.now.max(self.device.next_event().expect("a device with commands outstanding has an event"));
        self.advance();
    }

    fn advance(&mut self) {
        let mut completions = Vec::new();
        self.device.advance(self.now, &mut completions);
        completions.into_iter().for_each(|completion| self.complete(completion));
    }

    fn complete(&mut self, completion: Completion) {
        assert!(completion.status.is_success() && completion.at <= self.now, "{completion:?}");
        self.completions_left = self.completions_left.saturating_sub(1);
        match self.outstanding.remove(&completion.cid.0).expect("a completion of something submitted") {
            Outstanding::Write { index, fua } => {
                self.writes[index].completed = true;
                self.writes[index].durable |= fua;
            }
            Outstanding::Flush { covers } => covers.into_iter().for_each(|index| self.writes[index].durable = true),
            Outstanding::Read { start, count, expected } => {
                let data = completion.data.expect("contents are kept");
                assert_eq!(data.len(), count as usize * LBA_BYTES);
                for ((lba, block), allowed) in (start..).zip(data.chunks(LBA_BYTES)).zip(expected) {
                    assert_block(block, &allowed, lba);
                }
            }
        }
    }

    fn drain(&mut self) {
        while !self.outstanding.is_empty() && !self.is_over() {
            self.step();
        }
    }

    fn overlaps_outstanding(&self, start: u64, count: u32) -> bool {
        self.outstanding.values().any(|outstanding| match outstanding {
            Outstanding::Write { index, .. } => {
                let write = &self.writes[*index];
                start < write.start + u64::from(write.count) && write.start < start + u64::from(count)
            }
            _ => false,
        })
    }

    /// Writes of a block, oldest first.
    fn history(&self, lba: u64) -> Vec<&Write> {
        self.writes.iter().filter(|write| (write.start..write.start + u64::from(write.count)).contains(&lba)).collect()
    }

    /// Values that a block may hold when writes may be lost unless `kept` says
    /// they are not; the latest kept one and everything after it.
    fn allowed(&self, lba: u64, kept: impl Fn(&Write) -> bool) -> Vec<u8> {
        let mut allowed = vec![0];
        for write in self.history(lba) {
            if kept(write) && !write.advice {
                allowed.clear();
            }
            allowed.push(write.fill);
        }
        allowed
    }

    fn do_op(&mut self, op: &Op) {
        let nsid = NamespaceId::FIRST;
        match *op {
            Op::Write { start, count, .. } | Op::Deallocate { start, count } | Op::Read { start, count }
                if self.overlaps_outstanding(start, count) =>
            {
                // The order of overlapping commands in flight is not defined.
            }
            Op::Write { start, count, fua } => {
                let index = self.writes.len();
                let fill = u8::try_from(index + 1).unwrap();
                self.writes.push(Write { fill, start, count, completed: false, durable: false, advice: false });
                let data = vec![fill; count as usize * LBA_BYTES].into_boxed_slice();
                let command = Command::write(nsid, LbaRange { start: Lba(start), count }, fua);
                self.submit(command, Some(data), Outstanding::Write { index, fua });
            }
            Op::Deallocate { start, count } => {
                if self.device.identity().supports_deallocate {
                    let index = self.writes.len();
                    self.writes.push(Write { fill: 0, start, count, completed: false, durable: false, advice: true });
                    let ranges = [LbaRange { start: Lba(start), count }].into();
                    self.submit(Command::Deallocate { nsid, ranges }, None, Outstanding::Write { index, fua: false });
                }
            }
            Op::Read { start, count } => {
                let expected =
                    (start..start + u64::from(count)).map(|lba| self.allowed(lba, |write| write.completed)).collect();
                let command = Command::Read { nsid, range: LbaRange { start: Lba(start), count }, fua: false };
                self.submit(command, None, Outstanding::Read { start, count, expected });
                // A write submitted meanwhile would blur what the read may see.
                self.drain();
            }
            Op::Flush => {
                let completed = |(_, write): &(usize, &Write)| write.completed;
                let covers = self.writes.iter().enumerate().filter(completed).map(|(index, _)| index).collect();
                self.submit(Command::Flush { nsid }, None, Outstanding::Flush { covers });
            }
            Op::Wait { micros } => {
                let until = self.now + Nanos::from_micros(micros);
                while !self.is_over() && self.device.next_event().is_some_and(|next| next <= until) {
                    self.step();
                }
                if !self.is_over() {
                    self.now = until;
                }
            }
            Op::Drain => self.drain(),
        }
    }

    /// Cuts the power and lets a choice of the undecided writes survive.
    fn cut(&mut self, choice: Choice) {
        self.outstanding.clear();
        self.completions_left = usize::MAX;
        let undecided = self.device.power_cut(self.now).undecided;
        assert!(undecided.is_sorted_by_key(|write| write.sequence), "oldest first");
        let survivors = choice.of(undecided.len());
        for (index, write) in undecided.iter().enumerate() {
            if survivors.has(index) {
                self.device.survive(write);
            }
        }
        let all = choice == Choice::Everything;
        // Without a volatile cache, completion is a guarantee.
        let cacheless = !self.device.identity().volatile_write_cache;
        let command = Command::Read {
            nsid: NamespaceId::FIRST,
            range: LbaRange { start: Lba(0), count: LBAS as u32 },
            fua: false,
        };
        let expected = (0..LBAS)
            .map(|lba| self.allowed(lba, |write| write.durable || write.completed && (all || cacheless)))
            .collect();
        self.submit(command, None, Outstanding::Read { start: 0, count: LBAS as u32, expected });
        let seen = self.read_back();
        // The device goes on with what it has, and keeps it.
        self.now += Nanos::from_millis(20);
        assert_eq!(self.read_back(), seen);
    }

    fn read_back(&mut self) -> Vec<u8> {
        self.drain();
        let range = LbaRange { start: Lba(0), count: LBAS as u32 };
        let command = Command::Read { nsid: NamespaceId::FIRST, range, fua: false };
        let (queue, cid, request) = (QueueId(1), CommandId(u16::MAX), RequestId(0));
        self.device.submit(self.now, Submission { queue, cid, command, data: None, request });
        let mut completions = Vec::new();
        while completions.is_empty() {
            self.now = self.now.max(self.device.next_event().unwrap());
            self.device.advance(self.now, &mut completions);
        }
        completions[0].data.as_ref().unwrap().chunks(LBA_BYTES).map(|block| block[0]).collect()
    }
}

fn assert_block(block: &[u8], allowed: &[u8], lba: u64) {
    assert!(block.iter().all(|byte| *byte == block[0]), "block {lba} is torn");
    assert!(allowed.contains(&block[0]), "block {lba} holds write {}, of {allowed:?} allowed", block[0]);
}

/// Runs `ops` up to the completion of a number of commands, and cuts.
fn run(name: &str, ops: &[Op], completions: usize, choice: Choice, faults: &FaultPlan) {
    let options = BuildOptions { contents: Contents::Memory, recover_from_flash: true, ..BuildOptions::default() };
    let device = Profile::builtin(name).unwrap().build(&options).unwrap();
    let mut host = Host {
        device: Box::new(FaultyDevice::new(device, faults.clone())),
        now: Nanos::ZERO,
        writes: Vec::new(),
        outstanding: BTreeMap::new(),
        next_cid: 0,
        completions_left: completions,
    };
    for op in ops {
        if host.is_over() {
            break;
        }
        host.do_op(op);
    }
    host.cut(choice);
}

/// Whether a device takes writes only at write pointers.
fn is_zoned(name: &str) -> bool {
    matches!(Profile::builtin(name).unwrap().config, DeviceConfig::Zoned(_))
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![Just(Choice::Nothing), Just(Choice::Everything), any::<u64>().prop_map(Choice::Lot)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn power_cuts_keep_the_promise(ops in prop::collection::vec(op(), 1..60), completions in 1usize..50, choice in choice()) {
        for name in builtin_names().filter(|name| !is_zoned(name)) {
            run(name, &ops, completions, choice, &FaultPlan::default());
        }
    }
}

/// A device that says it flushed and did not is found out, whichever it is, if its cache is volatile.
#[test]
fn lost_flushes_are_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let noticed = |name| {
        let input = (prop::collection::vec(op(), 1..60), 1usize..50, choice());
        let config =
            ProptestConfig { cases: 400, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
        let outcome = TestRunner::new(config).run(&input, |(ops, completions, choice)| {
            let faults = FaultPlan::default();
            faults.inject(Fault::new(Effect::LostFlush)).unwrap();
            run(name, &ops, completions, choice, &faults);
            Ok::<(), TestCaseError>(())
        });
        outcome.is_err()
    };
    let volatile = |name: &&str| {
        let device = Profile::builtin(name).unwrap().build(&BuildOptions::default()).unwrap();
        !is_zoned(name) && device.identity().volatile_write_cache
    };
    let (names, unnoticed): (Vec<_>, Vec<_>) = builtin_names().filter(volatile).partition(|name| noticed(*name));
    std::panic::set_hook(hook);
    assert!(!names.is_empty() && unnoticed.is_empty(), "{unnoticed:?}");
}
