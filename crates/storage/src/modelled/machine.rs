//! The device with its clock, and who waits for which of its commands.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use crash::order::Missing;
use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
use ssd::{Device, PowerCut, Submission, VolatileWrite};
use trace::RequestId;
use units::Nanos;

use super::PowerLoss;
use crate::{BLOCK_BYTES, Completion, Request, StorageError, Tag};

const NSID: NamespaceId = NamespaceId::FIRST;

/// Names a queue of the storage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LineId(u64);

/// A queue of the storage: its requests, by their number.
#[derive(Default)]
struct Line {
    open: BTreeMap<u64, Open>,
    finished: Vec<Completion>,
}

/// A request at the device.
struct Open {
    tag: Tag,
    request: Request,
    /// Commands that have not completed, those not yet submitted included.
    commands_left: u64,
    result: Result<(), StorageError>,
}

impl Open {
    fn finish(self) -> Completion {
        Completion { tag: self.tag, buffer: self.request.into_buffer(), result: self.result }
    }
}

/// A command at the device: whose it is, and the bytes of the request that it moves.
struct Part {
    line: LineId,
    request: u64,
    bytes: Range<u64>,
}

/// A submission queue of the device; command identifiers are places in it.
#[derive(Default)]
struct Ring {
    parts: Vec<Option<Part>>,
    vacant: Vec<u16>,
}

pub(super) struct Machine {
    device: Box<dyn Device + Send>,
    now: Nanos,
    cut_at: Option<Nanos>,
    /// What the cut left, and how many requests had no answer, while the power is off.
    off: Option<(PowerCut, u64)>,
    /// By [`QueueId`], from 1. A line's is fixed; several lines share one where the device has too few.
    rings: Vec<Ring>,
    lines: BTreeMap<LineId, Line>,
    next_line: u64,
    next_request: u64,
    /// Empty between calls; kept for its memory.
    completed: Vec<ssd::Completion>,
}

fn no_power() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the device has no power")
}

impl Machine {
    pub fn new(device: Box<dyn Device + Send>) -> Self {
        let rings = usize::from(device.identity().queues.max(1));
        Self {
            device,
            now: Nanos::ZERO,
            cut_at: None,
            off: None,
            rings: (0..rings).map(|_| Ring::default()).collect(),
            lines: BTreeMap::new(),
            next_line: 0,
            next_request: 0,
            completed: Vec::new(),
        }
    }

    pub fn now(&self) -> Nanos {
        self.now
    }

    pub fn counters(&self) -> Vec<(String, u64)> {
        self.device.counters()
    }

    pub fn open_line(&mut self) -> LineId {
        let line = LineId(self.next_line);
        self.next_line += 1;
        self.lines.insert(line, Line::default());
        line
    }

    pub fn close_line(&mut self, line: LineId) {
        self.lines.remove(&line);
    }

    /// What one command of a request moves at most, in whole blocks.
    fn command_bytes_max(&self, request: &Request) -> u64 {
        let identity = self.device.identity();
        let bytes = match request {
            Request::Discard { .. } => u64::from(u32::MAX) * u64::from(identity.lba_bytes),
            _ => u64::from(identity.max_transfer_bytes),
        };
        (bytes / BLOCK_BYTES as u64).max(1) * BLOCK_BYTES as u64
    }

    /// Hands a request to the device, in as many commands as it wants, and lets time pass while its queue is full.
    pub fn submit(&mut self, line: LineId, tag: Tag, request: Request, checked: Result<(), StorageError>) {
        let len_bytes = request.extent().1;
        let step_bytes = self.command_bytes_max(&request);
        let commands = match &request {
            Request::Flush => 1,
            // Advice that the device would not take.
            Request::Discard { .. } if !self.device.identity().supports_deallocate => 0,
            _ => len_bytes.div_ceil(step_bytes),
        };
        let result = checked.and_then(|()| if self.is_off() { Err(request.failed(no_power())) } else { Ok(()) });
        let number = self.next_request;
        self.next_request += 1;
        let done = result.is_err() || commands == 0;
        let Some(own) = self.lines.get_mut(&line) else { return };
        let open = Open { tag, request, commands_left: commands, result };
        if done {
            own.finished.push(open.finish());
            return;
        }
        own.open.insert(number, open);
        let ring = (line.0 % self.rings.len() as u64) as usize;
        for command in 0..commands {
            let Some(slot) = self.vacancy(ring) else { return };
            let start = command * step_bytes;
            let bytes = start..(start + step_bytes).min(len_bytes);
            self.send(ring, slot, Part { line, request: number, bytes });
        }
    }

    /// A free place of a submission queue, in time; none once the power is off.
    fn vacancy(&mut self, ring: usize) -> Option<u16> {
        let depth = self.device.identity().queue_depth.max(1);
        loop {
            let own = self.rings.get_mut(ring)?;
            if let Some(slot) = own.vacant.pop() {
                return Some(slot);
            }
            if own.parts.len() < usize::from(depth) {
                own.parts.push(None);
                return Some(own.parts.len() as u16 - 1);
            }
            if !self.step() || self.is_off() {
                return None;
            }
        }
    }

    fn send(&mut self, ring: usize, slot: u16, part: Part) {
        let lba_bytes = u64::from(self.device.identity().lba_bytes);
        let Some(open) = self.lines.get(&part.line).and_then(|line| line.open.get(&part.request)) else { return };
        let range = LbaRange {
            start: Lba((open.request.extent().0 + part.bytes.start) / lba_bytes),
            count: ((part.bytes.end - part.bytes.start) / lba_bytes) as u32,
        };
        let (command, data) = match &open.request {
            Request::Read { .. } => (Command::Read { nsid: NSID, range, fua: false }, None),
            Request::Write { buffer, .. } => {
                let data = buffer.get(part.bytes.start as usize..part.bytes.end as usize).unwrap_or_default();
                (Command::write(NSID, range, false), Some(data.into()))
            }
            Request::Flush => (Command::Flush { nsid: NSID }, None),
            Request::Discard { .. } => (Command::Deallocate { nsid: NSID, ranges: [range].into() }, None),
        };
        let request = RequestId(part.request);
        if let Some(place) = self.rings.get_mut(ring).and_then(|ring| ring.parts.get_mut(usize::from(slot))) {
            *place = Some(part);
        }
        let (queue, cid) = (QueueId(ring as u16 + 1), CommandId(slot));
        self.device.submit(self.now, Submission { queue, cid, command, data, request });
    }

    /// Lets time pass until the line has something finished or nothing open.
    pub fn complete(&mut self, line: LineId, completions: &mut Vec<Completion>) {
        loop {
            let Some(own) = self.lines.get_mut(&line) else { return };
            if !own.finished.is_empty() || own.open.is_empty() {
                completions.append(&mut own.finished);
                return;
            }
            // A device that has commands and no event never answers. Whoever asks sees that fewer came than are
            // outstanding.
            if !self.step() {
                return;
            }
        }
    }

    /// Goes on to the device's next event, or to the power cut before it; whether there is one.
    fn step(&mut self) -> bool {
        let next = self.device.next_event().filter(|_| self.off.is_none());
        if let Some(next) = next {
            self.run_to(next);
        }
        next.is_some()
    }

    fn run_to(&mut self, at: Nanos) {
        if let Some(cut_at) = self.cut_at
            && cut_at <= at
        {
            return self.cut_power(cut_at);
        }
        self.now = self.now.max(at);
        let mut completed = std::mem::take(&mut self.completed);
        self.device.advance(self.now, &mut completed);
        for completion in completed.drain(..) {
            self.answer(completion);
        }
        self.completed = completed;
    }

    /// A command has completed; its request with the last of its commands.
    fn answer(&mut self, completion: ssd::Completion) {
        let ring = usize::from(completion.queue.0).checked_sub(1).and_then(|ring| self.rings.get_mut(ring));
        let Some(ring) = ring else { return };
        let slot = completion.cid.0;
        let Some(part) = ring.parts.get_mut(usize::from(slot)).and_then(Option::take) else { return };
        ring.vacant.push(slot);
        let Some(line) = self.lines.get_mut(&part.line) else { return };
        let Some(open) = line.open.get_mut(&part.request) else { return };
        if !completion.status.is_success() {
            let source = io::Error::other(completion.status.to_string());
            open.result = Err(open.request.failed(source));
        }
        if let Request::Read { buffer, .. } = &mut open.request
            && let Some(data) = completion.data
            && let Some(to) = buffer.get_mut(part.bytes.start as usize..part.bytes.end as usize)
            && to.len() == data.len()
        {
            to.copy_from_slice(&data);
        }
        open.commands_left = open.commands_left.saturating_sub(1);
        if open.commands_left == 0
            && let Some(open) = line.open.remove(&part.request)
        {
            line.finished.push(open.finish());
        }
    }

    pub fn wait(&mut self, duration: Nanos) {
        let until = self.now + duration;
        while self.off.is_none()
            && let Some(next) = self.device.next_event()
            && next <= until
        {
            self.run_to(next);
        }
        if let Some(cut_at) = self.cut_at
            && cut_at <= until
        {
            self.cut_power(cut_at);
        }
        self.now = self.now.max(until);
    }

    pub fn is_off(&self) -> bool {
        self.off.is_some()
    }

    pub fn cut_power_at(&mut self, at: Nanos) {
        if self.off.is_some() {
            return;
        }
        if at <= self.now {
            self.cut_power(self.now);
        } else {
            self.cut_at = Some(at);
        }
    }

    fn cut_power(&mut self, at: Nanos) {
        self.now = self.now.max(at);
        self.cut_at = None;
        for ring in &mut self.rings {
            *ring = Ring::default();
        }
        let mut unanswered = 0;
        for line in self.lines.values_mut() {
            for (_, mut open) in std::mem::take(&mut line.open) {
                unanswered += 1;
                open.result = Err(open.request.failed(no_power()));
                line.finished.push(open.finish());
            }
        }
        self.off = Some((self.device.power_cut(self.now), unanswered));
    }

    pub fn power_on(&mut self, mut survives: impl FnMut(&VolatileWrite, u32) -> bool) -> PowerLoss {
        let Some((cut, unanswered)) = self.off.take() else { return PowerLoss::default() };
        let mut loss = PowerLoss { unanswered, ..PowerLoss::default() };
        let mut missing = Missing::default();
        for write in &cut.undecided {
            loss.undecided_blocks += u64::from(write.blocks);
            let is_allowed = missing.allows(&write.places);
            let survived_before = loss.survived_blocks;
            // As many blocks in a row as survive are one write.
            let mut first = None;
            for block in 0..=write.blocks {
                if block < write.blocks && survives(write, block) && is_allowed {
                    first = first.or(Some(block));
                } else if let Some(first) = first.take() {
                    loss.survived_blocks += u64::from(block - first);
                    let piece = self.piece(write, first..block);
                    self.device.survive(&piece);
                }
            }
            if loss.survived_blocks - survived_before < u64::from(write.blocks) {
                missing.lose(&write.places);
            }
        }
        loss
    }

    /// A part of an undecided write, in blocks from its start.
    fn piece(&self, write: &VolatileWrite, blocks: Range<u32>) -> VolatileWrite {
        let lba_bytes = self.device.identity().lba_bytes as usize;
        let bytes = blocks.start as usize * lba_bytes..blocks.end as usize * lba_bytes;
        VolatileWrite {
            sequence: write.sequence,
            nsid: write.nsid,
            start: Lba(write.start.0 + u64::from(blocks.start)),
            blocks: blocks.end - blocks.start,
            data: write.data.as_ref().and_then(|data| data.get(bytes)).map(Box::from),
            places: write.places,
        }
    }
}
