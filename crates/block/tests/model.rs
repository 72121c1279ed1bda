//! Random bios against a model of what a disk holds, through every
//! configuration: contents, limits, completion, and what a power cut may take.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use std::rc::Rc;

use crate::support::{BLOCK, CacheDevice, Log, bio};
use block::{Bio, BioFlags, BioOp, BlockDevice, NoMerges, QueueConfig, SchedulerKind};
use crash::Choice;
use nvme::{Command, WriteCommand};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use sim::{Executor, Handle};
use ssd::faults::{self, Fault, FaultPlan, FaultyDevice};
use ssd::{Contents, Device, Ssd, SsdConfig};
use trace::Recorder;
use units::{ByteSize, Nanos};

/// Blocks that the random bios touch.
const BLOCKS: u64 = 48;

/// What the test does next.
#[derive(Clone, Debug)]
enum Action {
    Submit { op: BioOp, place: Place, blocks: u64, flags: u16, cpu: u16 },
    Plug(u16),
    Unplug,
    Pause(u64),
}

/// Where a bio lies.
#[derive(Clone, Copy, Debug)]
enum Place {
    At(u64),
    /// Behind or before the last bio, of the same kind: these merge.
    After,
    Before,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let op = prop_oneof![
        5 => Just(BioOp::Write),
        3 => Just(BioOp::Read),
        1 => Just(BioOp::Discard),
        1 => Just(BioOp::WriteZeroes),
    ];
    let place = prop_oneof![2 => (0..BLOCKS).prop_map(Place::At), 3 => Just(Place::After), 1 => Just(Place::Before)];
    // Flags on one bio in three, so that the others may merge.
    let flags = prop_oneof![2 => Just(0), 1 => 0..32_u16];
    let submit = (op, place, 0..12_u64, flags, 0..4_u16).prop_map(|(op, place, blocks, flags, cpu)| Action::Submit {
        op,
        place,
        blocks,
        flags,
        cpu,
    });
    let action = prop_oneof![
        12 => submit,
        2 => (0..4_u16).prop_map(Action::Plug),
        2 => Just(Action::Unplug),
        2 => (1..40_u64).prop_map(Action::Pause),
    ];
    prop::collection::vec(action, 1..80)
}

fn configs() -> impl Strategy<Value = QueueConfig> {
    let scheduler = prop_oneof![Just(SchedulerKind::None), Just(SchedulerKind::MqDeadline), Just(SchedulerKind::Zinc)];
    let nomerges = prop_oneof![4 => Just(NoMerges::All), 1 => Just(NoMerges::OneHit), 1 => Just(NoMerges::Never)];
    (scheduler, nomerges, 1..5_u16, 1..4_u16, 1..80_u16, 2..40_u16, 1..8_u32, 1..9_u16).prop_map(
        |(scheduler, nomerges, cpus, hw, depth, requests, max_blocks, segments)| QueueConfig {
            scheduler: Some(scheduler),
            nomerges,
            cpus: NonZeroU16::new(cpus).unwrap(),
            nr_hw_queues: NonZeroU16::new(hw),
            queue_depth: NonZeroU16::new(depth),
            nr_requests: NonZeroU16::new(requests),
            max_sectors_kb: NonZeroU32::new(max_blocks * 4),
            max_segments: NonZeroU16::new(segments).unwrap(),
            ..Default::default()
        },
    )
}

/// What each block must, or after a power cut may, hold.
#[derive(Default)]
struct Disk {
    /// Versions of each block, oldest first; version 0, all zeroes, is implied.
    written: BTreeMap<u64, Vec<u64>>,
    /// How many of a block's versions are acknowledged, and how many promised to survive.
    acknowledged: BTreeMap<u64, usize>,
    promised: BTreeMap<u64, usize>,
    completed: usize,
    next_version: u64,
}

/// A bio's effect on the model, noted when it was submitted.
struct Effect {
    bio: (BioOp, u64, u64, BioFlags),
    /// Version of each written block (its place in `written`, plus one).
    versions: Vec<(u64, usize)>,
    /// What was acknowledged at submission: a PREFLUSH promises that.
    acknowledged: BTreeMap<u64, usize>,
    /// A read's expected bytes.
    expected: Option<Vec<u8>>,
}

fn pattern(version: u64) -> impl Iterator<Item = u8> {
    version.to_le_bytes().into_iter().cycle().take(BLOCK as usize)
}

impl Disk {
    fn submit(&mut self, op: BioOp, block: u64, blocks: u64, flags: BioFlags) -> (Bio, Effect) {
        let mut made = bio(op, block, blocks, flags);
        let mut effect = Effect {
            bio: (op, block, blocks, flags),
            versions: Vec::new(),
            acknowledged: self.acknowledged.clone(),
            expected: None,
        };
        if op == BioOp::Read {
            let newest = |block| self.written.get(&block).and_then(|versions| versions.last()).copied().unwrap_or(0);
            effect.expected = Some((block..block + blocks).flat_map(|block| pattern(newest(block))).collect());
            return (made, effect);
        }
        let mut data = Vec::new();
        for block in block..block + blocks {
            self.next_version += 1;
            let version = if op == BioOp::Write { self.next_version } else { 0 };
            data.extend(pattern(version));
            let versions = self.written.entry(block).or_default();
            versions.push(version);
            effect.versions.push((block, versions.len()));
        }
        if op == BioOp::Write && blocks > 0 {
            made.data = Some(data.into());
        }
        (made, effect)
    }

    fn complete(&mut self, effect: Effect, result: block::BioResult) {
        assert!(result.status.is_success(), "{:?}: {:?}", effect.bio, result.status);
        self.completed += 1;
        if let Some(expected) = effect.expected {
            assert_eq!(result.data.as_deref(), Some(expected.as_slice()), "{:?}", effect.bio);
        }
        let raise = |to: &mut BTreeMap<u64, usize>, block, version: usize| {
            let entry = to.entry(block).or_insert(0);
            *entry = version.max(*entry);
        };
        if effect.bio.3.contains(BioFlags::PREFLUSH) {
            effect.acknowledged.iter().for_each(|(block, version)| raise(&mut self.promised, *block, *version));
        }
        for (block, version) in effect.versions {
            raise(&mut self.acknowledged, block, version);
            if effect.bio.3.contains(BioFlags::FUA) {
                raise(&mut self.promised, block, version);
            }
        }
    }

    /// Holds what the device has after a power cut against what was promised.
    fn judge_survivors(&self, contents: impl Fn(u64) -> Vec<u8>) {
        for (block, versions) in &self.written {
            let found = contents(*block);
            let promised = self.promised.get(block).copied().unwrap_or(0);
            let may = std::iter::once(0).chain(versions.iter().copied()).skip(promised);
            let kept = may.into_iter().any(|version| pattern(version).eq(found.iter().copied()));
            assert!(kept, "block {block} lost version {promised}; has {:?}", &found[..8]);
        }
    }
}

/// Performs the actions; a bio waits for those in flight that it overlaps, as
/// an application must that wants to know what it reads.
async fn perform(handle: Handle, device: BlockDevice, disk: Rc<RefCell<Disk>>, actions: Vec<Action>) {
    let mut plug = None;
    let mut in_flight: Vec<(u64, u64, sim::JoinHandle<()>)> = Vec::new();
    let mut last = (BioOp::Write, 0..0);
    for action in actions {
        match action {
            Action::Plug(cpu) => drop(plug.replace(device.plug(cpu))),
            Action::Unplug => drop(plug.take()),
            Action::Pause(micros) => {
                plug = None;
                handle.sleep(Nanos::from_micros(micros)).await;
            }
            Action::Submit { op, place, blocks, flags, cpu } => {
                let (op, block, blocks) = match place {
                    Place::At(block) => (op, block, blocks),
                    Place::After => (last.0, last.1.end % BLOCKS, blocks),
                    Place::Before => {
                        let blocks = blocks.min(last.1.start);
                        (last.0, last.1.start - blocks, blocks)
                    }
                };
                let mut flags = BioFlags::from_bits_truncate(flags);
                if op != BioOp::Write {
                    flags -= BioFlags::PREFLUSH | BioFlags::FUA;
                }
                let least = u64::from(!flags.contains(BioFlags::PREFLUSH));
                let blocks = blocks.max(least).min(BLOCKS - block);
                last = (op, block..block + blocks);
                let overlaps = |entry: &(u64, u64, _)| block < entry.1 && entry.0 < block + blocks;
                if in_flight.iter().any(overlaps) {
                    plug = None;
                    for (_, _, task) in in_flight.drain(..) {
                        task.await;
                    }
                }
                let (bio, effect) = disk.borrow_mut().submit(op, block, blocks, flags);
                let future = match &mut plug {
                    Some(plug) => plug.submit(bio),
                    None => device.submit(cpu, bio),
                };
                let disk = disk.clone();
                let task = handle.spawn(async move {
                    let result = future.await;
                    disk.borrow_mut().complete(effect, result);
                });
                in_flight.push((block, block + blocks, task));
            }
        }
    }
    drop(plug);
    for (_, _, task) in in_flight {
        task.await;
    }
}

fn submissions(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Submit { .. })).count()
}

/// Every command the device saw is within the limits.
fn check_limits(device: &BlockDevice, log: &RefCell<Log>) {
    let limits = device.limits();
    for (_, _, command) in &log.borrow().commands {
        match command {
            Command::Read { range, .. } | Command::Write(WriteCommand { range, .. }) => {
                // One segment a block: segment_bytes is a block.
                assert!(u64::from(range.count) * BLOCK <= limits.max_sectors * 512);
                assert!(range.count <= limits.max_segments);
            }
            Command::ZoneAppend { .. } | Command::ZoneManagementSend { .. } | Command::ZoneManagementReceive { .. } => {
                panic!("this device has no zones")
            }
            Command::StreamManagement { .. } => panic!("this device keeps no order"),
            Command::WriteZeroes { range, .. } => {
                assert!(u64::from(range.count) * BLOCK <= limits.max_write_zeroes_sectors * 512);
            }
            Command::Deallocate { ranges, .. } => assert!(ranges.len() <= limits.max_discard_segments as usize),
            Command::Flush { .. } => {}
        }
    }
}

fn device(fua: bool, flush_us: u64) -> (CacheDevice, Rc<RefCell<Log>>) {
    let (mut device, log) = CacheDevice::new(BLOCKS, Nanos::from_micros(10));
    device.identity_mut().supports_fua = fua;
    device.identity_mut().queue_depth = 20;
    device.latencies(Nanos::from_micros(10), Nanos::from_micros(flush_us));
    (device, log)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every bio completes once, reads return what was written last, and no
    /// command exceeds a limit.
    #[test]
    fn the_queue_is_a_disk(actions in actions(), config in configs(), fua: bool, flush_us in 1..60_u64) {
        let mut executor = Executor::new_virtual();
        let (device, log) = device(fua, flush_us);
        let device = BlockDevice::new(&executor.handle(), Box::new(device), config, Recorder::default());
        let disk = Rc::new(RefCell::new(Disk::default()));
        let bios = submissions(&actions);
        drop(executor.handle().spawn(perform(executor.handle(), device.clone(), disk.clone(), actions)));
        prop_assert_eq!(executor.run(), 0, "tasks wait for ever");
        prop_assert_eq!(disk.borrow().completed, bios);
        check_limits(&device, &log);
        let statistics = device.statistics();
        prop_assert_eq!((statistics.requests, statistics.in_flight, statistics.bios), (0, 0, bios as u64));
        let dispatched: u64 = statistics.hardware_queues.iter().map(|queue| queue.dispatched).sum();
        prop_assert_eq!(dispatched, log.borrow().commands.len() as u64);
    }

    /// What a flush or FUA promised is there after a power cut at any moment,
    /// on a device that keeps no more than NVMe makes it keep.
    #[test]
    fn promises_survive_a_power_cut(
        actions in actions(),
        config in configs(),
        fua: bool,
        flush_us in 1..60_u64,
        cut_us in 1..600_u64,
    ) {
        let mut executor = Executor::new_virtual();
        let (device, _) = device(fua, flush_us);
        let device = BlockDevice::new(&executor.handle(), Box::new(device), config, Recorder::default());
        let disk = Rc::new(RefCell::new(Disk::default()));
        drop(executor.handle().spawn(perform(executor.handle(), device.clone(), disk.clone(), actions)));
        executor.run_until(Nanos::from_micros(cut_us));
        device.with_device(|device| device.power_cut(Nanos::from_micros(cut_us)));
        let contents = |block| device.with_device(|device| read_block(device, cut_us, block));
        disk.borrow().judge_survivors(contents);
    }
}

/// A small flash SSD that keeps contents: a volatile buffer of a few slots
/// over four dies, 20 commands deep.
fn flash(buffer_slots: u64) -> Box<dyn Device> {
    let mut config = SsdConfig::reference();
    (config.geometry.channels, config.geometry.chips_per_channel, config.geometry.dies_per_chip) = (2, 1, 2);
    (config.geometry.pages_per_block, config.link.queue_depth) = (12, 20);
    config.namespaces = vec![ByteSize(8 << 20)];
    config.over_provisioning = Some(3.0);
    config.max_transfer = ByteSize(64 << 10);
    config.buffer.size = ByteSize(buffer_slots * BLOCK);
    let mut device = Ssd::new(&config).unwrap();
    device.keep_contents(&Contents::Memory, true).unwrap();
    device.recover_from_flash();
    Box::new(device)
}

/// A run of bios that ends in a power cut of the flash model.
#[derive(Clone, Debug)]
struct FlashCut {
    actions: Vec<Action>,
    config: QueueConfig,
    buffer_slots: u64,
    cut_us: u64,
    survivors: Choice,
}

fn flash_cuts() -> impl Strategy<Value = FlashCut> {
    (actions(), configs(), 40..120_u64, 1..20_000_u64, any::<u64>()).prop_map(
        |(actions, config, buffer_slots, cut_us, lot)| FlashCut {
            actions,
            config,
            buffer_slots,
            cut_us,
            survivors: Choice::Lot(lot),
        },
    )
}

/// Cuts the power and judges what is left; `faults` are the device's.
fn cut_flash(cut: FlashCut, faults: FaultPlan) {
    let FlashCut { actions, config, buffer_slots, cut_us, survivors } = cut;
    let mut executor = Executor::new_virtual();
    let device = Box::new(FaultyDevice::new(flash(buffer_slots), faults));
    let device = BlockDevice::new(&executor.handle(), device, config, Recorder::default());
    let disk = Rc::new(RefCell::new(Disk::default()));
    drop(executor.handle().spawn(perform(executor.handle(), device.clone(), disk.clone(), actions)));
    executor.run_until(Nanos::from_micros(cut_us));
    let undecided = device.power_cut().undecided;
    let survivors = survivors.of(undecided.len());
    device.with_device(|device| {
        for (index, write) in undecided.iter().enumerate() {
            if survivors.has(index) {
                device.survive(write);
            }
        }
    });
    let now_us = executor.handle().now().0 / 1000 + 1;
    let contents = |block| device.with_device(|device| read_block(device, now_us, block));
    disk.borrow().judge_survivors(contents);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// As above on the flash model, whichever undecided writes its power cut leaves.
    #[test]
    fn promises_survive_a_power_cut_of_flash(cut in flash_cuts()) {
        cut_flash(cut, FaultPlan::default());
    }
}

#[test]
fn lost_flushes_of_flash_are_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let config =
        ProptestConfig { cases: 400, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&flash_cuts(), |cut| {
        let plan = FaultPlan::default();
        plan.inject(Fault::new(faults::Effect::LostFlush)).unwrap();
        cut_flash(cut, plan);
        Ok::<(), TestCaseError>(())
    });
    std::panic::set_hook(hook);
    assert!(outcome.is_err(), "a device that does not flush passes");
}

/// Reads a block from the bare device after a power cut.
fn read_block(device: &mut dyn Device, now_us: u64, block: u64) -> Vec<u8> {
    // A device that was read before is past that moment.
    let now = Nanos::from_micros(now_us) + Nanos::from_millis(block);
    device.submit(
        now,
        ssd::Submission {
            queue: nvme::QueueId(1),
            cid: nvme::CommandId(0),
            command: Command::Read {
                nsid: nvme::NamespaceId::FIRST,
                range: nvme::LbaRange { start: nvme::Lba(block), count: 1 },
                fua: false,
            },
            data: None,
            request: trace::RequestId::default(),
        },
    );
    let mut completions = Vec::new();
    while let Some(at) = device.next_event() {
        device.advance(at, &mut completions);
    }
    completions.remove(0).data.unwrap().into()
}
