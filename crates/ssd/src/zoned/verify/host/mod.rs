//! A host that knows what every block may hold.
//!
//! The device's trace says in which order it processed the commands; the naive model
//! executes them in that order, and status, assigned block and report are compared
//! exactly. A read sees each block as it was at some moment between submission and
//! completion. After a power cut each zone must be one that was there at some moment
//! since the last completed command, less the tail that a volatile buffer may have
//! lost: never data that a completed flush or FUA write covered, and no gap.

mod cut;

use std::collections::BTreeMap;

use crash::Choice;
use nvme::{
    Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status, WriteCommand, ZoneReceiveAction, ZoneReportFilter,
    ZoneState,
};
use trace::{Recorder, RequestId, Step};
use units::Nanos;

use super::workload::{Action, resolve};
use crate::zoned::config::ZonedConfig;
use crate::zoned::device::Zoned;
use crate::zoned::mutant::Mutant;
use crate::zoned::naive::{Model, ModelZone, Reply, Shape, descriptors};
use crate::zoned::zones::ControllerEvent;
use crate::{Completion, Contents, Device, Submission};

/// A command on its way.
struct Sent {
    command: Command,
    namespace: usize,
    request: u64,
    extension: Vec<u8>,
    /// When it was processed, and what it must lead to.
    processed: Option<(u64, Result<Reply, Status>)>,
    /// Reads: values of each block that it may return. Reports: what they may be.
    stamps: Vec<Vec<u64>>,
    reports: Vec<Vec<u8>>,
    /// Writes: zone and its life, and one past the last block written. Flushes:
    /// the same for each zone whose writes had completed.
    covers: Vec<(usize, u64, u64)>,
}

impl Sent {
    /// Adds what a read or report returns now to what it may return.
    fn may_return_now(&mut self, model: &Model) {
        if !matches!(self.command, Command::Read { .. } | Command::ZoneManagementReceive { .. }) {
            return;
        }
        match model.look(&self.command) {
            Ok(Reply::Read(stamps)) => {
                self.stamps.resize(stamps.len(), Vec::new());
                for (allowed, stamp) in self.stamps.iter_mut().zip(stamps) {
                    if !allowed.contains(&stamp) {
                        allowed.push(stamp);
                    }
                }
            }
            Ok(Reply::Report(report)) => self.reports.push(report),
            _ => {}
        }
    }
}

/// A zone after a command.
#[derive(Clone)]
struct Version {
    order: u64,
    life: u64,
    zone: ModelZone,
}

/// What the host knows of a zone beside its model.
#[derive(Clone, Default)]
struct Track {
    /// Counts resets.
    life: u64,
    /// One past the last block of a completed write, of this life.
    acknowledged: u64,
    /// The zone after each command that changed it, since the last completed one.
    versions: Vec<Version>,
    /// By life: blocks up to here must survive a power cut.
    durable: BTreeMap<u64, u64>,
}

/// The host, its device and its knowledge.
pub(super) struct Host {
    device: Zoned,
    recorder: Recorder,
    /// The zones after the commands processed so far.
    models: Vec<Model>,
    /// The zones after all commands sent, if they are processed in this order: for
    /// placing writes.
    ahead: Vec<Model>,
    tracks: Vec<Vec<Track>>,
    now: Nanos,
    outstanding: BTreeMap<u16, Sent>,
    next_cid: u16,
    requests: u64,
    /// Commands processed.
    order: u64,
    /// The latest order of a completed command.
    completed: u64,
    pub(super) done: u64,
}

impl Host {
    pub(super) fn new(config: &ZonedConfig, mutant: Option<Mutant>) -> Self {
        Self::of(config, mutant, &Contents::Memory)
    }

    /// Of a device that keeps no contents: all but data is checked.
    pub(super) fn without_contents(config: &ZonedConfig) -> Self {
        Self::of(config, None, &Contents::None)
    }

    fn of(config: &ZonedConfig, mutant: Option<Mutant>, contents: &Contents) -> Self {
        let mut device = Zoned::new(config).unwrap();
        let keeps = *contents != Contents::None;
        device.keep_contents(contents, keeps).unwrap();
        device.set_mutant(mutant);
        let recorder = Recorder::bounded(1 << 16);
        device.set_recorder(recorder.clone());
        let identity = device.identity();
        let zoned = identity.zoned.as_ref().unwrap();
        let shape = |zones: u32| Shape {
            zones: zones.into(),
            zone_blocks: zoned.zone_blocks,
            capacity: zoned.zone_capacity_blocks,
            max_open: zoned.max_open,
            max_active: zoned.max_active,
            append_limit_blocks: u64::from(zoned.append_limit_bytes / identity.lba_bytes),
            transfer_limit_blocks: u64::from(identity.max_transfer_bytes / identity.lba_bytes),
            reads_across: zoned.reads_across_zones,
            extension_bytes: zoned.descriptor_extension_bytes as usize,
            zrwa: zoned
                .zrwa
                .map(|zrwa| (u64::from(zrwa.size_blocks), u64::from(zrwa.commit_granularity_blocks), zrwa.zones_max)),
        };
        let mut models: Vec<_> = config.namespaces.iter().map(|zones| Model::new(shape(*zones))).collect();
        for (model, full) in models.iter_mut().zip(&config.initial.full_zones) {
            // Written before the run, with bytes that nobody kept.
            let capacity = model.shape.capacity;
            for zone in &mut model.zones[..*full as usize] {
                (zone.state, zone.pointer, zone.high) = (ZoneState::Full, capacity, capacity);
            }
        }
        let tracks = models
            .iter()
            .map(|model| {
                let track = |zone: &ModelZone| Track {
                    versions: vec![Version { order: 0, life: 0, zone: zone.clone() }],
                    durable: [(0, zone.high)].into(),
                    ..Track::default()
                };
                model.zones.iter().map(track).collect()
            })
            .collect();
        Self {
            device,
            recorder,
            ahead: models.clone(),
            models,
            tracks,
            now: Nanos::ZERO,
            outstanding: BTreeMap::new(),
            next_cid: 0,
            requests: 0,
            order: 0,
            completed: 0,
            done: 0,
        }
    }

    pub(super) fn counters(&self) -> Vec<(String, u64)> {
        self.device.counters()
    }

    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// Does all that, lets everything complete, and reads everything back, before
    /// and after a power cut.
    pub(super) fn run(&mut self, actions: &[Action]) -> Result<(), String> {
        for action in actions {
            self.act(action)?;
        }
        self.drain()?;
        self.read_everything()?;
        self.cut(Choice::Lot(self.requests))
    }

    pub(super) fn act(&mut self, action: &Action) -> Result<(), String> {
        match *action {
            Action::Wait { micros } => self.advance(self.now + Nanos::from_micros(micros.into())),
            Action::Drain => self.drain(),
            Action::Cut { survivors } => self.cut(survivors),
            Action::Event { ns, zone, event } => self.event(usize::from(ns) % self.models.len(), zone, event),
            _ => {
                if self.outstanding.len() >= 24 {
                    self.drain()?;
                }
                if let Some((namespace, command)) = resolve(action, &self.ahead) {
                    self.submit(namespace, command);
                }
                Ok(())
            }
        }
    }

    fn event(&mut self, namespace: usize, zone: u8, event: ControllerEvent) -> Result<(), String> {
        let index = usize::from(zone) % self.models[namespace].zones.len();
        let can = self.models[namespace].event(index, event);
        self.ahead[namespace].event(index, event);
        if self.device.zone_event(self.now, NamespaceId(namespace as u32 + 1), index as u32, event) != can {
            return Err(format!("{event:?} of zone {index} {}", if can { "is refused" } else { "is taken" }));
        }
        self.order += 1;
        self.note_versions(namespace);
        Ok(())
    }

    fn submit(&mut self, namespace: usize, command: Command) {
        self.requests += 1;
        let (request, cid) = (self.requests, self.next_cid);
        self.next_cid = self.next_cid.wrapping_add(1);
        let model = &self.models[namespace];
        let extension = vec![request as u8; model.shape.extension_bytes];
        // Stamps are requests, so that a block tells which write it is from.
        let data = match command {
            Command::Write(WriteCommand { range, .. }) => {
                Some(fill(request, range.count, self.device.identity().lba_bytes))
            }
            Command::ZoneAppend { blocks, .. } => Some(fill(request, blocks, self.device.identity().lba_bytes)),
            Command::ZoneManagementSend { .. } => Some(extension.clone().into_boxed_slice()),
            _ => None,
        };
        let mut sent = Sent {
            command: command.clone(),
            namespace,
            request,
            extension,
            processed: None,
            stamps: Vec::new(),
            reports: Vec::new(),
            covers: Vec::new(),
        };
        match command {
            Command::Read { .. } | Command::ZoneManagementReceive { .. } => sent.may_return_now(model),
            Command::Flush { .. } => {
                let zones = self.tracks[namespace].iter().enumerate();
                sent.covers = zones.map(|(index, track)| (index, track.life, track.acknowledged)).collect();
            }
            _ => drop(self.ahead[namespace].execute(&command, request, Some(&sent.extension))),
        }
        let submission =
            Submission { queue: QueueId(1), cid: CommandId(cid), command, data, request: RequestId(request) };
        self.outstanding.insert(cid, sent);
        self.device.submit(self.now, submission);
    }

    /// Executes what the device has processed.
    fn follow(&mut self) {
        for span in self.recorder.take().0 {
            if span.step != Step::Process {
                continue;
            }
            let cid = self.outstanding.iter().find(|(_, sent)| sent.request == span.request.0).map(|(cid, _)| *cid);
            if let Some(mut sent) = cid.and_then(|cid| self.outstanding.remove(&cid)) {
                self.order += 1;
                let model = &mut self.models[sent.namespace];
                let result = model.execute(&sent.command, sent.request, Some(&sent.extension));
                let result = sent.processed.insert((self.order, result)).1.clone();
                self.note_versions(sent.namespace);
                self.note_written(&mut sent, &result);
                self.outstanding.insert(cid.unwrap_or_default(), sent);
            }
        }
    }

    /// Which blocks a command has written, where it has.
    fn note_written(&self, sent: &mut Sent, result: &Result<Reply, Status>) {
        let (start, count) = match (&sent.command, result) {
            (Command::Write(WriteCommand { range, .. }) | Command::WriteZeroes { range, .. }, Ok(_)) => {
                (range.start.0, range.count)
            }
            (Command::ZoneAppend { blocks, .. }, Ok(Reply::Appended(start))) => (*start, *blocks),
            _ => return,
        };
        let zone_blocks = self.models[sent.namespace].shape.zone_blocks;
        let zone = (start / zone_blocks) as usize;
        let end = start % zone_blocks + u64::from(count);
        sent.covers.push((zone, self.tracks[sent.namespace][zone].life, end));
    }

    /// After zones may have changed: their versions, and what outstanding reads and
    /// reports may return.
    fn note_versions(&mut self, namespace: usize) {
        let model = &self.models[namespace];
        for (index, track) in self.tracks[namespace].iter_mut().enumerate() {
            let zone = &model.zones[index];
            let last = &track.versions.last().expect("there is always one").zone;
            if last == zone {
                continue;
            }
            if last.state != ZoneState::Empty && zone.state == ZoneState::Empty {
                track.life += 1;
                track.acknowledged = 0;
            }
            track.versions.push(Version { order: self.order, life: track.life, zone: zone.clone() });
        }
        for other in self.outstanding.values_mut() {
            if other.namespace == namespace {
                other.may_return_now(model);
            }
        }
    }

    pub(super) fn advance(&mut self, until: Nanos) -> Result<(), String> {
        let mut done = Vec::new();
        while let Some(next) = self.device.next_event()
            && next <= until
        {
            self.now = next;
            self.device.advance(next, &mut done);
            self.follow();
            for completion in done.drain(..) {
                self.complete(completion)?;
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }

    /// Lets every command complete, within a time no tiny device needs.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        let limit = self.now + Nanos::from_secs(20);
        while !self.outstanding.is_empty() {
            match self.device.next_event() {
                Some(next) if next <= limit => self.advance(next)?,
                _ => {
                    let stuck: Vec<_> = self.outstanding.values().map(|sent| &sent.command).collect();
                    return Err(format!("never complete: {stuck:?}"));
                }
            }
        }
        self.ahead.clone_from(&self.models);
        Ok(())
    }

    fn complete(&mut self, completion: Completion) -> Result<(), String> {
        let Some(sent) = self.outstanding.remove(&completion.cid.0) else {
            return Err(format!("{completion:?} answers nothing"));
        };
        self.done += 1;
        let Sent { command, namespace, .. } = &sent;
        let Some((order, expected)) = &sent.processed else {
            return Err(format!("{command:?} completes before it is processed"));
        };
        let status = match expected {
            Ok(_) => Status::SUCCESS,
            Err(status) => *status,
        };
        if completion.status != status {
            return Err(format!("{command:?} ends with {}, not {status}", completion.status));
        }
        match expected {
            Ok(Reply::Appended(start)) if completion.result != *start => {
                return Err(format!("{command:?} wrote block {}, not {start}", completion.result));
            }
            Ok(Reply::Read(_)) => self.check_read(&sent, completion.data.as_deref().unwrap_or_default())?,
            Ok(Reply::Report(_)) => {
                let report = completion.data.as_deref().unwrap_or_default();
                if !sent.reports.iter().any(|allowed| allowed == report) {
                    return Err(format!("{command:?} reports {:?}", describe(report)));
                }
            }
            _ => {}
        }
        self.completed = self.completed.max(*order);
        let fua = matches!(
            command,
            Command::Write(WriteCommand { fua: true, .. })
                | Command::WriteZeroes { fua: true, .. }
                | Command::ZoneAppend { fua: true, .. }
        );
        let flush = matches!(command, Command::Flush { .. });
        for (zone, life, end) in &sent.covers {
            let track = &mut self.tracks[*namespace][*zone];
            if *life == track.life {
                track.acknowledged = track.acknowledged.max(*end);
            }
            if fua || flush {
                let durable = track.durable.entry(*life).or_default();
                *durable = (*durable).max(*end);
            }
        }
        // What was there before the last completed command is over.
        let completed = self.completed;
        for track in self.tracks.iter_mut().flatten() {
            let current = track.versions.iter().rposition(|version| version.order <= completed).unwrap_or(0);
            track.versions.drain(..current);
            let oldest = track.versions[0].life;
            track.durable.retain(|life, _| *life >= oldest);
        }
        Ok(())
    }

    fn check_read(&self, sent: &Sent, data: &[u8]) -> Result<(), String> {
        if !self.device.identity().keeps_contents {
            return Ok(());
        }
        let lba_bytes = self.device.identity().lba_bytes as usize;
        if data.len() != sent.stamps.len() * lba_bytes {
            return Err(format!("{:?} returns {} bytes", sent.command, data.len()));
        }
        for (block, (bytes, allowed)) in data.chunks(lba_bytes).zip(&sent.stamps).enumerate() {
            let stamp = stamp_of(bytes)?;
            if !allowed.contains(&stamp) {
                return Err(format!("block {block} of {:?} reads {stamp}, not one of {allowed:?}", sent.command));
            }
        }
        Ok(())
    }

    /// Reads every zone and every report, with nothing else going on.
    pub(super) fn read_everything(&mut self) -> Result<(), String> {
        for namespace in 0..self.models.len() {
            let nsid = NamespaceId(namespace as u32 + 1);
            let blocks = self.models[namespace].shape.blocks();
            for start in (0..blocks).step_by(16) {
                let range = LbaRange { start: Lba(start), count: 16 };
                self.submit(namespace, Command::Read { nsid, range, fua: false });
                self.drain()?;
            }
            self.submit(namespace, report_all(nsid));
            self.drain()?;
        }
        Ok(())
    }
}

fn report_all(nsid: NamespaceId) -> Command {
    Command::ZoneManagementReceive {
        nsid,
        start: Lba(0),
        action: ZoneReceiveAction::Report,
        filter: ZoneReportFilter::All,
        partial: false,
        bytes: 64 * 1024,
    }
}

fn describe(report: &[u8]) -> Vec<(Option<ZoneState>, u64)> {
    match report.len() {
        0..64 => Vec::new(),
        _ => descriptors(report).iter().map(|zone| (zone.state(), zone.wp.get())).collect(),
    }
}

/// `blocks` blocks full of `stamp`.
fn fill(stamp: u64, blocks: u32, lba_bytes: u32) -> Box<[u8]> {
    stamp.to_le_bytes().repeat(blocks as usize * lba_bytes as usize / 8).into_boxed_slice()
}

/// The stamp that fills a block; an error if it holds two.
fn stamp_of(bytes: &[u8]) -> Result<u64, String> {
    let stamp = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    match bytes.chunks(8).all(|word| word == stamp.to_le_bytes()) {
        true => Ok(stamp),
        false => Err(format!("a block mixes two writes: {stamp} and others")),
    }
}
