//! Reading before it is needed: many requests at the device, in the order of the keys.
//!
//! Nodes say where what comes next lies, so nothing is guessed: a scan asks for the blocks of the leaf that it is in, and of
//! those behind it. How much is outstanding grows with each block that the reader gets to, and is nothing at first, so that a short
//! scan reads no more than it needs. What arrives goes into the cache; what cannot be read is met again by whoever needs it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use storage::{BLOCK_BYTES, Buffer, Completion, Queue, Request, Tag};

use crate::bytes::pointer::BlockPointer;
use crate::bytes::range::{Direction, KeyRange};
use crate::cache::{Cached, Name};
use crate::io::{BlockIo, Kind};
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Child, Edge, Node, RunHandle};
use crate::nodes::run::Part;

/// What a reader goes through before anything is read ahead for it: until then it may be one who wants a few entries.
const BEGIN_BYTES: u64 = 32 << 10;
/// Outstanding at first.
const WINDOW_BYTES_MIN: u64 = 64 << 10;
/// Outstanding at most: more than a fast device has on its way at once.
pub(crate) const WINDOW_BYTES_MAX: u64 = 8 << 20;
/// Neighbours on the storage are one request, up to here.
const REQUEST_BYTES_MAX: u64 = 256 << 10;
/// Headers of nodes are asked for as if what they lead to had so many bytes, and twice as far ahead as that, for a header comes
/// behind all that was asked for before it.
const BYTES_A_HEADER: u64 = 256 << 10;
/// Leaves that a walk is ahead of its reader at most, and that it plans at a time.
const LEAVES: u64 = 64;
const STEPS: usize = 4;

/// What is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub pointer: BlockPointer,
    pub kind: Kind,
    /// Whether values that lie apart are to be read as well.
    pub values: bool,
    /// Which of a walk's leaves it is for.
    leaf: u64,
}

impl Child {
    fn wanted_header(&self) -> Option<Wanted> {
        match &self.edge {
            Edge::Stored(pointer) => Some(Wanted::new(*pointer, Kind::Node)),
            Edge::Fresh(_) => None,
        }
    }
}

impl Wanted {
    pub fn new(pointer: BlockPointer, kind: Kind) -> Self {
        Self { pointer, kind, values: false, leaf: 0 }
    }

    fn name(&self) -> Name {
        self.pointer.name()
    }

    /// Bytes in whole storage blocks.
    pub fn bytes(&self) -> u64 {
        self.pointer.blocks() * BLOCK_BYTES as u64
    }
}

/// Goes from leaf to leaf.
struct Walk {
    root: Edge,
    rest: KeyRange,
    direction: Direction,
    values: bool,
    /// A header that was asked for, for want of which it cannot go on.
    waits_for: Option<Name>,
    /// Leaves that are planned.
    leaf: u64,
}

impl Walk {
    /// Children in the order of the walk: those behind one, or all.
    fn beside<'b>(&self, children: &'b [Child], index: Option<usize>) -> Vec<&'b Child> {
        match self.direction {
            Direction::Forward => children.iter().skip(index.map_or(0, |index| index + 1)).collect(),
            Direction::Backward => children.iter().take(index.unwrap_or(children.len())).rev().collect(),
        }
    }

    /// Plans what the next leaf takes, or a header on the way to it that is not there; whether there was anything to plan.
    fn step(&mut self, io: &BlockIo, window_bytes: u64, plan: &mut VecDeque<Wanted>) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let (mut edge, mut bounds) = (self.root.clone(), KeyRange::all());
        // The node behind this one, of the same height.
        let mut next: Option<Edge> = None;
        let mut runs: Vec<RunHandle> = Vec::new();
        loop {
            let node = match &edge {
                Edge::Fresh(node) => node.clone(),
                Edge::Stored(pointer) => match io.cache.peek(pointer) {
                    Some(Cached::Node(node)) => node,
                    _ => {
                        let wanted = Wanted::new(*pointer, Kind::Node);
                        plan.push_front(wanted);
                        // One that came and is not there is damaged, or the cache is too small for it.
                        return self.waits_for.replace(wanted.name()) != Some(wanted.name());
                    }
                },
            };
            match &*node {
                Node::Leaf(_) => {
                    runs.push(RunHandle::Leaf(node));
                    break;
                }
                Node::Internal(internal) => {
                    let index = internal.child_at(&self.rest, self.direction);
                    bounds = internal.range_of(index, &bounds);
                    let Some(child) = internal.children.get(index) else { return false };
                    runs.extend(child.runs.iter().map(|run| RunHandle::Run(run.clone())));
                    let mut headers = (2 * window_bytes / BYTES_A_HEADER).max(1) as usize;
                    let beside = self.beside(&internal.children, Some(index));
                    for child in beside.iter().take(headers) {
                        plan.extend(child.wanted_header());
                    }
                    // Behind its last child come those of the next node.
                    headers -= headers.min(beside.len());
                    if let Some(Edge::Stored(pointer)) = next.as_ref().filter(|_| headers > 0)
                        && let Some(Cached::Node(node)) = io.cache.peek(pointer)
                        && let Node::Internal(node) = &*node
                    {
                        let children = self.beside(&node.children, None);
                        children.iter().take(headers).for_each(|child| plan.extend(child.wanted_header()));
                    }
                    next = beside.first().map(|child| child.edge.clone());
                    edge = child.edge.clone();
                }
            }
        }
        self.waits_for = None;
        self.leaf += 1;
        let own = bounds.intersection(&self.rest);
        for run in &runs {
            let from = run.block_of(&own.start).unwrap_or(0);
            let behind = |first: &[u8]| own.end.as_ref().is_some_and(|end| *first >= **end);
            let blocks = run.blocks.get(from..).unwrap_or_default();
            let mut wanted: Vec<Wanted> = Vec::new();
            for block in blocks.iter().take_while(|block| !behind(&block.first_key)) {
                if let Part::Stored(pointer) = &block.part {
                    let values = self.values && block.tally.places > 0;
                    wanted.push(Wanted { values, leaf: self.leaf, ..Wanted::new(*pointer, Kind::Block) });
                }
            }
            match self.direction {
                Direction::Forward => plan.extend(wanted),
                Direction::Backward => plan.extend(wanted.into_iter().rev()),
            }
        }
        match (self.direction, bounds.end) {
            (Direction::Forward, Some(end)) if end > self.rest.start => self.rest.start = end,
            (Direction::Backward, _) if bounds.start > self.rest.start => self.rest.end = Some(bounds.start),
            _ => self.rest.end = Some(self.rest.start.clone()),
        }
        true
    }
}

#[derive(Default)]
struct State {
    queue: Option<Box<dyn Queue>>,
    walk: Option<Walk>,
    plan: VecDeque<Wanted>,
    /// Requests on their way, and what each reads.
    flying: BTreeMap<u64, Vec<Wanted>>,
    names: BTreeSet<Name>,
    /// What has arrived for a walk's reader and was not needed yet: bytes, and the leaf that it is for.
    arrived: BTreeMap<Name, (u64, u64)>,
    /// Bytes on their way and arrived.
    ahead_bytes: u64,
    window_bytes: u64,
    /// What the reader went through.
    gone_bytes: u64,
    /// The leaf that the reader is in.
    leaf: u64,
    last_tag: u64,
    /// Something failed, or there is nothing more to read.
    ended: bool,
}

/// Reads of one reader that are ahead of it.
pub(crate) struct ReadAhead {
    state: Mutex<State>,
}

impl ReadAhead {
    /// For who goes through the entries of `rest`; with `values` also those that lie apart.
    pub fn along(root: Edge, rest: KeyRange, direction: Direction, values: bool) -> Self {
        let walk = Some(Walk { root, rest, direction, values, waits_for: None, leaf: 0 });
        Self { state: Mutex::new(State { walk, ..State::default() }) }
    }

    /// For who needs all of these, in this order.
    pub fn of(plan: impl IntoIterator<Item = Wanted>) -> Self {
        let plan = plan.into_iter().collect();
        Self { state: Mutex::new(State { plan, window_bytes: WINDOW_BYTES_MAX, ..State::default() }) }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something that is needed now, if it is on its way.
    pub fn need(&self, io: &BlockIo, pointer: &BlockPointer) {
        let mut state = self.locked();
        let name = pointer.name();
        state.top_up(io);
        while state.names.contains(&name) {
            state.take_arrivals(io);
            state.top_up(io);
        }
        if let Some((bytes, _)) = state.arrived.remove(&name) {
            state.ahead_bytes -= bytes;
        }
    }

    /// The reader has gone through so many bytes and goes on: more will be of use.
    pub fn go_on(&self, bytes: u64) {
        let mut state = self.locked();
        state.gone_bytes += bytes;
        if !state.begins() {
            state.window_bytes = (state.window_bytes * 2).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        }
    }

    /// Whether the reader may be one who wants a few entries.
    pub fn begins(&self) -> bool {
        self.locked().begins()
    }

    /// The reader goes on to the next leaf: of what was read for others before it, nothing will be needed.
    pub fn next_leaf(&self) {
        let state = &mut *self.locked();
        state.leaf += 1;
        let before: Vec<Name> =
            state.arrived.iter().filter(|(_, (_, leaf))| *leaf < state.leaf).map(|(name, _)| *name).collect();
        for name in before {
            state.ahead_bytes -= state.arrived.remove(&name).map_or(0, |(bytes, _)| bytes);
        }
    }

    /// Waits for all that is planned.
    pub fn finish(self, io: &BlockIo) {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.top_up(io);
        while !state.flying.is_empty() {
            state.take_arrivals(io);
            state.top_up(io);
        }
        state.queue.take().into_iter().for_each(|queue| io.give_queue(queue));
    }

    /// Gives the queue back, where nothing is outstanding on it.
    pub fn close(&self, io: &BlockIo) {
        let mut state = self.locked();
        state.ended = true;
        if state.flying.is_empty() {
            state.queue.take().into_iter().for_each(|queue| io.give_queue(queue));
        }
    }
}

impl State {
    fn begins(&self) -> bool {
        self.gone_bytes < BEGIN_BYTES && !mutated(Mutant::ScanNeverBegins)
    }

    /// Asks for more, as far as the window goes.
    fn top_up(&mut self, io: &BlockIo) {
        // What arrives early may not push out what is about to be used.
        let window_bytes = match self.window_bytes.min(io.cache.budget_bytes() as u64 / 8) {
            _ if mutated(Mutant::NothingAhead) => 0,
            _ if mutated(Mutant::AheadUnbounded) => 1 << 40,
            bytes => bytes,
        };
        let mut steps = 0;
        while !self.ended && self.ahead_bytes < window_bytes {
            let Some(wanted) = self.plan.pop_front() else {
                let Some(walk) = &mut self.walk else { return };
                let waits = walk.waits_for.is_some_and(|name| self.names.contains(&name));
                if waits || steps >= STEPS || walk.leaf >= self.leaf + LEAVES {
                    return;
                }
                steps += 1;
                if !walk.step(io, window_bytes, &mut self.plan) {
                    self.walk = None;
                }
                continue;
            };
            if !self.is_missing(io, &wanted) {
                continue;
            }
            let mut group = VecDeque::from([wanted]);
            let (mut start, mut end) = (wanted.pointer.start, wanted.pointer.start + wanted.pointer.blocks());
            while let Some(next) = self.plan.front().copied()
                && (end - start + next.pointer.blocks()) * BLOCK_BYTES as u64 <= REQUEST_BYTES_MAX
                && self.is_missing(io, &next)
            {
                if next.pointer.start == end {
                    group.push_back(next);
                    end += next.pointer.blocks();
                } else if next.pointer.start + next.pointer.blocks() == start {
                    group.push_front(next);
                    start = next.pointer.start;
                } else {
                    break;
                }
                self.plan.pop_front();
            }
            self.submit(io, start, group.into());
        }
    }

    fn is_missing(&self, io: &BlockIo, wanted: &Wanted) -> bool {
        !self.names.contains(&wanted.name()) && io.cache.peek(&wanted.pointer).is_none()
    }

    fn submit(&mut self, io: &BlockIo, start: u64, group: Vec<Wanted>) {
        let bytes: u64 = group.iter().map(Wanted::bytes).sum();
        if self.queue.is_none() {
            self.queue = io.take_queue().ok();
        }
        let inside = start.checked_add(bytes / BLOCK_BYTES as u64).is_some_and(|end| end <= io.capacity_blocks());
        let (Some(queue), true) = (&mut self.queue, inside) else {
            self.ended = true;
            return;
        };
        group.iter().for_each(|wanted| io.wait_for(wanted.pointer.offset_bytes()));
        self.last_tag += 1;
        let buffer = Buffer::zeroed(bytes as usize);
        queue.submit(Tag(self.last_tag), Request::Read { offset_bytes: start * BLOCK_BYTES as u64, buffer });
        self.ahead_bytes += bytes;
        self.names.extend(group.iter().map(Wanted::name));
        self.flying.insert(self.last_tag, group);
    }

    /// Waits for something to arrive, and puts it into the cache.
    fn take_arrivals(&mut self, io: &BlockIo) {
        let mut completions: Vec<Completion> = Vec::new();
        if let Some(queue) = &mut self.queue {
            queue.complete(&mut completions);
        }
        if completions.is_empty() {
            // The queue lost them.
            (self.ended, self.queue) = (true, None);
            self.flying.clear();
            self.names.clear();
            return;
        }
        for completion in completions {
            let Some(group) = self.flying.remove(&completion.tag.0) else { continue };
            let mut at = 0;
            for wanted in group {
                self.names.remove(&wanted.name());
                // Headers are the walk's own, and who needs a list counts by himself.
                if wanted.leaf > 0 && wanted.leaf >= self.leaf {
                    self.arrived.insert(wanted.name(), (wanted.bytes(), wanted.leaf));
                } else {
                    self.ahead_bytes -= wanted.bytes();
                }
                let stored = completion.buffer.get(at..at + wanted.pointer.stored_bytes as usize);
                at += wanted.bytes() as usize;
                let cached = match (&completion.result, stored) {
                    (Ok(()), Some(stored)) => io.admit(&wanted.pointer, wanted.kind, stored).ok(),
                    _ => None,
                };
                match cached {
                    None => self.ended = true,
                    Some(Cached::Block(block)) if wanted.values => {
                        let places = (0..block.len()).filter_map(|at| block.message(at).place());
                        let values =
                            places.map(|pointer| Wanted { leaf: wanted.leaf, ..Wanted::new(pointer, Kind::Value) });
                        values.collect::<Vec<_>>().into_iter().rev().for_each(|value| self.plan.push_front(value));
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
