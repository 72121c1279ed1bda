//! Random command sequences against a model of what the host may see (tests only).
//!
//! The model knows nothing of flash. It keeps every write of every block with
//! the interval from submission to completion, and from those what a read may
//! return, and what must and what may survive a power cut. Deliberately broken
//! devices show that it would notice.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crash::Choice;
use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, WriteOrder};
use proptest::prelude::*;
use trace::RequestId;
use units::{ByteSize, Nanos};

use super::{Mutant, Ssd};
use crate::config::{GcPolicyKind, HotCold, Initial, Overwritten, SlcCache, SsdConfig, Suspend};
use crate::{Completion, Contents, Device, Submission};

mod ordered;

use ordered::{Ordered, OrderedWrite};

/// A point in the host's order of submissions and completions.
type Instant = u64;
const NEVER: Instant = Instant::MAX;

/// One write of one block. `value` 0 is zeroes.
#[derive(Clone, Copy, Debug)]
struct Version {
    value: u64,
    submitted: Instant,
    completed: Instant,
    /// When it became certain to survive.
    durable: bool,
}

impl Version {
    fn before(&self, other: &Self) -> bool {
        self.completed < other.submitted
    }
}

/// What the host knows of one outstanding command.
enum Outstanding {
    Read { blocks: Vec<(u32, u64)>, submitted: Instant },
    Write { blocks: Vec<(u32, u64)>, value: u64, fua: bool, submitted: Instant },
    Flush { submitted: Instant },
}

struct Host {
    ssd: Ssd,
    now: Nanos,
    instant: Instant,
    history: BTreeMap<(u32, u64), Vec<Version>>,
    outstanding: BTreeMap<u16, Outstanding>,
    next_cid: u16,
    next_value: u64,
    /// What the host says of order, on a device that keeps it.
    ordered: Option<Ordered>,
}

#[derive(Clone, Debug)]
enum Action {
    Write { ns: bool, at: u16, blocks: u8, fua: bool },
    Ordered(OrderedWrite),
    Zero { ns: bool, at: u16, blocks: u8, fua: bool },
    Trim { ns: bool, at: u16, blocks: u8 },
    Read { ns: bool, at: u16, blocks: u8, fua: bool },
    Flush,
    Wait { micros: u16 },
    Cut { survivors: Choice },
}

fn action() -> impl Strategy<Value = Action> {
    let range = || (any::<bool>(), any::<u16>(), 1..24_u8);
    prop_oneof![
        12 => (range(), prop::bool::weighted(0.1)).prop_map(|((ns, at, blocks), fua)| Action::Write { ns, at, blocks, fua }),
        1 => (range(), prop::bool::weighted(0.2)).prop_map(|((ns, at, blocks), fua)| Action::Zero { ns, at, blocks, fua }),
        1 => range().prop_map(|(ns, at, blocks)| Action::Trim { ns, at, blocks }),
        4 => (range(), prop::bool::weighted(0.1)).prop_map(|((ns, at, blocks), fua)| Action::Read { ns, at, blocks, fua }),
        1 => Just(Action::Flush),
        8 => (0..3000_u16).prop_map(|micros| Action::Wait { micros }),
        1 => any::<u64>().prop_map(|lot| Action::Cut { survivors: Choice::Lot(lot) }),
    ]
}

/// A device of two dies and a few hundred units, so that everything happens often.
fn tiny() -> SsdConfig {
    let mut config = SsdConfig::reference();
    config.lba = ByteSize(512);
    config.max_transfer = ByteSize(16 << 10);
    config.namespaces = vec![ByteSize((50 << 12) + 3 * 512), ByteSize(30 << 12)];
    config.over_provisioning = None;
    config.geometry.channels = 2;
    config.geometry.chips_per_channel = 1;
    config.geometry.dies_per_chip = 1;
    config.geometry.blocks_per_plane = Some(12);
    config.geometry.pages_per_block = 6;
    config.geometry.page = ByteSize(4096);
    config.buffer.size = ByteSize(20 << 12);
    config.controller.processors = 2;
    config.controller.journal_pages_per_flush = 2;
    config
}

/// Every option at least once.
fn configs() -> Vec<SsdConfig> {
    let variant = |change: fn(&mut SsdConfig)| {
        let mut config = tiny();
        change(&mut config);
        config
    };
    vec![
        tiny(),
        variant(|c| c.lba = ByteSize(4096)).with_whole_blocks(),
        variant(|c| c.cell.one_shot = true).with_one_shot(),
        variant(|c| {
            c.suspend = Some(Suspend { suspend: Nanos(5_000), resume: Nanos(8_000), max_per_operation: 2 });
            c.gc.policy = GcPolicyKind::CostBenefit;
        }),
        variant(|c| {
            let micros = Nanos::from_micros;
            let fold_after_idle = Some(Nanos::from_millis(2));
            let size = ByteSize(24 << 12);
            c.slc_cache =
                Some(SlcCache { size, read: micros(20), program: micros(100), erase: micros(1000), fold_after_idle });
        }),
        variant(|c| c.buffer.power_loss_protected = true),
        variant(|c| c.initial = Initial { fill: 0.8, ..Initial::default() }),
        variant(|c| {
            let hot = Some(HotCold { writes: 0.9, space: 0.3 });
            c.initial = Initial { fill: 1.0, overwritten: Overwritten::HotCold, hot, ..Initial::default() };
        }),
    ]
}

impl SsdConfig {
    fn with_whole_blocks(mut self) -> Self {
        self.namespaces[0] = ByteSize(50 << 12);
        self
    }
    fn with_one_shot(mut self) -> Self {
        self.cell.program = vec![Nanos::from_millis(1)];
        self
    }
}

impl Host {
    fn new(config: &SsdConfig, mutant: Option<Mutant>) -> Self {
        let mut ssd = Ssd::new(config).unwrap();
        ssd.keep_contents(&Contents::Memory, true).unwrap();
        ssd.recover_from_flash();
        mutant.into_iter().for_each(|mutant| ssd.break_by(mutant));
        Self {
            ssd,
            now: Nanos::ZERO,
            instant: 0,
            history: BTreeMap::new(),
            outstanding: BTreeMap::new(),
            next_cid: 0,
            next_value: 1,
            ordered: None,
        }
    }

    fn tick(&mut self) -> Instant {
        self.instant += 1;
        self.instant
    }

    fn run(&mut self, actions: &[Action]) -> Result<(), String> {
        for action in actions {
            match *action {
                Action::Wait { micros } => self.advance(self.now + Nanos::from_micros(micros.into()))?,
                Action::Cut { survivors } => self.cut(survivors)?,
                _ => self.submit(action),
            }
        }
        self.finish()?;
        self.read_everything()?;
        self.cut(Choice::Lot(self.next_value))
    }

    /// Where a range of the generator's lies: namespace, first block, count.
    fn range(&self, ns: bool, at: u16, blocks: u8) -> (NamespaceId, LbaRange) {
        let index = usize::from(ns);
        let size = self.ssd.identity().namespace_blocks[index];
        let start = u64::from(at) % size;
        let count = u64::from(blocks).min(size - start).min(16) as u32;
        let most = self.ssd.identity().max_transfer_bytes / self.ssd.identity().lba_bytes;
        (NamespaceId(index as u32 + 1), LbaRange { start: Lba(start), count: count.min(most) })
    }

    fn submit(&mut self, action: &Action) {
        let submitted = self.tick();
        let lba_bytes = self.ssd.identity().lba_bytes as usize;
        let per_unit = u64::from(self.ssd.layout.lbas_per_unit);
        let blocks =
            |nsid: NamespaceId, range: LbaRange| (range.start.0..range.end().0).map(|lba| (nsid.0, lba)).collect();
        let mut data = None;
        let mut queue = QueueId(1);
        let (command, expect) = match *action {
            Action::Write { ns, at, blocks: count, fua }
            | Action::Ordered(OrderedWrite { ns, at, blocks: count, fua, .. }) => {
                let (nsid, range) = self.range(ns, at, count);
                let value = self.next_value;
                self.next_value += 1;
                let block: Vec<u8> = value.to_le_bytes().into_iter().cycle().take(lba_bytes).collect();
                data = Some(block.repeat(range.count as usize).into_boxed_slice());
                let expect = Outstanding::Write { blocks: blocks(nsid, range), value, fua, submitted };
                let mut order = WriteOrder::NONE;
                if let (Action::Ordered(write), Some(ordered)) = (action, &mut self.ordered) {
                    queue = QueueId(write.queue);
                    order = ordered.order(write, self.next_cid, range.count);
                }
                (Command::ordered_write(nsid, range, fua, order), expect)
            }
            Action::Zero { ns, at, blocks: count, fua } => {
                let (nsid, range) = self.range(ns, at, count);
                let expect = Outstanding::Write { blocks: blocks(nsid, range), value: 0, fua, submitted };
                (Command::WriteZeroes { nsid, range, fua, deallocate: true }, expect)
            }
            Action::Trim { ns, at, blocks: count } => {
                let (nsid, mut range) = self.range(ns, at, count);
                // Whole units only: the device may leave the rest of a range alone.
                range.start.0 = range.start.0 / per_unit * per_unit;
                let size = self.ssd.identity().namespace_blocks[nsid.0 as usize - 1];
                range.count = (u64::from(range.count).next_multiple_of(per_unit)).min(size - range.start.0) as u32;
                let expect = Outstanding::Write { blocks: blocks(nsid, range), value: 0, fua: false, submitted };
                (Command::Deallocate { nsid, ranges: [range].into() }, expect)
            }
            Action::Read { ns, at, blocks: count, fua } => {
                let (nsid, range) = self.range(ns, at, count);
                (Command::Read { nsid, range, fua }, Outstanding::Read { blocks: blocks(nsid, range), submitted })
            }
            _ => (Command::Flush { nsid: NamespaceId::ALL }, Outstanding::Flush { submitted }),
        };
        if let Outstanding::Write { blocks, value, .. } = &expect {
            for block in blocks {
                let version = Version { value: *value, submitted, completed: NEVER, durable: false };
                self.history.entry(*block).or_default().push(version);
            }
        }
        let cid = self.next_cid;
        self.next_cid += 1;
        self.ordered.iter_mut().for_each(|ordered| ordered.submitted(cid, &expect));
        self.outstanding.insert(cid, expect);
        let request = RequestId(cid.into());
        self.ssd.submit(self.now, Submission { queue, cid: CommandId(cid), command, data, request });
    }

    fn advance(&mut self, until: Nanos) -> Result<(), String> {
        let mut done = Vec::new();
        while let Some(next) = self.ssd.next_event()
            && next <= until
        {
            self.now = next;
            self.ssd.advance(next, &mut done);
            let accepted = std::mem::take(&mut self.ssd.acceptances);
            self.ordered.iter_mut().try_for_each(|ordered| ordered.accepted(&accepted))?;
            for completion in done.drain(..) {
                self.complete(completion)?;
            }
        }
        self.now = until;
        Ok(())
    }

    /// Lets every command complete, within a time no tiny device needs.
    fn finish(&mut self) -> Result<(), String> {
        self.advance(self.now + Nanos::from_secs(20))?;
        if !self.outstanding.is_empty() {
            return Err(format!("{} commands never complete", self.outstanding.len()));
        }
        self.ssd.check_invariants();
        Ok(())
    }

    fn complete(&mut self, completion: Completion) -> Result<(), String> {
        let completed = self.tick();
        if !completion.status.is_success() {
            return Err(format!("{completion:?}"));
        }
        self.ordered.iter_mut().for_each(|ordered| ordered.completed(completion.cid.0));
        match self.outstanding.remove(&completion.cid.0) {
            None => return Err(format!("{completion:?} answers nothing")),
            Some(Outstanding::Read { blocks, submitted }) => {
                let data = completion.data.unwrap_or_default();
                let lba_bytes = self.ssd.identity().lba_bytes as usize;
                if data.len() != blocks.len() * lba_bytes {
                    return Err(format!("{} bytes for {} blocks", data.len(), blocks.len()));
                }
                for (block, bytes) in blocks.iter().zip(data.chunks(lba_bytes)) {
                    self.check_read(*block, value_of(bytes)?, submitted)?;
                }
            }
            Some(Outstanding::Write { blocks, fua, submitted, .. }) => {
                for block in blocks {
                    for version in self.history.get_mut(&block).into_iter().flatten() {
                        if version.submitted == submitted {
                            (version.completed, version.durable) = (completed, fua);
                        }
                    }
                }
            }
            Some(Outstanding::Flush { submitted }) => {
                for version in self.history.values_mut().flatten() {
                    version.durable |= version.completed < submitted;
                }
            }
        }
        Ok(())
    }

    /// A read may return any version that no completed one had replaced before
    /// the read was submitted.
    fn check_read(&self, block: (u32, u64), value: u64, submitted: Instant) -> Result<(), String> {
        let versions = self.history.get(&block).map_or(&[][..], Vec::as_slice);
        let replaced = |old: &Version| versions.iter().any(|new| new.completed < submitted && old.before(new));
        let initial = Version { value: 0, submitted: 0, completed: 0, durable: true };
        if versions.iter().chain([&initial]).any(|version| version.value == value && !replaced(version)) {
            return Ok(());
        }
        Err(format!("block {block:?} reads {value}, which is not of {versions:?}"))
    }

    fn read_everything(&mut self) -> Result<(), String> {
        for index in [false, true] {
            let size = self.ssd.identity().namespace_blocks[usize::from(index)];
            for at in (0..size).step_by(4) {
                self.submit(&Action::Read { ns: index, at: at as u16, blocks: 4, fua: false });
                self.advance(self.now + Nanos::from_micros(1))?;
            }
        }
        self.finish()
    }

    /// Cuts the power, lets some undecided writes survive, and checks that every
    /// block holds something it may.
    fn cut(&mut self, survivors: Choice) -> Result<(), String> {
        self.ssd.ftl.check_invariants(&self.ssd.layout);
        self.ordered.iter().for_each(|ordered| ordered.finish_page(&mut self.ssd, self.now));
        let cut = self.ssd.power_cut(self.now);
        self.ssd.check_invariants();
        self.outstanding.clear();
        let survivors = survivors.of(cut.undecided.len());
        let allowed = ordered::survivors(&cut.undecided, |at| survivors.has(at));
        for (at, write) in cut.undecided.iter().enumerate() {
            if allowed.contains(&at) {
                self.ssd.survive(write);
            }
        }
        self.ssd.check_invariants();
        let mut found = BTreeMap::new();
        let before = std::mem::take(&mut self.history);
        let lba_bytes = self.ssd.identity().lba_bytes as usize;
        for (nsid, size) in (1..).zip(self.ssd.identity().namespace_blocks.clone()) {
            for lba in 0..size {
                let command = Command::Read {
                    nsid: NamespaceId(nsid),
                    range: LbaRange { start: Lba(lba), count: 1 },
                    fua: false,
                };
                let submission =
                    Submission { queue: QueueId(1), cid: CommandId(0), command, data: None, request: RequestId(0) };
                self.ssd.submit(self.now, submission);
                let mut done = Vec::new();
                while done.is_empty() {
                    self.now = self.ssd.next_event().ok_or("the read after the cut never completes")?;
                    self.ssd.advance(self.now, &mut done);
                }
                let value = value_of(&done[0].data.as_deref().unwrap_or_default()[..lba_bytes])?;
                let versions = before.get(&(nsid, lba)).map_or(&[][..], Vec::as_slice);
                let lost = |old: &Version| versions.iter().any(|new| new.durable && old.before(new));
                let initial = Version { value: 0, submitted: 0, completed: 0, durable: true };
                let mut allowed = versions.iter().chain([&initial]).filter(|version| !lost(version));
                if !allowed.any(|version| version.value == value) {
                    return Err(format!("after the cut block {lba} of {nsid} reads {value}, not of {versions:?}"));
                }
                let version = Version { value, submitted: 0, completed: 0, durable: true };
                self.history.insert((nsid, lba), vec![version]);
                found.insert((nsid, lba), value);
            }
        }
        // What is there now is the oldest state there is.
        for version in self.history.values_mut().flatten() {
            (version.submitted, version.completed) = (self.instant, self.instant + 1);
        }
        self.instant += 1;
        match self.ordered.take() {
            Some(ordered) => ordered.check(&found).and_then(|()| self.open_streams(ordered.again())),
            None => Ok(()),
        }
    }
}

/// The value that fills a block; an error if it holds two.
fn value_of(bytes: &[u8]) -> Result<u64, String> {
    let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    if bytes.chunks(8).all(|word| word == value.to_le_bytes()) {
        Ok(value)
    } else {
        Err(format!("a block mixes two writes: {value} and others"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_host_sees_only_what_it_may(
        which in 0..configs().len(),
        actions in prop::collection::vec(action(), 1..250),
    ) {
        let mut host = Host::new(&configs()[which], None);
        host.run(&actions).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn every_configuration_survives_a_long_run() {
    for config in configs() {
        for seed in 0..3 {
            Host::new(&config, None).run(&sequence(seed, 1000)).unwrap();
        }
        let mut host = Host::new(&config, None);
        host.run(&sequence(7, 3000)).unwrap();
        let counters = host.ssd.counters();
        let erases = counters.iter().find(|(name, _)| name == "erases").unwrap().1;
        assert!(erases > 20, "the run never collects: {erases} erases");
    }
}

/// The same actions for the same seed.
fn sequence(seed: u8, length: usize) -> Vec<Action> {
    sequence_of(action(), seed, length)
}

fn sequence_of(action: impl Strategy<Value = Action> + 'static, seed: u8, length: usize) -> Vec<Action> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    prop::collection::vec(action, length).new_tree(&mut runner).unwrap().current()
}

#[test]
fn broken_devices_are_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let noticed = |mutant| {
        (0..20).any(|seed| {
            let run = || Host::new(&tiny(), Some(mutant)).run(&sequence(seed, 400));
            !matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(())))
        })
    };
    let unnoticed: Vec<_> = Mutant::ALL.into_iter().filter(|mutant| !noticed(*mutant)).collect();
    std::panic::set_hook(hook);
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

#[test]
fn the_same_commands_give_the_same_run() {
    let run = || {
        let mut host = Host::new(&tiny(), None);
        host.run(&sequence(3, 500)).unwrap();
        (host.now, host.ssd.counters())
    };
    assert_eq!(run(), run());
}
