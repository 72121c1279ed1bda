//! The host's side of the device: commands under way and where they wait, the processors that take them in, and the link that
//! their data crosses.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use nvme::QueueId;
use trace::{Recorder, RequestId, Span, Step, Track};
use units::Nanos;

use crate::config::{Arbitration, SsdConfig};
use crate::link::{Direction, HostLink};
use crate::slab::{Fifo, Slab};

use super::command::{Cmd, Opcode};

/// Commands from submission to completion; indexed by the place of each.
pub(super) struct HostInterface {
    commands: Slab<Cmd>,
    /// Commands that wait for slots of the buffer.
    for_slots: Fifo,
    /// Flushes that wait for their interval to be over, oldest first.
    flushes: Fifo,
    /// When each processor is next free.
    processors: Vec<Nanos>,
    /// When a command last came or completed.
    last_command: Nanos,
    /// Commands that queues have waited with for their turn, and when the last of each queue has it.
    arbitrated: u64,
    turns: BTreeMap<QueueId, Nanos>,
    link: HostLink,
    recorder: Recorder,
}

impl HostInterface {
    pub fn new(config: &SsdConfig) -> Self {
        Self {
            commands: Slab::with_capacity(256),
            for_slots: Fifo::default(),
            flushes: Fifo::default(),
            processors: vec![Nanos::ZERO; config.controller.processors as usize],
            last_command: Nanos::ZERO,
            arbitrated: 0,
            turns: BTreeMap::new(),
            link: HostLink::new(&config.link),
            recorder: Recorder::default(),
        }
    }

    pub fn set_recorder(&mut self, recorder: Recorder) {
        self.recorder = recorder;
    }

    /// Commands under way.
    pub fn outstanding(&self) -> u32 {
        self.commands.len()
    }

    /// Whether no command is under way.
    pub fn is_idle(&self) -> bool {
        self.commands.len() == 0
    }

    /// Whether none has been for as long as that.
    pub fn is_idle_for(&self, now: Nanos, time: Nanos) -> bool {
        self.is_idle() && now.since(self.last_command) >= time
    }

    /// How long data has crossed the link so far.
    pub fn link_busy(&self) -> Nanos {
        self.link.busy()
    }

    /// A command comes: its place.
    pub fn insert(&mut self, cmd: Cmd) -> u32 {
        self.commands.insert(cmd)
    }

    /// When a command that comes at `now` is fetched from its queue; `None`: at once.
    pub fn arbitrate(&mut self, now: Nanos, queue: QueueId, arbitration: Option<&Arbitration>) -> Option<Nanos> {
        let arbitration = arbitration?;
        self.arbitrated += 1;
        let wait = mix(arbitration.seed ^ self.arbitrated.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let turn = now + Nanos(wait % arbitration.window.0.saturating_add(1).max(1));
        let last = self.turns.entry(queue).or_insert(turn);
        *last = turn.max(*last);
        Some(*last)
    }

    /// Gives a command that comes at `now` to the processor that is free first: when it is processed.
    pub fn fetch(&mut self, now: Nanos, id: u32, config: &SsdConfig) -> Nanos {
        let controller = &config.controller;
        let cmd = &self.commands[id];
        let (work, request) = match cmd.opcode {
            Opcode::Flush => (controller.flush, cmd.request),
            Opcode::Read => (controller.read, cmd.request),
            Opcode::Write | Opcode::WriteZeroes => (controller.write, cmd.request),
            Opcode::Deallocate => (controller.deallocate, cmd.request),
            // As little as a flush: a table is looked up.
            Opcode::Streams => (controller.flush, cmd.request),
            Opcode::Foreign => (Nanos::ZERO, cmd.request),
        };
        let latency = config.link.submission_latency;
        let mut arrival = now + latency;
        self.record_some(now, latency, Track::Link, Step::LinkLatency, request);
        if let Some(sleep) = &config.sleep
            && self.commands.len() == 1
            && now.since(self.last_command) >= sleep.after
        {
            self.record_some(arrival, sleep.wake, Track::Controller, Step::Firmware, request);
            arrival += sleep.wake;
        }
        self.last_command = now;
        let mut first = 0;
        for (at, free) in self.processors.iter().enumerate() {
            if *free < self.processors[first] {
                first = at;
            }
        }
        let start = self.processors[first].max(arrival);
        let end = start + work;
        self.processors[first] = end;
        self.record(start, end, Track::Controller, Step::Process, request, 0);
        end
    }

    /// A command's bytes cross the link: when the last of them is across.
    pub fn transfer(&mut self, now: Nanos, direction: Direction, bytes: u64, request: RequestId) -> Nanos {
        let (start, end) = self.link.transfer(now, direction, bytes);
        self.record(start, end, Track::Link, Step::Transfer, request, bytes as u32);
        end
    }

    /// Puts a command behind those that wait for slots; `left` says for how many.
    pub fn wait_for_slots(&mut self, id: u32) {
        self.for_slots.push_back(&mut self.commands, id);
    }

    /// Whether commands wait for slots.
    pub fn awaits_slots(&self) -> bool {
        !self.for_slots.is_empty()
    }

    /// Takes the command that has waited for slots longest, if `free` are enough for it.
    pub fn next_for_slots(&mut self, free: u32) -> Option<u32> {
        let id = self.for_slots.front()?;
        (self.commands[id].left <= free).then(|| {
            self.for_slots.pop_front(&mut self.commands);
            id
        })
    }

    /// Lets a flush wait until the interval `interval` is over.
    pub fn wait_for_interval(&mut self, id: u32, interval: u32) {
        self.commands[id].left = interval;
        self.flushes.push_back(&mut self.commands, id);
    }

    /// Takes the oldest flush, if its interval is over.
    pub fn next_flush(&mut self, is_over: impl FnOnce(u32) -> bool) -> Option<u32> {
        let id = self.flushes.front()?;
        is_over(self.commands[id].left).then(|| {
            self.flushes.pop_front(&mut self.commands);
            id
        })
    }

    /// The host hears of a command at `now`: it is gone.
    pub fn remove(&mut self, now: Nanos, id: u32) {
        let cmd = &mut self.commands[id];
        cmd.data = None;
        cmd.ranges = None;
        cmd.order = None;
        self.commands.remove(id);
        self.last_command = now;
    }

    /// Power off.
    pub fn reset(&mut self, now: Nanos) {
        self.commands.clear();
        (self.for_slots, self.flushes) = Default::default();
        self.processors.fill(Nanos::ZERO);
        self.turns.clear();
        self.last_command = now;
        self.link.reset();
    }

    #[inline]
    pub fn record(&self, start: Nanos, end: Nanos, track: Track, step: Step, request: RequestId, bytes: u32) {
        if self.recorder.is_on() {
            self.recorder.record(Span { start, end, track, step, request, offset: 0, bytes });
        }
    }

    /// Records a span of `took`, if that is any time.
    #[inline]
    pub fn record_some(&self, start: Nanos, took: Nanos, track: Track, step: Step, request: RequestId) {
        if took > Nanos::ZERO {
            self.record(start, start + took, track, step, request, 0);
        }
    }
}

/// The finalizer of SplitMix64: a lot that depends on nothing but its input.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Index<u32> for HostInterface {
    type Output = Cmd;
    #[inline]
    fn index(&self, id: u32) -> &Cmd {
        &self.commands[id]
    }
}

impl IndexMut<u32> for HostInterface {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Cmd {
        &mut self.commands[id]
    }
}
