//! A device that writes down its commands, and short ways to make bios.
#![allow(dead_code, clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use block::{Bio, BioFlags, BioFuture, BioOp, BioResult, BlockDevice, QueueConfig, Sector};
use nvme::{Command, LbaRange, Status, WriteCommand};
use sim::Executor;
use ssd::{Completion, Device, Identity, Payload, PowerCut, Submission, VolatileWrite};
use trace::{Recorder, RequestId};
use units::Nanos;

pub mod zoned;

/// Bytes of a logical block of the test device.
pub const BLOCK: u64 = 4096;

/// A device with a volatile write cache: writes go to the cache, a flush or FUA
/// makes them durable, a power cut empties the cache. Commands take `latency`
/// each, side by side, except that `flush_latency` is taken by flushes.
///
/// A flush covers the writes whose commands completed before it was submitted,
/// and nothing else: the least that NVMe promises (NVM 3.2.3).
pub struct CacheDevice {
    identity: Identity,
    latency: Nanos,
    flush_latency: Nanos,
    log: Rc<RefCell<Log>>,
    outstanding: BTreeMap<(Nanos, u64), (Submission, u64)>,
    sequence: u64,
    /// Contents as read, and as they would be after a power cut.
    cached: BTreeMap<u64, Box<[u8]>>,
    durable: BTreeMap<u64, Box<[u8]>>,
    /// Completed writes not yet durable: (sequence of completion, block, bytes).
    dirty: Vec<(u64, u64, Payload)>,
    completions: u64,
}

/// What a test sees of the device.
#[derive(Default)]
pub struct Log {
    /// Commands in order of submission: when, on which queue, what.
    pub commands: Vec<(Nanos, u16, Command)>,
    /// Commands (by number, from 0) that are to fail.
    pub failures: BTreeSet<u64>,
    /// Most commands that were outstanding at once on one queue.
    pub most_outstanding: usize,
}

impl CacheDevice {
    pub fn new(blocks: u64, latency: Nanos) -> (Self, Rc<RefCell<Log>>) {
        let identity = Identity {
            model: "cache".to_owned(),
            lba_bytes: BLOCK as u32,
            namespace_blocks: vec![blocks],
            queues: 4,
            queue_depth: 64,
            max_transfer_bytes: 1 << 20,
            volatile_write_cache: true,
            supports_fua: true,
            supports_deallocate: true,
            rotational: false,
            ordering: None,
            keeps_contents: true,
            zoned: None,
        };
        let log = Rc::new(RefCell::new(Log::default()));
        let device = Self {
            identity,
            latency,
            flush_latency: latency,
            log: log.clone(),
            outstanding: BTreeMap::new(),
            sequence: 0,
            cached: BTreeMap::new(),
            durable: BTreeMap::new(),
            dirty: Vec::new(),
            completions: 0,
        };
        (device, log)
    }

    pub fn identity_mut(&mut self) -> &mut Identity {
        &mut self.identity
    }

    pub fn latencies(&mut self, data: Nanos, flush: Nanos) {
        (self.latency, self.flush_latency) = (data, flush);
    }

    fn blocks(range: LbaRange) -> std::ops::Range<u64> {
        range.start.0..range.end().0
    }

    fn store(&mut self, range: LbaRange, data: Option<&[u8]>, durable: bool) {
        for (index, lba) in Self::blocks(range).enumerate() {
            let block: Option<Box<[u8]>> = data.map(|data| {
                let at = index * BLOCK as usize;
                data[at..at + BLOCK as usize].into()
            });
            let put = |map: &mut BTreeMap<u64, Box<[u8]>>| match &block {
                Some(bytes) => drop(map.insert(lba, bytes.clone())),
                None => drop(map.remove(&lba)),
            };
            put(&mut self.cached);
            if durable {
                self.dirty.retain(|dirty| dirty.1 != lba);
                put(&mut self.durable);
            } else {
                self.dirty.push((self.completions, lba, block.clone()));
            }
        }
    }

    fn finish(&mut self, submission: Submission, submitted_after: u64, number: u64, at: Nanos) -> Completion {
        let Submission { queue, cid, command, data, .. } = submission;
        let mut read = None;
        let failed = self.log.borrow().failures.contains(&number);
        let status = if failed { Status::WRITE_FAULT } else { Status::SUCCESS };
        if !failed {
            match command {
                Command::Flush { .. } => {
                    for (_, lba, block) in self.dirty.extract_if(.., |dirty| dirty.0 < submitted_after) {
                        match block {
                            Some(bytes) => drop(self.durable.insert(lba, bytes)),
                            None => drop(self.durable.remove(&lba)),
                        }
                    }
                }
                Command::Read { range, .. } => {
                    let mut bytes = Vec::new();
                    for lba in Self::blocks(range) {
                        match self.cached.get(&lba) {
                            Some(block) => bytes.extend_from_slice(block),
                            None => bytes.extend(std::iter::repeat_n(0, BLOCK as usize)),
                        }
                    }
                    read = Some(bytes.into_boxed_slice());
                }
                Command::Write(WriteCommand { range, fua, .. }) => {
                    if let Some(data) = &data {
                        assert_eq!(data.len() as u64, u64::from(range.count) * BLOCK);
                        self.store(range, Some(data), fua);
                    }
                }
                Command::WriteZeroes { range, fua, .. } => self.store(range, None, fua),
                Command::Deallocate { ranges, .. } => {
                    for range in ranges {
                        self.store(range, None, false);
                    }
                }
                Command::StreamManagement { .. } => panic!("this device keeps no order"),
                Command::ZoneAppend { .. }
                | Command::ZoneManagementSend { .. }
                | Command::ZoneManagementReceive { .. } => panic!("this device has no zones"),
            }
        }
        self.completions += 1;
        Completion { queue, cid, status, result: 0, data: read, at }
    }
}

/// A command as the golden streams write it: `W 0+8 fua`, in blocks.
pub fn text(command: &Command) -> String {
    let range = |range: &LbaRange| format!("{}+{}", range.start.0, range.count);
    let flag = |set: &bool| if *set { " fua" } else { "" };
    match command {
        Command::Flush { .. } => "F".to_owned(),
        Command::Read { range: r, fua, .. } => format!("R {}{}", range(r), flag(fua)),
        Command::Write(WriteCommand { range: r, fua, .. }) => format!("W {}{}", range(r), flag(fua)),
        Command::WriteZeroes { range: r, fua, .. } => format!("Z {}{}", range(r), flag(fua)),
        Command::Deallocate { ranges, .. } => {
            format!("D {}", ranges.iter().map(range).collect::<Vec<_>>().join(" "))
        }
        Command::ZoneAppend { zone, blocks, fua, .. } => format!("A {}+{blocks}{}", zone.0, flag(fua)),
        Command::ZoneManagementSend { start, action, all, .. } => {
            format!("M {action:?} {}", if *all { "all".to_owned() } else { start.0.to_string() })
        }
        Command::ZoneManagementReceive { start, .. } => format!("Q {}", start.0),
        Command::StreamManagement { stream, .. } => format!("S {}", stream.0),
    }
}

impl Device for CacheDevice {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let latency = match submission.command {
            Command::Flush { .. } => self.flush_latency,
            _ => self.latency,
        };
        let queue = submission.queue;
        let twin = self.outstanding.values().any(|(other, _)| other.queue == queue && other.cid == submission.cid);
        assert!(!twin, "command identifier in use: {submission:?}");
        let depth = 1 + self.outstanding.values().filter(|(other, _)| other.queue == queue).count();
        assert!(depth <= usize::from(self.identity.queue_depth), "submission queue overrun");
        let mut log = self.log.borrow_mut();
        log.most_outstanding = log.most_outstanding.max(depth);
        log.commands.push((now, queue.0, submission.command.clone()));
        self.outstanding.insert((now + latency, self.sequence), (submission, self.completions));
        self.sequence += 1;
    }

    fn next_event(&self) -> Option<Nanos> {
        self.outstanding.keys().next().map(|key| key.0)
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some(entry) = self.outstanding.first_entry()
            && entry.key().0 <= now
        {
            let ((at, number), (submission, submitted_after)) = entry.remove_entry();
            let completion = self.finish(submission, submitted_after, number, at);
            completions.push(completion);
        }
    }

    fn power_cut(&mut self, _now: Nanos) -> PowerCut {
        self.outstanding.clear();
        self.dirty.clear();
        self.cached = self.durable.clone();
        PowerCut::default()
    }

    fn survive(&mut self, _write: &VolatileWrite) {}

    fn set_recorder(&mut self, _recorder: Recorder) {}

    fn counters(&self) -> Vec<(String, u64)> {
        vec![("commands".to_owned(), self.completions)]
    }
}

/// A block device over a `CacheDevice` of 1 M blocks, 10 us a command.
pub struct Bench {
    pub executor: Executor,
    pub device: BlockDevice,
    pub log: Rc<RefCell<Log>>,
}

/// No scheduler where none is named.
pub fn unscheduled(config: QueueConfig) -> QueueConfig {
    QueueConfig { scheduler: config.scheduler.or(Some(block::SchedulerKind::None)), ..config }
}

impl Bench {
    pub fn new(config: QueueConfig) -> Self {
        Self::with(config, |_| ())
    }

    /// Without a scheduler unless the settings name one: on one processor Linux would choose mq-deadline.
    pub fn with(config: QueueConfig, change: impl FnOnce(&mut CacheDevice)) -> Self {
        Self::as_is(unscheduled(config), change)
    }

    /// With whatever scheduler the settings give by default.
    pub fn as_is(config: QueueConfig, change: impl FnOnce(&mut CacheDevice)) -> Self {
        let executor = Executor::new_virtual();
        let (mut device, log) = CacheDevice::new(1 << 20, Nanos::from_micros(10));
        change(&mut device);
        let device = BlockDevice::new(&executor.handle(), Box::new(device), config, Recorder::default());
        Self { executor, device, log }
    }

    /// The commands so far, as text, and forgets them.
    pub fn commands(&self) -> Vec<String> {
        std::mem::take(&mut self.log.borrow_mut().commands).iter().map(|entry| text(&entry.2)).collect()
    }

    pub fn wait(&mut self, bios: Vec<BioFuture>) -> Vec<BioResult> {
        wait(&mut self.executor, bios)
    }
}

/// Runs until nothing is left, and gives the results of `bios` in order.
pub fn wait(executor: &mut Executor, bios: Vec<BioFuture>) -> Vec<BioResult> {
    let handle = executor.handle();
    let results = Rc::new(RefCell::new(Vec::new()));
    let sink = results.clone();
    drop(handle.spawn(async move {
        for bio in bios {
            let result = bio.await;
            sink.borrow_mut().push(result);
        }
    }));
    executor.run();
    results.take()
}

/// A bio over blocks, without data.
pub fn bio(op: BioOp, block: u64, blocks: u64, flags: BioFlags) -> Bio {
    Bio {
        nsid: nvme::NamespaceId::FIRST,
        op,
        sector: Sector(block * BLOCK / Sector::BYTES),
        bytes: blocks * BLOCK,
        flags,
        data: None,
        order: None,
        request: RequestId::default(),
    }
}

pub fn read(block: u64, blocks: u64) -> Bio {
    bio(BioOp::Read, block, blocks, BioFlags::empty())
}

pub fn write(block: u64, blocks: u64) -> Bio {
    bio(BioOp::Write, block, blocks, BioFlags::empty())
}

pub fn write_with(block: u64, blocks: u64, flags: BioFlags) -> Bio {
    bio(BioOp::Write, block, blocks, flags)
}

pub fn filled(block: u64, blocks: u64, byte: u8, flags: BioFlags) -> Bio {
    let data: Payload = Some(vec![byte; (blocks * BLOCK) as usize].into());
    Bio { data, ..bio(BioOp::Write, block, blocks, flags) }
}
