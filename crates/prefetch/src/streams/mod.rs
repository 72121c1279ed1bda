//! The readers of one file: forward, backward, strided, several at once, each by one thread or by many.
//!
//! **Detection.** A slot holds a reader: its last access and the distance to the one before. An access belongs to the slot that it
//! follows: it begins where that one ended (within the length of one access), ends where that one began, or comes at the slot's
//! distance. Distances vote: an equal one is a vote for, another one a vote against, and the third vote confirms, as in the majority
//! detector of Leap (Al Maruf and Chowdhury, USENIX ATC 2020). What follows nobody opens a slot of its own, with the distance to the
//! nearest slot of its lane as its candidate; so readers that take turns, and single reads between a reader's, do not disturb one
//! another.
//!
//! **Windows.** A confirmed reader is given a window of 128 KiB, and the next, twice as large up to the limit, as soon as it enters
//! the last one: the rule of the kernel's `PG_readahead` mark (mm/readahead.c).
//!
//! **Waste.** What is planned for a reader and not read yet is never more than what that reader has read: who has gone on for some
//! time goes on for about as long. So windows of a new reader are small and double with it, and what is loaded in vain is at most what
//! was read. Each reader that ends soon after its confirmation makes the next ones wait for another vote; each that lasts takes one
//! back.
//!
//! **Shape.** Plain fixed-size numbers without padding, pointers or invalid values: all zero is the state of a file that nobody has
//! read, and any other bits are a state, too, from which plans are within the limits.

mod stream;
mod window;

#[cfg(test)]
pub(crate) mod tests;

use crate::access::{Access, Limits, PAGE_BYTES};
use crate::mutant::{Mutant, mutated};
use crate::plan::Plan;
use stream::{Span, Stream};

/// How many readers of one file are told apart.
pub const STREAMS: usize = 24;

/// The first window of a reader, of the kernel's default size (`read_ahead_kb`).
pub const BASE_WINDOW_BYTES: u64 = 128 << 10;

/// Lanes whose last slot is remembered; more share an entry, which costs a search.
const LANES: usize = 16;

/// Readers that have not been seen for so many accesses have nothing ahead of them any more.
const LOST_AFTER: u32 = 4096;

/// After this many accesses in a row that followed nobody, only one of sixteen such rounds is looked at: a file that is read at
/// random pays for few searches. A round is long enough for sixteen readers that take turns to be seen four times.
const RANDOM_ROUND: u32 = 64;

/// A reader that others have read so often past has gone, and it is judged.
const GONE_AFTER: u32 = 256;

/// Votes beyond the usual three that a new reader needs at most.
const MOST_DOUBTS: u32 = 64;

/// The readers of one file. All zero ([`Streams::NEW`]) is a file that nobody has read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    slots: [Stream; STREAMS],
    /// The slot that follows each slot, when readers take turns.
    after: [u8; STREAMS],
    /// The slot that each lane was in last.
    of_lane: [u8; LANES],
    /// Accesses so far; the age of slots.
    clock: u32,
    /// Accesses in a row that followed nobody.
    unmatched: u32,
    /// The slot of the last access.
    last: u32,
    /// Votes that a reader needs beyond the usual.
    doubts: u32,
}

/// A slot's number, whatever bits it was read from.
#[inline]
fn within(slot: usize) -> usize {
    slot.min(STREAMS - 1)
}

impl Default for Streams {
    fn default() -> Self {
        Self::NEW
    }
}

impl Streams {
    /// A file that nobody has read.
    pub const NEW: Self = Self {
        slots: [Stream::FREE; STREAMS],
        after: [0; STREAMS],
        of_lane: [0; LANES],
        clock: 0,
        unmatched: 0,
        last: 0,
        doubts: 0,
    };

    /// Takes an access into account; what should be loaded now, if anything.
    ///
    /// The caller says what became of a plan that it does not carry out: [`resident`](Self::resident) or [`dropped`](Self::dropped).
    #[inline]
    pub fn observe(&mut self, access: Access, limits: &Limits) -> Option<Plan> {
        let span = Span::of(access, limits.file_bytes)?;
        self.clock = self.clock.wrapping_add(1);
        let mine = within(self.of_lane[access.lane as usize % LANES].into());
        // Most accesses are the next of the same reader, within a window.
        if self.last as usize == mine && self.slots[mine].glides(&span) {
            self.slots[mine].seen_at = self.clock;
            return None;
        }
        if self.slots[mine].precedes(&span) {
            return self.matched(mine, access.lane, span, limits);
        }
        let turn = within(self.after[within(self.last as usize)].into());
        if self.slots[turn].glides(&span) {
            self.slots[turn].seen_at = self.clock;
            self.last = turn as u32;
            self.of_lane[access.lane as usize % LANES] = turn as u8;
            return None;
        }
        if self.slots[turn].precedes(&span) {
            return self.matched(turn, access.lane, span, limits);
        }
        self.search(access, span, limits)
    }

    /// Whether the last access followed no confirmed reader.
    pub fn is_random(&self) -> bool {
        self.unmatched > 0
    }

    /// The plan was not carried out since its pages are there already: the program or the kernel is ahead of this reader. It goes on
    /// asking, for windows that do not grow.
    pub fn resident(&mut self, plan: &Plan) {
        if let Some(stream) = self.asker(plan) {
            stream.give_back(plan.pages());
            if !mutated(Mutant::ResidentGrows) {
                stream.halve();
            }
        }
    }

    /// The plan was not carried out, for another reason (a queue was full): the reader will ask again at once.
    pub fn dropped(&mut self, plan: &Plan) {
        if let Some(stream) = self.asker(plan)
            && !mutated(Mutant::DroppedForgotten)
        {
            stream.give_back(plan.pages());
            stream.rewind();
        }
    }

    /// Bytes that were loaded for this file and left memory before anybody read them: windows of its readers are halved.
    pub fn wasted(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        for stream in &mut self.slots {
            stream.halve();
        }
    }

    /// The slot that asked for a plan, if it is still the same reader's.
    fn asker(&mut self, plan: &Plan) -> Option<&mut Stream> {
        let stream = self.slots.get_mut((plan.stream >> 8) as usize)?;
        (u32::from(stream.generation) == plan.stream & 0xff).then_some(stream)
    }

    /// An access of the reader in `slot`.
    #[inline]
    fn matched(&mut self, slot: usize, lane: u32, span: Span, limits: &Limits) -> Option<Plan> {
        let slot = if self.slots[slot].leaps_to(&span) { self.copy(slot) } else { slot };
        self.after[within(self.last as usize)] = slot as u8;
        self.last = slot as u32;
        self.of_lane[lane as usize % LANES] = slot as u8;
        let stream = &mut self.slots[slot];
        stream.lane = lane;
        stream.seen_at = self.clock;
        let doubts = self.doubts.min(MOST_DOUBTS) as u8;
        let step = stream.advance(&span, doubts);
        // Where there are many unconfirmed readers, a random access follows one of them now and then.
        if !stream.is_new() {
            self.unmatched = 0;
        }
        if step.proved {
            self.doubts = u32::from(doubts) / 2;
        }
        if step.asks { self.ask(slot, span, limits) } else { None }
    }

    /// The window that the reader in `slot` asks for.
    #[inline(never)]
    fn ask(&mut self, slot: usize, span: Span, limits: &Limits) -> Option<Plan> {
        let room_pages = (limits.ahead_bytes / PAGE_BYTES).saturating_sub(self.ahead_pages());
        let mut plan = self.slots[slot].plan(&span, room_pages, limits)?;
        plan.stream = (slot as u32) << 8 | u32::from(self.slots[slot].generation);
        Some(plan)
    }

    /// Planned and not read yet.
    fn ahead_pages(&self) -> u64 {
        let current = |stream: &&Stream| self.clock.wrapping_sub(stream.seen_at) < LOST_AFTER;
        self.slots.iter().filter(current).map(|stream| u64::from(stream.ahead_pages)).sum()
    }

    /// An access that neither its lane's reader nor the one whose turn it is made.
    #[inline(never)]
    fn search(&mut self, access: Access, span: Span, limits: &Limits) -> Option<Plan> {
        let round = self.unmatched / RANDOM_ROUND;
        if !round.is_multiple_of(16) || round > 0 && mutated(Mutant::RandomForever) {
            self.unmatched = self.unmatched.wrapping_add(1);
            return None;
        }
        if let Some(slot) = (0..STREAMS).find(|slot| self.slots[*slot].precedes(&span)) {
            return self.matched(slot, access.lane, span, limits);
        }
        if let Some(slot) = (0..STREAMS).find(|slot| self.slots[*slot].surrounds(&span)) {
            return self.matched(slot, access.lane, span, limits);
        }
        self.unmatched = self.unmatched.wrapping_add(1);
        self.open(access.lane, span);
        None
    }

    /// A slot for an access that followed nobody.
    fn open(&mut self, lane: u32, span: Span) {
        for slot in 0..STREAMS {
            if self.clock.wrapping_sub(self.slots[slot].seen_at) > GONE_AFTER {
                self.doubt(slot);
            }
        }
        let (mut near, mut near_distance, mut near_is_mine) = (None, u64::MAX, false);
        for (index, stream) in self.slots.iter().enumerate() {
            let mine = stream.lane == lane;
            let distance = stream.start_bytes.abs_diff(span.start_bytes);
            if !stream.is_free() && (mine, u64::MAX - distance) > (near_is_mine, u64::MAX - near_distance) {
                (near, near_distance, near_is_mine) = (Some(index), distance, mine);
            }
        }
        let candidate = near.map_or(0, |near| span.start_bytes.wrapping_sub(self.slots[near].start_bytes) as i64);
        // The reader's own second access explains its first better than its distance to another reader does.
        let slot = match near {
            Some(near) if self.slots[near].yields_to(candidate) => near,
            _ => self.victim(),
        };
        self.doubt(slot);
        let stream = &mut self.slots[slot];
        *stream = Stream::opened(lane, span, candidate, stream.generation.wrapping_add(1), self.clock);
        self.last = slot as u32;
        self.of_lane[lane as usize % LANES] = slot as u8;
    }

    /// Two reads at a distance may be one reader's, or of two readers at equal places of their parts of the file. So until it is
    /// confirmed, a reader's slot stays where it is, and a copy of it goes on.
    fn copy(&mut self, slot: usize) -> usize {
        let copy = self.victim();
        let generation = self.slots[copy].generation.wrapping_add(1);
        self.doubt(copy);
        self.slots[copy] = self.slots[slot];
        self.slots[copy].generation = generation;
        copy
    }

    /// The reader in a slot is given up: was it one?
    fn doubt(&mut self, slot: usize) {
        if self.slots[slot].is_disappointing() && !mutated(Mutant::NoDoubts) {
            self.doubts = (self.doubts.min(MOST_DOUBTS) * 2).clamp(1, MOST_DOUBTS);
            self.slots[slot].free();
        }
    }

    /// The slot to be given to somebody else: the free first, then the unconfirmed, then the confirmed; of each the one that was not
    /// seen for longest.
    fn victim(&self) -> usize {
        let rank = |slot: &usize| {
            let stream = &self.slots[*slot];
            (stream.spare(), self.clock.wrapping_sub(stream.seen_at))
        };
        (0..STREAMS).max_by_key(rank).unwrap_or_default()
    }
}
