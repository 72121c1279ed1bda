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
//! the last one: the rule of the kernel's `PG_readahead` mark (mm/readahead.c). Where the device answers many at once, several readers of a
//! file share the limit.
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
use crate::plan::{Plan, Range};
use stream::{Span, Stream};

/// How many readers of one file are told apart.
pub const STREAMS: usize = 24;

/// The first window of a reader, of the kernel's default size (`read_ahead_kb`).
pub const BASE_WINDOW_BYTES: u64 = 128 << 10;

/// Lanes whose last slot is remembered; more share an entry, which costs a search.
const LANES: usize = 16;

/// Readers that have not been seen for so many accesses have nothing ahead of them any more.
const LOST_AFTER: u32 = 4096;

/// After this many accesses in a row that followed nobody, only one of [`LOOKED_AT`] such rounds is looked at: a file that is read at
/// random pays for few searches. A round is long enough for sixteen readers that take turns to be seen four times.
const RANDOM_ROUND: u32 = 64;
const LOOKED_AT: u32 = 16;

/// A reader that others have read so often past has gone, and it is judged.
const GONE_AFTER: u32 = 256;

/// What is ahead of a reader that others have read so often past may be lost, as long as nothing else is known.
const IDLE_AFTER: u32 = 64;

/// Of all that is read of a file, this part may be loaded in vain, and [`LOSS_ALLOWED_PAGES`], half a window, beside. Beyond, what a
/// reader may have
/// ahead of it is this part of what it has read, too.
const LOSS_SHARE: u32 = 128;

/// What is given to readers of whom nothing is known yet.
const LOSS_ALLOWED_PAGES: u32 = (BASE_WINDOW_BYTES / PAGE_BYTES / 2) as u32;

/// Threads that share a reader are no farther apart.
const SHARED_WITHIN_BYTES: u64 = 8 * BASE_WINDOW_BYTES;

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
    /// What was lost, [`LOSS_SHARE`] times, less what was read since.
    debt_pages: u32,
    /// The slot of the reader whose was the last access that was looked at, and one.
    reader: u32,
    /// Pages of windows that their readers read, and that they left behind.
    used_pages: u64,
    lost_pages: u64,
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
        debt_pages: 0,
        reader: 0,
        used_pages: 0,
        lost_pages: 0,
    };

    /// Takes an access into account; what should be loaded now, if anything.
    ///
    /// The caller says what became of a plan that it does not carry out: [`resident`](Self::resident) or [`dropped`](Self::dropped).
    #[inline]
    pub fn observe(&mut self, access: Access, limits: &Limits) -> Option<Plan> {
        if self.glides(&access, limits.file_bytes) { None } else { self.observe_other(access, limits) }
    }

    /// Takes an access into account if it is the next of the reader before, within a window, as most are: nothing is to be loaded then.
    /// Whether it is; if not, [`observe_other`](Self::observe_other) comes next.
    #[inline]
    pub fn glides(&mut self, access: &Access, file_bytes: u64) -> bool {
        let Some(span) = Span::of(*access, file_bytes) else { return false };
        let mine = within(self.of_lane[access.lane as usize % LANES].into());
        let glides = self.last as usize == mine && self.slots[mine].glides(&span);
        if glides {
            self.clock = self.clock.wrapping_add(1);
            self.slots[mine].seen_at = self.clock;
        }
        glides
    }

    /// As [`observe`](Self::observe), for an access that does not [glide](Self::glides).
    #[inline]
    pub fn observe_other(&mut self, access: Access, limits: &Limits) -> Option<Plan> {
        let span = Span::of(access, limits.file_bytes)?;
        self.clock = self.clock.wrapping_add(1);
        let mine = within(self.of_lane[access.lane as usize % LANES].into());
        // Among random reads only those who are known already are looked at, but for a round in many.
        let round = self.unmatched / RANDOM_ROUND;
        let looks = round == 0 || round.is_multiple_of(LOOKED_AT) && !mutated(Mutant::RandomForever);
        if (looks || !self.slots[mine].is_new()) && self.slots[mine].precedes(&span) {
            return self.matched(mine, access.lane, span, limits);
        }
        let turn = within(self.after[within(self.last as usize)].into());
        if self.slots[turn].glides(&span) {
            self.slots[turn].seen_at = self.clock;
            self.last = turn as u32;
            self.of_lane[access.lane as usize % LANES] = turn as u8;
            return None;
        }
        if (looks || !self.slots[turn].is_new()) && self.slots[turn].precedes(&span) {
            return self.matched(turn, access.lane, span, limits);
        }
        self.unmatched = self.unmatched.wrapping_add(1);
        self.debt_pages = self.debt_pages.saturating_sub(1);
        if looks { self.search(access, span, limits) } else { None }
    }

    /// Pages of windows that were read, and such that will not be: what readers have ahead of them that have been seen for the last
    /// time, as far as that is known. `ended`: there will be no more reads.
    pub fn account(&self, ended: bool) -> (u64, u64) {
        let ahead = self.slots.iter().filter(|stream| !stream.is_free()).map(|stream| u64::from(stream.ahead_pages));
        let ahead_pages: u64 = if ended { ahead.sum() } else { 0 };
        (self.used_pages, self.lost_pages.saturating_add(ahead_pages))
    }

    /// Whether the last access followed no confirmed reader.
    pub fn is_random(&self) -> bool {
        self.unmatched > 0 || self.slots[within(self.last as usize)].is_new()
    }

    /// Whether the last access was by a reader that is left to the kernel.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.slots[within(self.last as usize)].is_left()
    }

    /// What the reader whose access was looked at last has passed since the look before.
    #[inline]
    pub fn passed(&mut self) -> Option<Range> {
        let slot = core::mem::take(&mut self.reader).checked_sub(1)?;
        self.slots[within(slot as usize)].passed()
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

    /// The plan was not carried out since the kernel's own window reaches so far already. That is as far as the kernel goes, and no
    /// sign of somebody who is ahead: the next window is larger.
    pub fn reached(&mut self, plan: &Plan) {
        if mutated(Mutant::KernelIsSomebody) {
            return self.resident(plan);
        }
        if let Some(stream) = self.asker(plan) {
            stream.give_back(plan.pages());
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
        self.reader = slot as u32 + 1;
        let stream = &mut self.slots[slot];
        stream.lane = lane;
        stream.seen_at = self.clock;
        let doubts = self.doubts.min(MOST_DOUBTS) as u8;
        let found_pages = stream.find();
        let (read_before, used_before) = (stream.read_pages, stream.used_pages);
        let step = stream.advance(&span, doubts);
        self.used_pages = self.used_pages.wrapping_add(stream.used_pages.wrapping_sub(used_before).into());
        self.lost_pages = self.lost_pages.saturating_sub(found_pages.into());
        let repaid_pages = stream.read_pages.saturating_sub(read_before);
        self.debt_pages =
            self.debt_pages.saturating_sub(found_pages.saturating_mul(LOSS_SHARE).saturating_add(repaid_pages));
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
        let kept = limits.kept && !mutated(Mutant::WantedLost) || mutated(Mutant::LossesForgotten);
        let owed_pages = self.debt_pages.saturating_add(self.idle_pages().saturating_mul(LOSS_SHARE));
        let in_debt = owed_pages > LOSS_SHARE * LOSS_ALLOWED_PAGES && !kept;
        let window_pages = self.window_pages(limits);
        let mut plan = self.slots[slot].plan(&span, room_pages, window_pages, in_debt, limits)?;
        plan.stream = (slot as u32) << 8 | u32::from(self.slots[slot].generation);
        Some(plan)
    }

    /// Of a reader at most: several that share a window keep the device busy together, and each leaves less behind where its part of the
    /// file ends.
    fn window_pages(&self, limits: &Limits) -> u64 {
        let limit_pages = limits.window_bytes / PAGE_BYTES;
        if !limits.shared || mutated(Mutant::WindowNotShared) {
            return limit_pages;
        }
        let is_there = |stream: &&Stream| stream.spare() == 0 && self.clock.wrapping_sub(stream.seen_at) <= IDLE_AFTER;
        let readers = self.slots.iter().filter(is_there).count().max(1) as u64;
        (limit_pages / readers).max(u64::from(stream::BASE_PAGES)).min(limit_pages)
    }

    /// Planned and not read yet.
    fn ahead_pages(&self) -> u64 {
        let current = |stream: &&Stream| self.clock.wrapping_sub(stream.seen_at) < LOST_AFTER;
        self.slots.iter().filter(current).map(|stream| u64::from(stream.ahead_pages)).sum()
    }

    /// Ahead of readers that have not been seen for some time: they may have gone.
    fn idle_pages(&self) -> u32 {
        let is_idle = |stream: &&Stream| stream.spare() == 0 && self.clock.wrapping_sub(stream.seen_at) > IDLE_AFTER;
        let ahead = self.slots.iter().filter(is_idle).map(|stream| stream.ahead_pages);
        if mutated(Mutant::IdleTrusted) { 0 } else { ahead.fold(0, u32::saturating_add) }
    }

    /// An access that neither its lane's reader nor the one whose turn it is made.
    #[inline(never)]
    fn search(&mut self, access: Access, span: Span, limits: &Limits) -> Option<Plan> {
        let mut around = None;
        for (slot, stream) in self.slots.iter().enumerate() {
            if stream.precedes(&span) {
                around = Some(slot);
                break;
            }
            if around.is_none() && stream.surrounds(&span) {
                around = Some(slot);
            }
        }
        if let Some(slot) = around {
            self.unmatched = self.unmatched.wrapping_sub(1);
            return self.matched(slot, access.lane, span, limits);
        }
        self.open(access.lane, span);
        None
    }

    /// A slot for an access that followed nobody.
    fn open(&mut self, lane: u32, span: Span) {
        // Each in its turn.
        let judged = self.clock as usize % STREAMS;
        if self.clock.wrapping_sub(self.slots[judged].seen_at) > GONE_AFTER {
            self.doubt(judged);
        }
        // One of the same lane rather than a nearer one.
        let (mut near, mut near_rank) = (None, u64::MAX);
        for (index, stream) in self.slots.iter().enumerate() {
            let distance = stream.start_bytes.abs_diff(span.start_bytes) / 2;
            let rank = distance | u64::from(stream.lane != lane) << 63;
            if rank < near_rank && !stream.is_free() {
                (near, near_rank) = (Some(index), rank);
            }
        }
        // Threads that share a reader are near each other; farther off, two of them have parts of the file of their own.
        let is_near = |near: &usize| {
            let stream = &self.slots[*near];
            stream.lane == lane || stream.start_bytes.abs_diff(span.start_bytes) <= SHARED_WITHIN_BYTES
        };
        let near = near.filter(|near| is_near(near) || mutated(Mutant::LanesMixed));
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
        let disappoints = self.slots[slot].is_disappointing();
        let lost_pages = self.slots[slot].lose();
        self.lost_pages = self.lost_pages.wrapping_add(lost_pages.into());
        self.debt_pages = self.debt_pages.saturating_add(lost_pages.saturating_mul(LOSS_SHARE));
        if disappoints && !mutated(Mutant::NoDoubts) {
            self.doubts = (self.doubts.min(MOST_DOUBTS) * 2).clamp(1, MOST_DOUBTS);
            self.slots[slot].free();
        }
    }

    /// The slot to be given to somebody else: the free first, then the unconfirmed, then the confirmed; of each the one that was not
    /// seen for longest.
    fn victim(&self) -> usize {
        let rank = |stream: &Stream| stream.spare() << 32 | u64::from(self.clock.wrapping_sub(stream.seen_at));
        let (mut victim, mut most) = (0, 0);
        for (slot, stream) in self.slots.iter().enumerate() {
            let rank = rank(stream);
            if rank >= most {
                (victim, most) = (slot, rank);
            }
        }
        victim
    }
}
