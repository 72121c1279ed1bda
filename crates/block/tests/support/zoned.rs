//! A zoned device that takes commands off its queues in no particular order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::rc::Rc;

use block::{BlockDevice, QueueConfig};
use nvme::{
    Command, Lba, NamespaceId, QueueId, Status, WriteCommand, ZoneAttributes, ZoneDescriptor, ZoneReportHeader,
    ZoneSendAction, ZoneState,
};
use rand::RngExt;
use sim::Executor;
use ssd::{Completion, Device, Identity, Payload, PowerCut, Submission, VolatileWrite, ZonedIdentity};
use trace::Recorder;
use units::Nanos;

use super::BLOCK;

/// Distance between zones and writable blocks of each.
pub const ZONE: u64 = 64;
pub const CAPACITY: u64 = 48;

/// A device whose commands take effect a random while after they were submitted,
/// up to `jitter`, and end `latency` after that. Zones have write pointers and no
/// other rules.
pub struct ZonedDevice {
    identity: Identity,
    rng: sim::rng::Rng,
    jitter: Nanos,
    pub latency: Nanos,
    log: Rc<RefCell<ZoneLog>>,
    /// Commands not yet in effect, and those that only have to end.
    submitted: BTreeMap<(Nanos, u64), Submission>,
    ending: BTreeMap<(Nanos, u64), Completion>,
    sequence: u64,
    /// Blocks written in each zone, by namespace.
    written: Vec<Vec<u64>>,
    contents: BTreeMap<(u32, u64), Box<[u8]>>,
}

/// What a test sees of the device.
#[derive(Default)]
pub struct ZoneLog {
    /// Commands in order of submission: when, on which queue, what.
    pub commands: Vec<(Nanos, QueueId, Command)>,
    /// Writes not yet ended of each zone, and the most that ever were.
    writes: BTreeMap<(NamespaceId, u64), u32>,
    pub most_writes: u32,
}

impl ZonedDevice {
    /// Namespaces of so many zones each.
    pub fn new(namespaces: &[u64], jitter: Nanos, seed: u64) -> (Self, Rc<RefCell<ZoneLog>>) {
        let identity = Identity {
            model: "zones".to_owned(),
            lba_bytes: BLOCK as u32,
            namespace_blocks: namespaces.iter().map(|zones| zones * ZONE).collect(),
            queues: 4,
            queue_depth: 64,
            max_transfer_bytes: 64 << 10,
            volatile_write_cache: true,
            supports_fua: true,
            supports_deallocate: true,
            rotational: false,
            ordering: None,
            keeps_contents: true,
            zoned: Some(ZonedIdentity {
                zone_blocks: ZONE,
                zone_capacity_blocks: CAPACITY,
                max_open: Some(14),
                max_active: None,
                append_limit_bytes: 32 << 10,
                reads_across_zones: true,
                descriptor_extension_bytes: 0,
                zrwa: None,
            }),
        };
        let log = Rc::new(RefCell::new(ZoneLog::default()));
        let device = Self {
            identity,
            rng: sim::rng::stream(seed, "device"),
            jitter,
            latency: Nanos::from_micros(10),
            log: log.clone(),
            submitted: BTreeMap::new(),
            ending: BTreeMap::new(),
            sequence: 0,
            written: namespaces.iter().map(|zones| vec![0; *zones as usize]).collect(),
            contents: BTreeMap::new(),
        };
        (device, log)
    }

    pub fn identity_mut(&mut self) -> &mut Identity {
        &mut self.identity
    }

    fn store(&mut self, nsid: NamespaceId, start: u64, data: Option<&[u8]>) {
        for (index, block) in data.into_iter().flat_map(|data| data.chunks_exact(BLOCK as usize)).enumerate() {
            self.contents.insert((nsid.0, start + index as u64), block.into());
        }
    }

    fn load(&self, nsid: NamespaceId, start: u64, blocks: u64) -> Payload {
        let zeroes = [0; BLOCK as usize];
        let block = |lba| self.contents.get(&(nsid.0, lba)).map_or(zeroes.as_slice(), |block| block);
        Some((start..start + blocks).flat_map(block).copied().collect())
    }

    /// Writes at a zone's write pointer; the first block.
    fn write(&mut self, nsid: NamespaceId, at: Option<u64>, zone: u64, blocks: u64) -> Result<u64, Status> {
        let written = &mut self.written[nsid.0 as usize - 1][zone as usize];
        let pointer = zone * ZONE + *written;
        if *written + blocks > CAPACITY {
            return Err(Status::ZONE_BOUNDARY_ERROR);
        }
        if at.is_some_and(|at| at != pointer) {
            return Err(Status::ZONE_INVALID_WRITE);
        }
        *written += blocks;
        Ok(pointer)
    }

    fn report(&self, nsid: NamespaceId, start: Lba, bytes: u32) -> Payload {
        let zones = &self.written[nsid.0 as usize - 1];
        let most = bytes as usize / ZoneDescriptor::BYTES - 1;
        let first = (start.0 / ZONE) as usize;
        let last = zones.len().min(first + most);
        let mut report = ZoneReportHeader::new((last - first) as u64).to_bytes().to_vec();
        for (zone, written) in zones.iter().enumerate().take(last).skip(first) {
            let start = zone as u64 * ZONE;
            let (state, pointer) = match *written {
                0 => (ZoneState::Empty, Some(Lba(start))),
                CAPACITY => (ZoneState::Full, None),
                written => (ZoneState::ImplicitlyOpened, Some(Lba(start + written))),
            };
            let descriptor = ZoneDescriptor::new(state, ZoneAttributes::empty(), CAPACITY, Lba(start), pointer);
            report.extend_from_slice(&descriptor.to_bytes());
        }
        Some(report.into())
    }

    fn take_effect(&mut self, submission: Submission, at: Nanos) -> Completion {
        let Submission { queue, cid, command, data, .. } = submission;
        let nsid = command.nsid();
        let mut completion = Completion { queue, cid, status: Status::SUCCESS, result: 0, data: None, at };
        let outcome = match command {
            Command::Write(WriteCommand { range, .. }) => {
                let (zone, blocks) = (range.start.0 / ZONE, u64::from(range.count));
                self.write(nsid, Some(range.start.0), zone, blocks)
            }
            Command::ZoneAppend { zone, blocks, .. } => self.write(nsid, None, zone.0 / ZONE, u64::from(blocks)),
            Command::Read { range, .. } => {
                completion.data = self.load(nsid, range.start.0, u64::from(range.count));
                Ok(0)
            }
            Command::ZoneManagementSend { start, action, all, .. } => {
                let zones = &mut self.written[nsid.0 as usize - 1];
                match (action, all) {
                    (ZoneSendAction::Reset, true) => zones.fill(0),
                    (ZoneSendAction::Reset, false) => zones[(start.0 / ZONE) as usize] = 0,
                    (ZoneSendAction::Finish, _) => zones[(start.0 / ZONE) as usize] = CAPACITY,
                    _ => {}
                }
                Ok(0)
            }
            Command::ZoneManagementReceive { start, bytes, .. } => {
                completion.data = self.report(nsid, start, bytes);
                Ok(0)
            }
            Command::StreamManagement { .. } => Err(Status::INVALID_OPCODE),
            Command::Flush { .. } | Command::WriteZeroes { .. } | Command::Deallocate { .. } => Ok(0),
        };
        match outcome {
            Ok(first) => {
                self.store(nsid, first, data.as_deref());
                completion.result = first;
            }
            Err(status) => completion.status = status,
        }
        if let Command::Write(WriteCommand { range, .. }) = command {
            *self.log.borrow_mut().writes.entry((nsid, range.start.0 / ZONE)).or_default() -= 1;
        }
        completion
    }
}

impl Device for ZonedDevice {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let mut log = self.log.borrow_mut();
        log.commands.push((now, submission.queue, submission.command.clone()));
        if let Command::Write(WriteCommand { range, nsid, .. }) = submission.command {
            let writes = log.writes.entry((nsid, range.start.0 / ZONE)).or_default();
            *writes += 1;
            let writes = *writes;
            log.most_writes = log.most_writes.max(writes);
        }
        let wait = Nanos(self.rng.random_range(0..=self.jitter.0));
        self.submitted.insert((now + wait, self.sequence), submission);
        self.sequence += 1;
    }

    fn next_event(&self) -> Option<Nanos> {
        let next = [self.submitted.keys().next(), self.ending.keys().next()];
        next.into_iter().flatten().map(|key| key.0).min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some(entry) = self.submitted.first_entry()
            && entry.key().0 <= now
        {
            let ((at, number), submission) = entry.remove_entry();
            let completion = self.take_effect(submission, at + self.latency);
            self.ending.insert((completion.at, number), completion);
        }
        while let Some(entry) = self.ending.first_entry()
            && entry.key().0 <= now
        {
            completions.push(entry.remove());
        }
    }

    fn power_cut(&mut self, _now: Nanos) -> PowerCut {
        self.submitted.clear();
        self.ending.clear();
        self.log.borrow_mut().writes.clear();
        PowerCut::default()
    }

    fn survive(&mut self, _write: &VolatileWrite) {}

    fn set_recorder(&mut self, _recorder: Recorder) {}

    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// A block device over a `ZonedDevice` of namespaces of 16 and 8 zones.
pub struct ZoneBench {
    pub executor: Executor,
    pub device: BlockDevice,
    pub log: Rc<RefCell<ZoneLog>>,
}

impl ZoneBench {
    pub fn new(config: QueueConfig) -> Self {
        Self::with(config, Nanos::ZERO, 0)
    }

    /// With commands that take effect out of order.
    pub fn with(config: QueueConfig, jitter: Nanos, seed: u64) -> Self {
        let executor = Executor::new_virtual();
        let (device, log) = ZonedDevice::new(&[16, 8], jitter, seed);
        let device =
            BlockDevice::new(&executor.handle(), Box::new(device), super::unscheduled(config), Recorder::default());
        Self { executor, device, log }
    }

    /// The commands so far, as text, and forgets them.
    pub fn commands(&self) -> Vec<String> {
        std::mem::take(&mut self.log.borrow_mut().commands).iter().map(|entry| super::text(&entry.2)).collect()
    }

    pub fn wait(&mut self, bios: Vec<block::BioFuture>) -> Vec<block::BioResult> {
        super::wait(&mut self.executor, bios)
    }
}

/// Four CPUs on four hardware queues.
pub fn four_queues() -> QueueConfig {
    QueueConfig { cpus: NonZeroU16::new(4).unwrap(), ..Default::default() }
}
