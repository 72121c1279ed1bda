//! Ordered writes in streams.
//!
//! Identifiers are decided once, when a write is submitted, and no requeue changes them. A write passes when
//!
//! - its streams are open at the device,
//! - everything of earlier epochs of its streams has left for the device: a write that waits there must not have the tag that an
//!   earlier one still needs,
//! - a barrier by arrival is the last of its epochs that has not left.
//!
//! What is waited for was always submitted earlier, so that nothing waits in a ring. A stream in which a write has failed keeps its
//! order by waiting (`waiting`) until it is opened again, and so does every stream that shares a write with it. Where all streams of
//! the device are taken, further owners share the last one: their order is stricter than they asked for, never looser.

mod counted;
mod epochs;
mod pinned;
mod stream;
mod waiting;

use std::collections::{BTreeMap, VecDeque};

use nvme::{StreamAction, StreamEpoch, WriteOrder};

use super::interface::{End, Gate, Pass, Plan};
use crate::bio::{BioFlags, Closes, OrderRequest, Owner};
use crate::order::{Asks, InStream, Ordered};
use crate::ordering::{EpochKind, OrderStatistics, OrderingInForce, StreamPolicyKind, StreamsConfig};
use crate::pool::BioSlot;
use crate::slab::Slab;
use epochs::Epochs;
use stream::{Link, Stream};

/// The streams of a queue.
pub(super) struct Streams {
    policy: StreamPolicyKind,
    epochs: Box<dyn Epochs>,
    /// Streams at most, and what a new one is to the device.
    streams_max: usize,
    new_link: Link,
    block_bytes: u64,
    has_cache: bool,
    streams: Vec<Stream>,
    /// The stream of each key.
    by_key: BTreeMap<u32, u32>,
    /// Streams of tasks that have ended, to be used again.
    free: Vec<u32>,
    held: VecDeque<u32>,
    /// Commands of the gate's own to send.
    commands: Vec<u32>,
    /// Something has happened since which a held bio may pass.
    look: bool,
    statistics: OrderStatistics,
}

impl Streams {
    pub(super) fn new(force: OrderingInForce, config: StreamsConfig, block_bytes: u64, has_cache: bool) -> Self {
        let epochs: Box<dyn Epochs> = match (force.device, config.epochs) {
            (None, _) => Box::new(waiting::Waiting),
            (Some(_), EpochKind::Pinned) => Box::new(pinned::Pinned),
            (Some(_), EpochKind::Counted) => Box::new(counted::Counted),
        };
        // Stream 0 is none.
        let streams_max = force.device.map_or(u16::MAX.into(), |device| device.streams.clamp(1, u16::MAX.into()));
        Self {
            policy: config.policy,
            epochs,
            streams_max: streams_max as usize,
            new_link: if force.device.is_some() { Link::Unopened } else { Link::Absent },
            block_bytes,
            has_cache,
            streams: Vec::new(),
            by_key: BTreeMap::new(),
            free: Vec::new(),
            held: VecDeque::new(),
            commands: Vec::new(),
            look: false,
            statistics: OrderStatistics::default(),
        }
    }

    /// The stream of an owner, which is made where there is none.
    fn stream_of(&mut self, owner: Owner) -> u32 {
        let key = self.policy.key(owner);
        if let Some(stream) = self.by_key.get(&key) {
            return *stream;
        }
        let stream = match self.free.pop() {
            Some(free) => {
                self.streams[free as usize] = Stream::new(self.new_link);
                free
            }
            None if self.streams.len() < self.streams_max => {
                self.streams.push(Stream::new(self.new_link));
                self.streams.len() as u32 - 1
            }
            None => {
                let last = self.streams.len() - 1;
                self.streams[last].ends = false;
                last as u32
            }
        };
        self.by_key.insert(key, stream);
        stream
    }

    /// The epochs of a new write, and those that it closes.
    fn decide(&mut self, request: OrderRequest, cpu: u16, bytes: u64) -> Ordered {
        let mut indexes = [Some(self.stream_of(request.owner)), request.joins.map(|other| self.stream_of(other))];
        let mut closes = [request.closes.contains(Closes::OWN), request.closes.contains(Closes::JOINED)];
        if indexes[0] == indexes[1] {
            closes[0] |= closes[1];
            indexes[1] = None;
        }
        closes[1] &= indexes[1].is_some();
        let blocks = u32::try_from(bytes / self.block_bytes).unwrap_or(u32::MAX);
        let mut order = Ordered { cpu, ..Ordered::new(Asks::Write(request)) };
        order.waits = indexes.iter().flatten().any(|index| {
            let link = self.streams[*index as usize].link;
            link == Link::Broken || link == Link::Absent
        });
        let (mut at, mut counts) = ([StreamEpoch::default(); 2], [0, 0]);
        for (position, index) in indexes.into_iter().enumerate() {
            let Some(index) = index else { continue };
            let stream = &mut self.streams[index as usize];
            if order.waits && stream.link != Link::Absent {
                // What the device does not know of cannot be followed in order by what it does.
                self.statistics.broken += u64::from(stream.link != Link::Broken);
                stream.link = Link::Broken;
            }
            stream.blocks = stream.blocks.saturating_add(blocks);
            counts[position] = stream.blocks;
            order.places[position] = Some(InStream { stream: index, epoch: stream.epoch });
            at[position] = StreamEpoch { stream: device_stream(index), epoch: Stream::id(stream.epoch) };
        }
        if let Some(first) = indexes[0]
            && self.epochs.pins()
        {
            order.cpu = *self.streams[first as usize].pin.get_or_insert(cpu);
        }
        let ending = self.epochs.end(closes, counts);
        for (index, closes) in indexes.iter().zip(ending.closes) {
            if let Some(index) = index
                && closes
            {
                self.streams[*index as usize].close_epoch();
                self.statistics.epochs += 1;
            }
        }
        if !order.waits {
            order.wire = WriteOrder { first: at[0], second: at[1], closing: ending.closing };
            order.leaves_last = ending.leaves_last;
        }
        order
    }

    /// Whether a bio may go to the device now.
    fn may_pass(&self, order: &Ordered) -> bool {
        if order.waits {
            return waiting::may_pass(&self.streams, order);
        }
        #[cfg(test)]
        let in_other_order = crate::mutant::is(crate::mutant::Mutant::RequeuesInOtherOrder);
        #[cfg(not(test))]
        let in_other_order = false;
        order.places.iter().flatten().all(|place| {
            let stream = &self.streams[place.stream as usize];
            // What was submitted before a stream broke is for the device to refuse, with all that waits for it there.
            matches!(stream.link, Link::Open | Link::Broken)
                && stream.have_left_before(place.epoch)
                && stream.is_in_reach(place.epoch)
                && (!order.leaves_last || in_other_order || stream.is_last_inside(place.epoch))
        })
    }

    /// Lets a bio through.
    fn pass(&mut self, bios: &mut Slab<BioSlot>, bio: u32) -> Plan {
        let slot = &mut bios[bio];
        let Some(order) = &slot.order else { return Plan::Pass };
        let cpu = order.cpu;
        if order.waits && self.has_cache {
            waiting::flush_before(&self.streams, slot);
        }
        Plan::PassFrom(cpu)
    }

    /// A command of the gate's own.
    fn command(&mut self, bios: &mut Slab<BioSlot>, asks: Asks) {
        let flags = if matches!(asks, Asks::Flush { .. }) { BioFlags::PREFLUSH } else { BioFlags::PASSTHROUGH };
        self.statistics.stream_commands += u64::from(matches!(asks, Asks::Manage { .. }));
        self.commands.push(super::interface::own_command(bios, asks, flags));
        self.look = true;
    }

    fn open(&mut self, bios: &mut Slab<BioSlot>, index: u32) {
        let stream = &mut self.streams[index as usize];
        stream.link = Link::Changing;
        let action = StreamAction::Open { first: Stream::id(stream.first_epoch()) };
        self.command(bios, Asks::Manage { stream: device_stream(index), action });
    }

    /// Opens or closes what nothing is on its way of, where somebody wants that.
    fn settle(&mut self, bios: &mut Slab<BioSlot>, index: u32) {
        let stream = &mut self.streams[index as usize];
        if let Some(first) = stream.restarts_at {
            if stream.have_ended_before(first) {
                stream.restarts_at = None;
                // What the stream has accepted comes before what it will accept.
                self.command(bios, Asks::Flush { stream: index });
            }
        } else if stream.ends && stream.is_idle() {
            match stream.link {
                Link::Changing => {}
                Link::Open | Link::Broken => {
                    stream.link = Link::Changing;
                    self.command(bios, Asks::Manage { stream: device_stream(index), action: StreamAction::Close });
                }
                _ => self.forget(index),
            }
        }
    }

    /// A stream has ended: another owner may have it.
    fn forget(&mut self, index: u32) {
        let stream = &mut self.streams[index as usize];
        (stream.ends, stream.link) = (false, self.new_link);
        self.free.push(index);
    }

    /// The gate's own command has ended.
    fn command_ended(&mut self, bios: &mut Slab<BioSlot>, asks: Asks, is_good: bool) {
        match asks {
            Asks::Write(_) => {}
            Asks::Flush { stream } if is_good => {
                let action = StreamAction::Close;
                self.command(bios, Asks::Manage { stream: device_stream(stream), action });
            }
            Asks::Flush { stream } => self.break_stream(stream),
            Asks::Manage { stream, action } => {
                let index = u32::from(stream.0) - 1;
                match action {
                    StreamAction::Open { .. } if is_good => {
                        self.streams[index as usize].link = Link::Open;
                        self.settle(bios, index);
                    }
                    StreamAction::Open { .. } => self.break_stream(index),
                    StreamAction::Close if self.streams[index as usize].ends => self.forget(index),
                    // Closed already, as after a reset, is closed as well.
                    StreamAction::Close => self.open(bios, index),
                }
            }
        }
        self.look = true;
    }

    fn break_stream(&mut self, index: u32) {
        let stream = &mut self.streams[index as usize];
        if matches!(stream.link, Link::Open | Link::Changing) {
            self.statistics.broken += 1;
            stream.link = Link::Broken;
        }
        self.look = true;
    }

    /// Appends what may pass of what is held.
    fn release(&mut self, bios: &mut Slab<BioSlot>, passing: &mut Vec<Pass>) {
        passing.extend(self.commands.drain(..).map(|bio| Pass { bio, cpu: 0 }));
        if !std::mem::take(&mut self.look) {
            return;
        }
        for _ in 0..self.held.len() {
            let Some(bio) = self.held.pop_front() else { return };
            if bios[bio].order.as_ref().is_some_and(|order| self.may_pass(order))
                && let Plan::PassFrom(cpu) = self.pass(bios, bio)
            {
                passing.push(Pass { bio, cpu });
            } else {
                self.held.push_back(bio);
            }
        }
    }
}

/// The device's name of a stream.
fn device_stream(index: u32) -> nvme::Stream {
    nvme::Stream(index as u16 + 1)
}

impl Gate for Streams {
    fn governs(&self, bio: &BioSlot) -> bool {
        bio.order.is_some()
    }

    fn arrive(&mut self, bio: &mut BioSlot, cpu: u16) {
        if let Some(order) = &mut bio.order
            && let Asks::Write(request) = order.asks
        {
            **order = self.decide(request, cpu, bio.bytes);
            self.statistics.bios += 1;
            self.statistics.by_waiting += u64::from(order.waits);
        }
    }

    fn admit(&mut self, bios: &mut Slab<BioSlot>, bio: u32) -> Plan {
        let Some(order) = &bios[bio].order else { return Plan::Pass };
        let places = order.places;
        for place in places.iter().flatten() {
            self.streams[place.stream as usize].enter(place.epoch);
        }
        for place in places.iter().flatten() {
            if self.streams[place.stream as usize].link == Link::Unopened {
                self.open(bios, place.stream);
            }
        }
        if bios[bio].order.as_ref().is_some_and(|order| self.may_pass(order)) {
            return self.pass(bios, bio);
        }
        self.statistics.holds += 1;
        self.held.push_back(bio);
        Plan::Hold
    }

    fn leaves(&mut self, order: &mut Ordered, bios: u32) {
        for place in order.places.iter().flatten() {
            self.look |= self.streams[place.stream as usize].leave(place.epoch, bios);
        }
    }

    fn ended(&mut self, bios: &mut Slab<BioSlot>, end: &End, passing: &mut Vec<Pass>) {
        let End { places, bios: ended, never_left, took_flush, status, asks, .. } = *end;
        if let Some(asks) = asks {
            self.command_ended(bios, asks, status.is_success());
        }
        for place in places.iter().flatten() {
            let stream = &mut self.streams[place.stream as usize];
            self.look |= stream.leave(place.epoch, never_left);
            self.look |= stream.end(place.epoch, ended);
            if !status.is_success() {
                self.break_stream(place.stream);
            } else if took_flush {
                waiting::flushed(stream, place.epoch);
            }
            self.settle(bios, place.stream);
        }
        self.release(bios, passing);
    }

    fn pass_more(&mut self, bios: &mut Slab<BioSlot>, passing: &mut Vec<Pass>) {
        self.release(bios, passing);
    }

    fn restore(&mut self, bios: &mut Slab<BioSlot>) {
        for index in 0..self.streams.len() {
            let stream = &mut self.streams[index];
            if stream.link == Link::Broken {
                stream.restart();
                self.settle(bios, index as u32);
            }
        }
    }

    fn end_owner(&mut self, bios: &mut Slab<BioSlot>, owner: Owner) {
        let key = self.policy.key(owner);
        let Some(index) = self.by_key.remove(&key) else { return };
        if !self.by_key.values().any(|other| *other == index) {
            self.streams[index as usize].ends = true;
            self.settle(bios, index);
        }
    }

    fn statistics(&self) -> OrderStatistics {
        self.statistics
    }

    fn clear(&mut self, _bios: &mut Slab<BioSlot>, void: &mut Vec<u32>) {
        void.extend(self.held.drain(..));
        void.append(&mut self.commands);
        self.streams.clear();
        self.by_key.clear();
        self.free.clear();
        self.look = false;
    }
}
