//! The flash SSD: commands in, flash operations out, completions back.
//!
//! A command is fetched over the link, processed (first come, first served, on
//! a few processors), and then: a read becomes flash reads whose data crosses
//! channel and link; a write waits for buffer slots, crosses the link and is
//! acknowledged, and its data is destaged later; a flush waits until what was
//! accepted before it is programmed and the map journal written.

mod admission;
mod buffer;
mod collect;
mod command;
mod destage;
mod die_set;
mod dies;
mod flash_recovery;
mod fold;
mod host_interface;
mod journal;
mod live;
mod order;
mod power;
mod read;
mod report;
mod rows;
mod start;
mod sync;
mod timer;
mod write;

#[cfg(test)]
mod audit;
#[cfg(test)]
mod model;
#[cfg(test)]
mod mutant;

use nvme::{LbaRange, NamespaceId, Status, WriteOrder};
use trace::{Recorder, Step, Track};
use units::Nanos;

use crate::config::{ConfigError, Layout, OrderKind, SsdConfig};
use crate::contents::{Contents, MediaError, Store};
use crate::event::{Event, Events};
use crate::flash::{Flash, Owner};
use crate::ftl::order::Order;
use crate::ftl::translation::Translation;
use crate::slab::Slab;
use crate::{Completion, Device, Identity, LiveState, OrderingIdentity, PowerCut, Submission, VolatileWrite};

use admission::Admission;
use buffer::WriteBuffer;
use command::{Cmd, Opcode};
use dies::Dies;
use fold::Fold;
use host_interface::HostInterface;
#[cfg(test)]
pub(crate) use mutant::Mutant;
use read::ReadWait;
use report::Counters;
pub(crate) use start::Start;

/// A flash SSD with a page-mapped translation layer.
pub struct Ssd {
    identity: Identity,
    config: SsdConfig,
    layout: Layout,
    events: Events,
    host: HostInterface,
    admission: Admission,
    reads: Slab<ReadWait>,
    buffer: WriteBuffer,
    fold: Fold,
    dies: Dies,
    flash: Flash,
    ftl: Translation,
    store: Store,
    counters: Counters,
    #[cfg(test)]
    mutant: Option<Mutant>,
    /// What was accepted, in order.
    #[cfg(test)]
    acceptances: Vec<(nvme::CommandId, crash::order::Places)>,
}

impl Ssd {
    /// The device that `config` describes, without contents: a read completes
    /// without data, and a power cut reports no undecided writes.
    pub fn new(config: &SsdConfig) -> Result<Self, ConfigError> {
        Self::from_start(config, &Start::of(config)?)
    }

    /// The same, where its [`Start`] is known already.
    pub(crate) fn from_start(config: &SsdConfig, start: &Start) -> Result<Self, ConfigError> {
        let layout = config.layout()?;
        let plp = config.buffer.power_loss_protected;
        let identity = Identity {
            model: config.model.clone(),
            lba_bytes: layout.lba_bytes,
            namespace_blocks: layout.namespace_blocks.clone(),
            queues: config.link.queues,
            queue_depth: config.link.queue_depth,
            max_transfer_bytes: config.max_transfer.0 as u32,
            volatile_write_cache: !plp,
            supports_fua: !config.controller.without_fua,
            supports_deallocate: true,
            rotational: false,
            ordering: (config.order != OrderKind::None).then(|| OrderingIdentity {
                streams: config.order_tables.streams,
                epochs: config.order_tables.epochs,
                delayed_blocks: layout.buffer_slots.saturating_mul(layout.lbas_per_unit),
            }),
            keeps_contents: false,
            zoned: None,
        };
        let store = match Store::new(&Contents::None, layout.lba_bytes, &layout.namespace_blocks, false) {
            Ok(store) => store,
            Err(_) => unreachable!("a store of nothing opens no file"),
        };
        let Start { initial, blocks, streams, host_units } = start.under(config.initial.seed);
        let mut ssd = Self {
            identity,
            events: Events::default(),
            host: HostInterface::new(config),
            admission: Admission::default(),
            reads: Slab::with_capacity(256),
            buffer: WriteBuffer::new(layout.buffer_slots),
            fold: Fold::new(config),
            dies: Dies::new(&layout, streams),
            flash: Flash::new(config, layout.dies, layout.channels),
            ftl: Translation::new(&layout, initial, blocks, host_units, config.gc.policy, !plp),
            store,
            counters: Counters::default(),
            #[cfg(test)]
            mutant: None,
            #[cfg(test)]
            acceptances: Vec::new(),
            config: config.clone(),
            layout,
        };
        // A buffer that survives keeps what it accepted, in order.
        if config.order == OrderKind::Streams && !plp {
            ssd.ftl.set_order(Order::Streams(Box::default()));
        }
        for die in 0..ssd.layout.dies {
            ssd.dies.refresh(&ssd.ftl.blocks, die);
        }
        Ok(ssd)
    }

    /// Keeps what is written, and with `power_cuts` also which accepted writes
    /// a power cut may take where no contents are kept. Call before the first
    /// command.
    pub fn keep_contents(&mut self, contents: &Contents, power_cuts: bool) -> Result<(), MediaError> {
        debug_assert!(self.host.is_idle(), "contents come before commands");
        self.store = Store::new(contents, self.layout.lba_bytes, &self.layout.namespace_blocks, power_cuts)?;
        self.identity.keeps_contents = self.store.keeps_contents();
        Ok(())
    }

    fn power_loss_protected(&self) -> bool {
        self.config.buffer.power_loss_protected
    }

    /// Processes the command on the processor that is free first.
    fn fetch(&mut self, now: Nanos, id: u32) {
        if self.host[id].order.is_some() {
            self.note_order(id);
        }
        let end = self.host.fetch(now, id, &self.config);
        self.fold.stop(now, &mut self.events);
        self.events.push(end, Event::Processed, id);
    }

    fn processed(&mut self, now: Nanos, id: u32) {
        let status = self.place(id);
        if !status.is_success() {
            return self.refuse(now, id, status);
        }
        match self.host[id].opcode {
            Opcode::Read => self.read(now, id),
            Opcode::Write if self.host[id].order.is_some() => self.admit(now, id),
            Opcode::Write | Opcode::WriteZeroes => self.write(now, id),
            Opcode::Streams => self.manage_streams(now, id),
            Opcode::Flush => self.flush(now, id),
            Opcode::Deallocate => self.deallocate(now, id),
            Opcode::Foreign => unreachable!("`place` refuses foreign commands"),
        }
    }

    /// Checks the command against the namespace and finds its logical units.
    fn place(&mut self, id: u32) -> Status {
        if self.host[id].order.is_some() {
            let status = self.check_order(id);
            if !status.is_success() {
                return status;
            }
        }
        let cmd = &self.host[id];
        let all = cmd.nsid == NamespaceId::ALL && matches!(cmd.opcode, Opcode::Flush | Opcode::Streams);
        let index = (cmd.nsid.0 as usize).wrapping_sub(1);
        if all {
            return Status::SUCCESS;
        }
        let Some(blocks) = self.layout.namespace_blocks.get(index).copied() else {
            return Status::INVALID_NAMESPACE;
        };
        let outside = |range: &LbaRange| range.start.0.checked_add(range.count.into()).is_none_or(|end| end > blocks);
        match cmd.opcode {
            Opcode::Flush | Opcode::Streams => return Status::SUCCESS,
            Opcode::Foreign => return Status::INVALID_OPCODE,
            Opcode::Deallocate => {
                return match &cmd.ranges {
                    Some(ranges) if ranges.len() > 256 => Status::INVALID_FIELD,
                    Some(ranges) if ranges.iter().any(outside) => Status::LBA_OUT_OF_RANGE,
                    _ => Status::SUCCESS,
                };
            }
            Opcode::Read | Opcode::Write => {
                let bytes = u64::from(cmd.range.count) * u64::from(self.layout.lba_bytes);
                if bytes > u64::from(self.identity.max_transfer_bytes) {
                    return Status::INVALID_FIELD;
                }
                if cmd.data.as_ref().is_some_and(|data| cmd.opcode == Opcode::Write && data.len() as u64 != bytes) {
                    return Status::INVALID_FIELD;
                }
            }
            Opcode::WriteZeroes => {}
        }
        if cmd.range.count == 0 {
            return Status::INVALID_FIELD;
        }
        if outside(&cmd.range) {
            return Status::LBA_OUT_OF_RANGE;
        }
        let (unit, units) = self.units_of(cmd.nsid, cmd.range);
        let cmd = &mut self.host[id];
        (cmd.unit, cmd.units) = (unit, units);
        Status::SUCCESS
    }

    /// The logical units that a range inside a namespace touches: first, count.
    fn units_of(&self, nsid: NamespaceId, range: LbaRange) -> (u32, u32) {
        let per_unit = u64::from(self.layout.lbas_per_unit);
        let first = range.start.0 / per_unit;
        let last = (range.end().0 - 1) / per_unit;
        // Both fit: the namespace's units were counted in 32 bits.
        (self.layout.namespace_units[nsid.0 as usize - 1] + first as u32, (last - first + 1) as u32)
    }

    /// The part of `range` that lies in its unit number `index`, and whether it
    /// is all of that unit (or all that the namespace has of it).
    fn part_of(&self, nsid: NamespaceId, range: LbaRange, index: u32) -> (LbaRange, bool) {
        let per_unit = u64::from(self.layout.lbas_per_unit);
        let unit_start = (range.start.0 / per_unit + u64::from(index)) * per_unit;
        let unit_end = (unit_start + per_unit).min(self.layout.namespace_blocks[nsid.0 as usize - 1]);
        let start = range.start.0.max(unit_start);
        let end = range.end().0.min(unit_end);
        let part = LbaRange { start: nvme::Lba(start), count: (end - start) as u32 };
        (part, start == unit_start && end == unit_end)
    }

    /// Tells the host, after the way back.
    fn complete(&mut self, now: Nanos, id: u32) {
        let latency = self.config.link.completion_latency;
        self.host.record_some(now, latency, Track::Link, Step::LinkLatency, self.host[id].request);
        self.events.push(now + latency, Event::Complete, id);
    }

    fn completed(&mut self, now: Nanos, id: u32, completions: &mut Vec<Completion>) {
        let cmd = &self.host[id];
        let (queue, cid, mut status) = (cmd.queue, cmd.cid, cmd.status);
        let mut data = None;
        if cmd.opcode == Opcode::Read && status.is_success() {
            match self.store.read(cmd.nsid, cmd.range) {
                Ok(bytes) => data = bytes,
                Err(_) => status = Status::UNRECOVERED_READ,
            }
        }
        self.host.remove(now, id);
        self.counters.commands += 1;
        completions.push(Completion { queue, cid, status, result: 0, data, at: now });
    }

    /// Does what an event other than a completion says.
    #[inline]
    fn happen(&mut self, now: Nanos, event: Event, id: u32) {
        match event {
            Event::ArrayEnd | Event::ReadOut | Event::Loaded => self.flash_event(now, event, id),
            Event::Fetch => self.fetch(now, id),
            Event::Processed => self.processed(now, id),
            Event::Firmware => self.prepared(now, id),
            Event::Arrived => self.arrived(now, id),
            Event::Destage => self.destage_timer(now),
            Event::Fold => self.fold_timer(now),
            Event::Complete => unreachable!("the caller completes commands"),
        }
    }

    fn flash_event(&mut self, now: Nanos, event: Event, id: u32) {
        let Some(op) = self.flash.advance(now, event, id, &mut self.events) else { return };
        let op = self.flash.release(op);
        match op.owner {
            Owner::HostRead => self.read_out(now, op.tag),
            Owner::GcRead => self.collector_read(now, op.die),
            Owner::HostProgram => self.host_row_done(now, op.tag),
            Owner::GcProgram => self.collector_row_done(now, op.tag),
            Owner::Erase => self.erased(now, op.tag),
            Owner::Journal => self.journal_page_done(now),
        }
    }
}

impl Device for Ssd {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let queue = submission.queue;
        let cmd = Cmd::new(submission);
        if let Some(first) = self.layout.namespace_units.get((cmd.nsid.0 as usize).wrapping_sub(1)) {
            // The map entry is needed when the command is processed: by then it is here.
            let unit = u64::from(*first).saturating_add(cmd.range.start.0 / u64::from(self.layout.lbas_per_unit));
            self.ftl.prefetch(unit.min(u64::from(u32::MAX)) as u32);
        }
        let id = self.host.insert(cmd);
        match self.host.arbitrate(now, queue, self.config.arbitration.as_ref()) {
            Some(turn) => self.events.push(turn, Event::Fetch, id),
            None => self.fetch(now, id),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.events.next()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some((at, event, id)) = self.events.pop_due(now) {
            match event {
                Event::Complete => self.completed(at, id, completions),
                inside => self.happen(at, inside, id),
            }
        }
    }

    fn advance_unseen(&mut self, limit: Nanos) -> Option<Nanos> {
        let last = limit.0.checked_sub(1).map(Nanos)?;
        let mut reached = None;
        while let Some((_, event)) = self.events.first()
            && event != Event::Complete
            && let Some((at, event, id)) = self.events.pop_due(last)
        {
            self.happen(at, event, id);
            reached = Some(at);
        }
        reached
    }

    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.lose_power(now)
    }

    fn survive(&mut self, write: &VolatileWrite) {
        self.make_survive(write);
    }

    fn set_recorder(&mut self, recorder: Recorder) {
        self.flash.set_recorder(recorder.clone());
        self.dies.set_recorder(recorder.clone());
        self.host.set_recorder(recorder);
    }

    fn break_streams(&mut self, now: Nanos, order: &WriteOrder) {
        self.lose_order(now, order);
    }

    fn close_streams(&mut self, now: Nanos) {
        for stream in self.admission.open_streams() {
            _ = self.close_stream(now, stream);
        }
        self.map_ready(now);
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
