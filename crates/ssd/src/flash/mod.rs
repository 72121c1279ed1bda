//! Dies and channels: what the flash does with reads, programs and erases.
//!
//! Knows nothing of logical addresses, so any translation layer can stand on
//! it. A die has an array that does one operation at a time, a register from
//! which read data leaves (cache read: the array may already do the next
//! operation) and one into which program data comes (cache program). Host
//! reads go before everything else; the collector's reads, programs and erases
//! take turns in order of arrival. A channel serves transfers in the order in
//! which they ask for it.

mod die;
mod timing;

use trace::{Recorder, RequestId, Span, Step, Track};
use units::Nanos;

use crate::config::{SsdConfig, Suspend};
use crate::event::{Event, Events};
use crate::slab::{NONE, Slab};

use die::Die;
use timing::Timing;

/// Host reads that may overtake a waiting program or erase before it gets its turn.
const READS_BEFORE_OTHERS: u32 = 16;
/// Queued reads looked at for one of the same superpage.
const MERGE_WINDOW: u32 = 8;

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum OpKind {
    /// Array read, then transfer out.
    #[default]
    Read,
    /// Transfer in, then program.
    Program,
    /// Erase.
    Erase,
}

/// Whose operation it is; `Op::tag` is the owner's to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Owner {
    /// A host read, or the read half of a read-modify-write.
    #[default]
    HostRead,
    /// The collector's read.
    GcRead,
    /// A row of host data.
    HostProgram,
    /// A row of moved data.
    GcProgram,
    /// A block's erase.
    Erase,
    /// A map-journal page.
    Journal,
}

/// One flash operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Op {
    /// What it does.
    pub kind: OpKind,
    /// For whom.
    pub owner: Owner,
    /// The owner's own reference.
    pub tag: u32,
    /// Where, through the whole device.
    pub die: u32,
    /// Superpage or block, through the whole device.
    pub address: u32,
    /// Array time; what is left of it while suspended.
    pub array: Nanos,
    /// Bytes over the channel.
    pub bytes: u32,
    /// The request it serves, for the trace.
    pub request: RequestId,
    /// Times it was suspended.
    pub suspended: u32,
}

#[derive(Clone, Default)]
struct Channel {
    free_at: Nanos,
    busy: Nanos,
    bytes: u64,
}

/// All dies and channels of a device.
pub(crate) struct Flash {
    ops: Slab<Op>,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    bytes_per_s: u64,
    command_overhead: Nanos,
    suspend: Option<Suspend>,
    /// How long its array operations take.
    pub timing: Timing,
    recorder: Recorder,
}

impl Flash {
    pub fn new(config: &SsdConfig, dies: u32, channels: u32) -> Self {
        Self {
            ops: Slab::with_capacity(1024),
            dies: vec![Die::default(); dies as usize],
            channels: vec![Channel::default(); channels as usize],
            bytes_per_s: config.channel.bandwidth.0,
            command_overhead: config.channel.command_overhead,
            suspend: config.suspend.clone(),
            timing: Timing::new(config),
            recorder: Recorder::default(),
        }
    }

    pub fn set_recorder(&mut self, recorder: Recorder) {
        self.recorder = recorder;
    }

    /// The operation `id`.
    pub fn op(&self, id: u32) -> &Op {
        &self.ops[id]
    }

    /// Array time of every die and transfer time of every channel so far.
    pub fn busy(&self) -> (impl Iterator<Item = Nanos> + '_, impl Iterator<Item = Nanos> + '_) {
        (self.dies.iter().map(|die| die.busy), self.channels.iter().map(|channel| channel.busy))
    }

    /// A queued host read of the superpage, to which another can be added.
    pub fn queued_read(&self, die: u32, address: u32) -> Option<u32> {
        self.dies[die as usize].reads.find(&self.ops, MERGE_WINDOW, |op| op.address == address)
    }

    /// Adds `bytes` to a queued read.
    pub fn extend_read(&mut self, id: u32, bytes: u32, tag: u32) {
        let op = &mut self.ops[id];
        op.bytes += bytes;
        op.tag = tag;
    }

    /// Queues an operation; it is released when `advance` returns it.
    pub fn submit(&mut self, now: Nanos, op: Op, events: &mut Events) -> u32 {
        let (kind, owner, index) = (op.kind, op.owner, op.die as usize);
        let id = self.ops.insert(op);
        let die = &mut self.dies[index];
        match (kind, owner) {
            (OpKind::Read, Owner::HostRead) => {
                die.reads.push_back(&mut self.ops, id);
                self.suspend_for_read(now, index, events);
            }
            (OpKind::Program, _) => {
                die.loads.push_back(&mut self.ops, id);
                self.load_next(now, index, events);
            }
            _ => die.ready.push_back(&mut self.ops, id),
        }
        self.start_next(now, index, events);
        id
    }

    /// Takes a finished operation out.
    pub fn release(&mut self, id: u32) -> Op {
        let op = self.ops[id].clone();
        self.ops.remove(id);
        op
    }

    /// Power off: every operation vanishes.
    pub fn reset(&mut self) {
        self.ops.clear();
        for die in &mut self.dies {
            *die = Die { busy: die.busy, ..Die::default() };
        }
        for channel in &mut self.channels {
            channel.free_at = Nanos::ZERO;
        }
    }

    /// Handles one of this layer's events; returns the operation that it ended.
    #[inline]
    pub fn advance(&mut self, now: Nanos, event: Event, id: u32, events: &mut Events) -> Option<u32> {
        match event {
            Event::ArrayEnd => self.array_end(now, id as usize, events),
            Event::ReadOut => Some(id),
            Event::Loaded => {
                let index = self.ops[id].die as usize;
                self.dies[index].ready.push_back(&mut self.ops, id);
                self.start_next(now, index, events);
                None
            }
            _ => None,
        }
    }

    fn array_end(&mut self, now: Nanos, index: usize, events: &mut Events) -> Option<u32> {
        let die = &mut self.dies[index];
        if !die.active || die.array_end != now {
            // The operation was suspended, and this was its end.
            return None;
        }
        let id = die.array;
        if id == NONE {
            // The array has come to rest for a read.
            die.active = false;
            self.start_next(now, index, events);
            return None;
        }
        let kind = self.ops[id].kind;
        if kind == OpKind::Read {
            if die.array_start != Nanos::MAX {
                self.note_array(now, index, id);
            }
            let die = &mut self.dies[index];
            if die.out_free_at > now {
                // The register still holds the read before: wait for its transfer.
                die.array_start = Nanos::MAX;
                die.array_end = die.out_free_at;
                events.push(die.out_free_at, Event::ArrayEnd, index as u32);
                return None;
            }
            die.active = false;
            let end = self.transfer(now, index, id);
            self.dies[index].out_free_at = end;
            events.push(end, Event::ReadOut, id);
            self.start_next(now, index, events);
            return None;
        }
        self.note_array(now, index, id);
        self.dies[index].active = false;
        self.start_next(now, index, events);
        Some(id)
    }

    /// Counts and records the array time since `array_start`.
    fn note_array(&mut self, now: Nanos, index: usize, id: u32) {
        let die = &mut self.dies[index];
        let start = die.array_start;
        die.busy += now - start;
        if self.recorder.is_on() {
            let op = &self.ops[id];
            let step = match op.kind {
                OpKind::Read => Step::FlashRead,
                OpKind::Program => Step::FlashProgram,
                OpKind::Erase => Step::FlashErase,
            };
            let channel = (index % self.channels.len()) as u16;
            let track = Track::Die { channel, die: index as u16 };
            self.recorder.record(Span {
                start,
                end: now,
                track,
                step,
                request: op.request,
                offset: 0,
                bytes: op.bytes,
            });
        }
    }

    /// Puts the operation's data on its channel; when it is through.
    fn transfer(&mut self, now: Nanos, index: usize, id: u32) -> Nanos {
        let number = index % self.channels.len();
        let op = &self.ops[id];
        let channel = &mut self.channels[number];
        let start = channel.free_at.max(now);
        let took = self.command_overhead + Nanos::transfer(op.bytes.into(), self.bytes_per_s);
        let end = start + took;
        channel.free_at = end;
        channel.busy += took;
        channel.bytes += u64::from(op.bytes);
        if self.recorder.is_on() {
            let track = Track::Channel(number as u16);
            let step = Step::ChannelTransfer;
            self.recorder.record(Span { start, end, track, step, request: op.request, offset: 0, bytes: op.bytes });
        }
        end
    }

    /// Brings the next program's data into the register, if that is free.
    fn load_next(&mut self, now: Nanos, index: usize, events: &mut Events) {
        let die = &mut self.dies[index];
        if die.loading {
            return;
        }
        let Some(id) = die.loads.pop_front(&mut self.ops) else { return };
        die.loading = true;
        let end = self.transfer(now, index, id);
        events.push(end, Event::Loaded, id);
    }

    /// Stops a program or erase in progress so that a waiting read can go first.
    fn suspend_for_read(&mut self, now: Nanos, index: usize, events: &mut Events) {
        let Some(suspend) = &self.suspend else { return };
        let die = &self.dies[index];
        if !die.active || die.array == NONE || die.suspended != NONE {
            return;
        }
        let id = die.array;
        let left = die.array_end - now;
        let op = &mut self.ops[id];
        if op.kind == OpKind::Read || op.suspended >= suspend.max_per_operation || left <= suspend.suspend {
            return;
        }
        op.suspended += 1;
        op.array = left + suspend.resume;
        let end = now + suspend.suspend;
        self.note_array(now, index, id);
        let die = &mut self.dies[index];
        die.suspended = id;
        die.array = NONE;
        die.array_end = end;
        events.push(end, Event::ArrayEnd, index as u32);
    }

    /// Gives an idle array its next operation.
    fn start_next(&mut self, now: Nanos, index: usize, events: &mut Events) {
        let die = &mut self.dies[index];
        if die.active {
            return;
        }
        let others = die.suspended != NONE || !die.ready.is_empty();
        let id = if !die.reads.is_empty() && (!others || die.overtaken < READS_BEFORE_OTHERS) {
            die.overtaken = if others { die.overtaken + 1 } else { 0 };
            die.reads.pop_front(&mut self.ops)
        } else if die.suspended != NONE {
            die.overtaken = 0;
            Some(std::mem::replace(&mut die.suspended, NONE))
        } else {
            die.overtaken = 0;
            die.ready.pop_front(&mut self.ops)
        };
        let Some(id) = id else { return };
        let op = &self.ops[id];
        let first_start = op.suspended == 0;
        die.active = true;
        die.array = id;
        die.array_start = now;
        die.array_end = now + op.array;
        events.push(die.array_end, Event::ArrayEnd, index as u32);
        if op.kind == OpKind::Program && first_start {
            // The data is in the array: the register takes the next program's.
            die.loading = false;
            self.load_next(now, index, events);
        }
    }
}
