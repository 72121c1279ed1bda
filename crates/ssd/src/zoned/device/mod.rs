//! The zoned device: its parts, and the way of a command through it.
//!
//! A command takes effect on the state of zones when it is processed; commands are
//! processed in the order in which they came. The rest of the device decides when it
//! completes.

mod catching;
mod command;
mod dispatch;
mod durable;
mod erase;
mod events;
mod finishing;
mod live;
mod manage;
mod power;
mod process;
mod read;
mod report;
mod resetting;
mod write;

use nvme::{ChangedZoneList, Command, Lba, LbaRange, NamespaceId, Status};
use trace::{Recorder, RequestId, Span, Step, Track};
use units::Nanos;

use super::Event;
use super::buffer::WriteBuffer;
use super::config::{ZonedConfig, ZonedError, ZonedLayout};
use super::finish::{self, FinishPolicy};
use super::firmware::Firmware;
use super::flash::Flash;
use super::mapping::{self, Mapping, Physical};
use super::reset::{self, ResetPolicy};
use super::stripe::Striping;
use super::zones::{Change, ControllerEvent, Zones};
use crate::event::Events;
use crate::link::{Direction, HostLink};
use crate::slab::{Fifo, Slab};
use crate::{
    Completion, Contents, Device, Identity, LiveState, MediaError, PowerCut, Store, Submission, VolatileWrite,
    ZoneStatus,
};

use catching::Catching;
use command::{Cmd, Incoming, Part, Pending, ZoneFlash};
use dispatch::Turns;
use durable::Wait;
use erase::Eraser;
use power::Recovery;
use report::Counters;
use resetting::TimedResets;

/// A zoned SSD.
pub struct Zoned {
    identity: Identity,
    config: ZonedConfig,
    layout: ZonedLayout,
    events: Events<Event>,
    commands: Slab<Cmd>,
    parts: Slab<Part>,
    /// For each array that holds what it has read: whether it reads or holds, and
    /// the parts that wait for it.
    reading: Vec<bool>,
    queued_reads: Vec<Fifo>,
    firmware: Firmware,
    link: HostLink,
    flash: Flash,
    striping: Striping,
    /// State of the zones of each namespace.
    namespaces: Vec<Zones>,
    /// Flash of the zones of all namespaces.
    zones: Vec<ZoneFlash>,
    physical: Vec<Physical>,
    mapping: Box<dyn Mapping>,
    reset_policy: Box<dyn ResetPolicy>,
    finish_policy: Box<dyn FinishPolicy>,
    buffer: WriteBuffer,
    turns: Turns,
    /// Units of nothing but padding that are being programmed.
    padding_units: u32,
    resets: TimedResets,
    catching: Catching,
    eraser: Eraser,
    store: Store,
    /// Volatile writes of each zone, oldest first, while the store tracks them and the buffer
    /// does not survive a power cut; else empty.
    pending: Vec<std::collections::VecDeque<Pending>>,
    /// Share of a journal write that finishes have filled.
    journalled: f64,
    /// Commands that wait for data to be on flash.
    waits: Vec<Wait>,
    changes: Vec<Change>,
    /// What the last power cut took, until the next command.
    recovery: Option<Box<Recovery>>,
    last_command: Nanos,
    counters: Counters,
    recorder: Recorder,
    #[cfg(test)]
    mutant: Option<super::mutant::Mutant>,
}

impl Zoned {
    /// A device as configured, every zone empty. It keeps no contents until
    /// [`Zoned::keep_contents`].
    ///
    /// # Errors
    ///
    /// What the configuration's check finds.
    pub fn new(config: &ZonedConfig) -> Result<Self, ZonedError> {
        let layout = config.layout()?;
        let shape = config.zoned_identity();
        let protected = config.buffer.as_ref().is_none_or(|buffer| buffer.power_loss_protected);
        let counts = &config.namespaces;
        let namespace_blocks: Vec<u64> = counts.iter().map(|zones| u64::from(*zones) * layout.zone_blocks).collect();
        let identity = Identity {
            model: config.model.clone(),
            lba_bytes: layout.lba_bytes as u32,
            namespace_blocks,
            queues: config.link.queues,
            queue_depth: config.link.queue_depth,
            max_transfer_bytes: config.max_transfer.0 as u32,
            volatile_write_cache: !protected,
            supports_fua: true,
            supports_deallocate: false,
            rotational: false,
            ordering: None,
            keeps_contents: false,
            zoned: Some(shape.clone()),
        };
        let mapping = mapping::policy(config.management.mapping, &layout);
        let zones = (0..layout.zones()).map(|zone| ZoneFlash::new(mapping.initial(zone))).collect();
        let nothing = Contents::None;
        let store = match Store::new(&nothing, layout.lba_bytes as u32, &identity.namespace_blocks, false) {
            Ok(store) => store,
            Err(_) => unreachable!("a store of nothing opens no file"),
        };
        let mut device = Self {
            namespaces: counts.iter().map(|zones| Zones::new(&shape, layout.lba_bytes as u32, *zones)).collect(),
            zones,
            physical: vec![Physical::default(); layout.physical_zones as usize],
            mapping,
            reset_policy: reset::policy(&config.management),
            finish_policy: finish::policy(&config.management),
            events: Events::default(),
            commands: Slab::with_capacity(256),
            parts: Slab::with_capacity(256),
            reading: vec![false; layout.arrays() as usize],
            queued_reads: vec![Fifo::default(); layout.arrays() as usize],
            firmware: Firmware::new(&config.controller),
            link: HostLink::new(&config.link),
            flash: Flash::new(config, &layout),
            striping: Striping::new(&layout, config.stripe.order),
            buffer: WriteBuffer::new(u64::from(layout.buffer_units) * layout.program_bytes),
            turns: Turns::new(),
            padding_units: 0,
            resets: TimedResets::default(),
            catching: Catching::default(),
            eraser: Eraser::default(),
            store,
            pending: Vec::new(),
            journalled: 0.0,
            waits: Vec::new(),
            changes: Vec::new(),
            recovery: None,
            last_command: Nanos::ZERO,
            counters: Counters::default(),
            recorder: Recorder::default(),
            #[cfg(test)]
            mutant: None,
            identity,
            config: config.clone(),
            layout,
        };
        device.fill_initially();
        Ok(device)
    }

    /// Brings zones that are full at the start into that state.
    fn fill_initially(&mut self) {
        let full = self.config.initial.full_zones.clone();
        for (namespace, count) in full.into_iter().enumerate() {
            for index in 0..count {
                let range = self.zone_range(index, 0..self.layout.capacity_blocks);
                let written = self.namespaces[namespace].write(range);
                debug_assert!(written.is_ok_and(|written| written.filled), "an empty zone takes its capacity");
                let zone = self.zone_of(namespace, index);
                self.map(Nanos::ZERO, zone);
                let flash = &mut self.zones[zone as usize];
                flash.placed_bytes = self.layout.capacity_blocks * self.layout.lba_bytes;
                flash.durable_blocks = self.layout.capacity_blocks;
            }
        }
    }

    /// Keeps what is written, and with `power_cuts` also which accepted writes
    /// a power cut may take where no contents are kept. Call before the first
    /// command. An image file holds bytes and not the state of zones: it must be new,
    /// since every zone begins empty.
    pub fn keep_contents(&mut self, contents: &Contents, power_cuts: bool) -> Result<(), MediaError> {
        debug_assert!(self.commands.len() == 0, "contents come before commands");
        self.store = Store::new(contents, self.identity.lba_bytes, &self.identity.namespace_blocks, power_cuts)?;
        self.identity.keeps_contents = self.store.keeps_contents();
        if self.store.tracks_volatile() && !self.survives_power_cut() {
            self.pending = self.zones.iter().map(|_| std::collections::VecDeque::new()).collect();
        }
        Ok(())
    }

    /// Breaks the device on purpose.
    #[cfg(test)]
    pub(crate) fn set_mutant(&mut self, mutant: Option<super::mutant::Mutant>) {
        self.mutant = mutant;
        for zones in &mut self.namespaces {
            zones.set_mutant(mutant);
        }
    }

    /// Whether what the device has accepted outlives a power cut: there is no
    /// buffer (a program that has begun is finished), or capacitors save it.
    fn survives_power_cut(&self) -> bool {
        self.config.buffer.as_ref().is_none_or(|buffer| buffer.power_loss_protected)
    }

    fn is_buffered(&self) -> bool {
        self.config.buffer.is_some()
    }

    /// Completes a command with a status that tells what is wrong.
    fn fail(&mut self, now: Nanos, id: u32, status: Status) {
        self.commands[id].status = status;
        self.complete(now, id);
    }

    /// Tells the host, after the way back.
    fn complete(&mut self, now: Nanos, id: u32) {
        let latency = self.config.link.completion_latency;
        self.record_some(now, latency, Track::Link, Step::LinkLatency, id);
        self.events.push(now + latency, Event::Complete, id);
    }

    /// Records a span of `took` for a command, if that is any time.
    #[inline]
    fn record_some(&self, start: Nanos, took: Nanos, track: Track, step: Step, id: u32) {
        if took > Nanos::ZERO {
            self.record(start, start + took, track, step, self.commands[id].request, 0);
        }
    }

    fn completed(&mut self, now: Nanos, id: u32, completions: &mut Vec<Completion>) {
        let cmd = &mut self.commands[id];
        let (queue, cid, result, mut status) = (cmd.queue, cmd.cid, cmd.result, cmd.status);
        let mut data = None;
        if status.is_success() {
            match cmd.command {
                Command::Read { nsid, range, .. } => match self.store.read(nsid, range) {
                    Ok(bytes) => data = bytes,
                    Err(_) => {
                        self.counters.media_errors += 1;
                        status = Status::UNRECOVERED_READ;
                    }
                },
                Command::ZoneManagementReceive { .. } => data = cmd.data.take(),
                _ => {}
            }
        }
        cmd.data = None;
        self.commands.remove(id);
        self.counters.commands += 1;
        self.last_command = now;
        self.look_for_idle(now);
        completions.push(Completion { queue, cid, status, result, data, at: now });
    }

    /// A zone, counted through the device.
    fn zone_of(&self, namespace: usize, index: u32) -> u32 {
        self.layout.namespace_zones[namespace] + index
    }

    /// The namespace of a zone counted through the device, and its index there.
    fn in_namespace(&self, zone: u32) -> (usize, u32) {
        let firsts = &self.layout.namespace_zones;
        let namespace = firsts.partition_point(|first| *first <= zone) - 1;
        (namespace, zone - firsts[namespace])
    }

    /// Blocks of a zone, from its start, as a range of its namespace.
    fn zone_range(&self, index: u32, blocks: std::ops::Range<u64>) -> LbaRange {
        let start = Lba(u64::from(index) * self.layout.zone_blocks + blocks.start);
        // A zone has fewer than 2^32 blocks.
        LbaRange { start, count: (blocks.end - blocks.start) as u32 }
    }

    #[inline]
    fn record(&self, start: Nanos, end: Nanos, track: Track, step: Step, request: RequestId, bytes: u32) {
        if self.recorder.is_on() {
            self.recorder.record(Span { start, end, track, step, request, offset: 0, bytes });
        }
    }

    /// Books a transfer over the host link: start and end.
    fn transfer(&mut self, now: Nanos, direction: Direction, bytes: u64, request: RequestId) -> (Nanos, Nanos) {
        let (start, end) = self.link.transfer(now, direction, bytes);
        self.record(start, end, Track::Link, Step::Transfer, request, bytes.min(u64::from(u32::MAX)) as u32);
        (start, end)
    }
}

impl Device for Zoned {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.recovery = None;
        let Submission { queue, cid, command, data, request } = submission;
        let id = self.commands.insert(Cmd {
            queue,
            cid,
            request,
            command,
            data,
            status: Status::SUCCESS,
            result: 0,
            left: 0,
            incoming: Incoming::default(),
            ready: Nanos::ZERO,
            since: Nanos::ZERO,
            range: LbaRange { start: Lba(0), count: 0 },
        });
        self.last_command = now;
        match self.config.link.submission_latency {
            Nanos::ZERO => self.arrived(now, id),
            latency => {
                self.record_some(now, latency, Track::Link, Step::LinkLatency, id);
                self.events.push(now + latency, Event::Arrived, id);
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.events.next()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some((at, event, id)) = self.events.pop_due(now) {
            match event {
                Event::Arrived => self.arrived(at, id),
                Event::Processed => self.processors_done(at),
                Event::ReadOut => self.read_out(at, id),
                Event::Loaded => self.loaded(at, id),
                Event::ArrayEnd => self.array_end(at, id),
                Event::Complete => self.completed(at, id, completions),
                Event::Pad => self.pad(at, id),
                Event::Reset => self.reset_step(at),
                Event::Idle => self.idle(at),
            }
        }
    }

    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.lose_power(now)
    }

    fn survive(&mut self, write: &VolatileWrite) {
        self.make_survive(write);
    }

    fn set_recorder(&mut self, recorder: Recorder) {
        self.flash.set_recorder(recorder.clone());
        self.recorder = recorder;
    }

    fn zones(&self, nsid: NamespaceId) -> Vec<ZoneStatus> {
        let index = (nsid.0 as usize).wrapping_sub(1);
        let Some(zones) = self.namespaces.get(index) else { return Vec::new() };
        (0..self.config.namespaces[index])
            .map(|index| {
                let zone = zones.zone(index);
                ZoneStatus {
                    state: zone.state,
                    capacity_blocks: self.layout.capacity_blocks,
                    written_blocks: zone.write_pointer_blocks,
                }
            })
            .collect()
    }

    fn zone_event(&mut self, now: Nanos, nsid: NamespaceId, zone: u32, event: ControllerEvent) -> bool {
        Zoned::zone_event(self, now, nsid, zone, event)
    }

    fn has_zone_events(&self, nsid: NamespaceId) -> bool {
        let index = (nsid.0 as usize).wrapping_sub(1);
        self.namespaces.get(index).is_some_and(Zones::has_changed)
    }

    fn changed_zones(&mut self, nsid: NamespaceId, retain: bool) -> ChangedZoneList {
        self.changed_zone_list(nsid, retain).unwrap_or_else(|| ChangedZoneList::of([]))
    }

    fn live_state(&self) -> LiveState {
        self.live()
    }

    fn store(&self) -> Option<&Store> {
        Some(&self.store)
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        Some(&mut self.store)
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.report()
    }
}
