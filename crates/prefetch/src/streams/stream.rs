//! One reader: where it is, how it moves, and how far is planned for it.

use super::BASE_WINDOW_BYTES;
use crate::access::{Access, PAGE_BYTES};
use crate::mutant::{Mutant, mutated};
use crate::plan::Range;

/// Votes that confirm.
const CONFIRMED: u8 = 3;
/// How far behind its reader an access still counts as the reader's: threads that share one come a little out of order.
pub(super) const BEHIND_BYTES: u64 = BASE_WINDOW_BYTES;
/// Accesses that a gap between two is remembered for.
const GAPS_REMEMBERED: u8 = 16;
/// A reader's distance to the end of what is planned for it; more is a damaged state.
const MOST_BYTES_AHEAD: u64 = 1 << 32;

pub(super) const BASE_PAGES: u32 = (BASE_WINDOW_BYTES / PAGE_BYTES) as u32;

/// An access as its first byte and the one behind its last, the end of the file taken into account.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start_bytes: u64,
    pub(super) end_bytes: u64,
}

impl Span {
    /// None if it reads nothing.
    #[inline]
    pub(super) fn of(access: Access, file_bytes: u64) -> Option<Self> {
        let end_bytes = access.offset_bytes.saturating_add(access.length_bytes).min(file_bytes);
        (access.offset_bytes < end_bytes).then_some(Self { start_bytes: access.offset_bytes, end_bytes })
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.end_bytes - self.start_bytes
    }

    #[inline]
    pub(super) fn pages(&self) -> u64 {
        let (first, end) = self.page_range();
        end - first
    }

    /// The first page, and the one behind the last.
    #[inline]
    fn page_range(&self) -> (u64, u64) {
        (self.start_bytes / PAGE_BYTES, page_behind(self.end_bytes))
    }

    /// How far the next access may begin behind the end of one, and still follow it: half of what such a reader passes is read.
    #[inline]
    fn reach_bytes(&self) -> u64 {
        self.bytes().max(PAGE_BYTES)
    }
}

/// The page behind the last of what ends here; of nothing, none that there is.
#[inline]
fn page_behind(end_bytes: u64) -> u64 {
    (end_bytes.wrapping_sub(1) / PAGE_BYTES) + 1
}

/// How a reader moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody.
    Free,
    /// Not confirmed.
    New,
    /// Each access follows the last.
    Forward,
    /// Each access ends where the last began.
    Backward,
    /// Accesses at equal distances.
    Strided,
}

/// What an access told.
pub(super) struct Step {
    /// The reader has just read a first window that was planned for it.
    pub(super) proved: bool,
    /// It has entered its last window.
    pub(super) asks: bool,
}

/// One reader. Its numbers may have any values.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// The last access; of a forward or backward reader, the farthest.
    pub(super) start_bytes: u64,
    pub(super) end_bytes: u64,
    /// Up to here, in the direction of the reader, what it read is in the sums: the beginning of an access, or the end of a forward
    /// reader's.
    summed_bytes: u64,
    /// Between the beginnings of two accesses; a candidate until it has its votes.
    pub(super) stride_bytes: i64,
    /// What is planned ends here, in the direction of the reader; of a strided one, the beginning of the next range.
    pub(super) frontier_bytes: u64,
    /// The beginning of the last window: who enters it asks for the next.
    pub(super) mark_bytes: u64,
    /// The next window.
    pub(super) window_pages: u32,
    /// Planned, and not read yet.
    pub(super) ahead_pages: u32,
    /// Read by it so far.
    pub(super) read_pages: u32,
    /// Of what was planned, read.
    pub(super) used_pages: u32,
    pub(super) lane: u32,
    /// The clock at its last access.
    pub(super) seen_at: u32,
    votes: u8,
    forward_votes: u8,
    backward_votes: u8,
    /// A [`Kind`]; unknown values are free.
    kind: u8,
    /// Changes when the slot is given to another reader.
    pub(super) generation: u8,
    /// Counts down since a forward reader left something out.
    gaps: u8,
    /// Whether it was left to the kernel: nothing is planned up to its frontier.
    pub(super) left: u8,
    reserved: u8,
    /// Of what was ahead of it, taken for lost when it had not been seen for long.
    pub(super) gone_pages: u32,
    unused: u32,
    /// Up to here, what it read was [passed](Self::passed).
    passed_bytes: u64,
}

impl Stream {
    pub(super) const FREE: Self = Self {
        start_bytes: 0,
        end_bytes: 0,
        summed_bytes: 0,
        stride_bytes: 0,
        frontier_bytes: 0,
        mark_bytes: 0,
        window_pages: 0,
        ahead_pages: 0,
        read_pages: 0,
        used_pages: 0,
        lane: 0,
        seen_at: 0,
        votes: 0,
        forward_votes: 0,
        backward_votes: 0,
        kind: 0,
        generation: 0,
        gaps: 0,
        left: 0,
        reserved: 0,
        gone_pages: 0,
        unused: 0,
        passed_bytes: 0,
    };

    /// A reader's first access. `candidate_bytes` is its distance to what may have been the one before, or 0.
    pub(super) fn opened(lane: u32, span: Span, candidate_bytes: i64, generation: u8, seen_at: u32) -> Self {
        Self {
            start_bytes: span.start_bytes,
            end_bytes: span.end_bytes,
            stride_bytes: candidate_bytes,
            votes: u8::from(candidate_bytes != 0),
            kind: 1,
            read_pages: u32::try_from(span.pages()).unwrap_or(u32::MAX),
            lane,
            generation,
            seen_at,
            ..Self::FREE
        }
    }

    #[inline]
    pub(super) fn kind(&self) -> Kind {
        match self.kind {
            1 => Kind::New,
            2 => Kind::Forward,
            3 => Kind::Backward,
            4 => Kind::Strided,
            _ => Kind::Free,
        }
    }

    #[inline]
    pub(super) fn is_new(&self) -> bool {
        self.kind() == Kind::New
    }

    pub(super) fn is_free(&self) -> bool {
        self.kind() == Kind::Free
    }

    /// Whether it was confirmed, and then read little of what was planned for it.
    pub(super) fn is_disappointing(&self) -> bool {
        self.spare() == 0 && self.used_pages < BASE_PAGES && self.ahead_pages > self.used_pages
    }

    /// Whether the kernel's own readahead follows it: forward, and nothing left out.
    pub(super) fn is_the_kernels(&self) -> bool {
        self.kind() == Kind::Forward && self.gaps == 0
    }

    /// Nobody's any more.
    pub(super) fn free(&mut self) {
        (self.kind, self.ahead_pages) = (0, 0);
    }

    /// How little would be lost with it.
    pub(super) fn spare(&self) -> u64 {
        match self.kind() {
            Kind::Free => 2,
            Kind::New => 1,
            _ => 0,
        }
    }

    /// Whether an unconfirmed slot is better explained as what came before an access at this distance.
    pub(super) fn yields_to(&self, candidate_bytes: i64) -> bool {
        self.kind() == Kind::New
            && self.votes <= 1
            && self.forward_votes == 0
            && self.backward_votes == 0
            && candidate_bytes.unsigned_abs() < self.stride_bytes.unsigned_abs()
    }

    /// Whether an access is just the next of this reader.
    #[inline]
    pub(super) fn precedes(&self, span: &Span) -> bool {
        let strides = || {
            !mutated(Mutant::StridesUnknown)
                && self.start_bytes.wrapping_add_signed(self.stride_bytes) == span.start_bytes
        };
        match self.kind() {
            Kind::Forward => self.continues(span),
            Kind::Backward => self.recedes(span),
            Kind::Strided => strides(),
            Kind::New => self.continues(span) || self.recedes(span) || strides(),
            Kind::Free => false,
        }
    }

    /// Whether an unconfirmed reader comes to an access over a distance.
    #[inline]
    pub(super) fn leaps_to(&self, span: &Span) -> bool {
        self.kind() == Kind::New
            && !mutated(Mutant::SlotsMove)
            && self.start_bytes != span.start_bytes
            && !self.continues(span)
            && !self.recedes(span)
    }

    /// Whether an access begins where this one ended, or a little behind.
    #[inline]
    fn continues(&self, span: &Span) -> bool {
        span.start_bytes.wrapping_sub(self.end_bytes) <= span.reach_bytes()
    }

    /// Whether an access ends where this one began, or a little before.
    #[inline]
    fn recedes(&self, span: &Span) -> bool {
        !mutated(Mutant::BackwardUnknown) && self.start_bytes.wrapping_sub(span.end_bytes) <= span.reach_bytes()
    }

    /// Whether an access is within what is planned for this reader, or just behind it.
    pub(super) fn surrounds(&self, span: &Span) -> bool {
        if mutated(Mutant::SkipsUnknown) {
            return false;
        }
        match self.kind() {
            Kind::Forward => {
                self.end_bytes.saturating_sub(BEHIND_BYTES) <= span.start_bytes
                    && span.start_bytes < self.frontier_bytes
            }
            Kind::Backward => {
                span.end_bytes <= self.start_bytes.saturating_add(BEHIND_BYTES)
                    && self.frontier_bytes < span.end_bytes
                    && self.start_bytes.saturating_sub(self.frontier_bytes) <= MOST_BYTES_AHEAD
            }
            Kind::Strided => {
                let (low, high) = if self.stride_bytes < 0 {
                    (self.frontier_bytes, self.start_bytes)
                } else {
                    (self.start_bytes, self.frontier_bytes)
                };
                let distance = self.start_bytes.abs_diff(span.start_bytes);
                (low..=high).contains(&span.start_bytes)
                    && distance.checked_rem(self.stride_bytes.unsigned_abs()) == Some(0)
            }
            Kind::New => self.start_bytes == span.start_bytes,
            Kind::Free => false,
        }
    }

    /// Moves the reader to an access that it [precedes](Self::precedes) or [surrounds](Self::surrounds). `doubts` more votes than usual
    /// confirm.
    #[inline]
    pub(super) fn advance(&mut self, span: &Span, doubts: u8) -> Step {
        self.sum_up();
        let step = self.advance_one(span, doubts);
        self.summed_bytes = if self.kind() == Kind::Forward { self.end_bytes } else { self.start_bytes };
        step
    }

    fn advance_one(&mut self, span: &Span, doubts: u8) -> Step {
        let (first, end) = span.page_range();
        let (before_first, before_end) = (self.start_bytes / PAGE_BYTES, page_behind(self.end_bytes));
        // Pages that this reader passes for the first time, of them those that were planned, and whether it has entered its last
        // window.
        let (new_pages, planned_pages, asks) = match self.kind() {
            Kind::Forward => {
                let from = first.max(page_behind(self.end_bytes));
                let planned_end = end.min(page_behind(self.frontier_bytes));
                if span.end_bytes > self.end_bytes {
                    self.place(span);
                }
                (end.saturating_sub(from), planned_end.saturating_sub(from), self.end_bytes > self.mark_bytes)
            }
            Kind::Backward => {
                let to = end.min(self.start_bytes / PAGE_BYTES);
                let planned_first = first.max(self.frontier_bytes / PAGE_BYTES);
                if span.start_bytes < self.start_bytes {
                    self.place(span);
                }
                (to.saturating_sub(first), to.saturating_sub(planned_first), self.start_bytes < self.mark_bytes)
            }
            Kind::Strided => {
                let back = self.stride_bytes < 0;
                let goes_on = (span.start_bytes < self.start_bytes) == back;
                let planned =
                    (self.frontier_bytes < span.start_bytes) == back && self.frontier_bytes != span.start_bytes;
                let new_pages = if goes_on { self.unshared_pages(span) } else { 0 };
                if goes_on {
                    self.place(span);
                }
                let asks = (self.start_bytes <= self.mark_bytes) == back || self.start_bytes == self.mark_bytes;
                (new_pages, if planned { new_pages } else { 0 }, asks)
            }
            Kind::New => {
                let new_pages = self.unshared_pages(span);
                self.vote(span, doubts);
                (new_pages, 0, self.kind != 1)
            }
            Kind::Free => (0, 0, false),
        };
        let unproved = self.used_pages < BASE_PAGES;
        self.sum(new_pages, planned_pages);
        // What lies between two accesses was planned in vain; it is no longer ahead. No more than what is read, so that the bound on
        // waste holds.
        let between_pages = match self.kind() {
            Kind::Forward => first.saturating_sub(before_end),
            Kind::Backward => before_first.saturating_sub(end),
            _ => 0,
        };
        self.ahead_pages -= between_pages.min(new_pages).min(u64::from(self.ahead_pages)) as u32;
        // What lies farther off than a reader's next access was not looked at.
        if self.kind() == Kind::Forward && between_pages > 0 && between_pages <= end.saturating_sub(first) {
            self.resume();
            self.gaps = GAPS_REMEMBERED;
        } else {
            self.gaps = self.gaps.saturating_sub(1);
        }
        Step { proved: unproved && self.used_pages >= BASE_PAGES, asks: asks || mutated(Mutant::MarkIgnored) }
    }

    fn sum(&mut self, new_pages: u64, planned_pages: u64) {
        let used_pages = planned_pages.min(u64::from(self.ahead_pages)) as u32;
        self.ahead_pages -= used_pages;
        self.read_pages = self.read_pages.saturating_add(new_pages.min(u64::from(u32::MAX)) as u32);
        self.used_pages = self.used_pages.saturating_add(used_pages);
    }

    /// Whether an access is just the next of this reader and does not enter its last window, or is the same once more: then the reader
    /// goes there, and the sums wait.
    #[inline]
    pub(super) fn glides(&mut self, span: &Span) -> bool {
        let glides = match self.kind {
            1 => return span.start_bytes == self.start_bytes && span.end_bytes == self.end_bytes,
            2 => span.start_bytes == self.end_bytes && span.end_bytes <= self.mark_bytes,
            3 => span.end_bytes == self.start_bytes && span.start_bytes >= self.mark_bytes,
            4 => {
                span.start_bytes == self.start_bytes.wrapping_add_signed(self.stride_bytes)
                    && span.bytes() == self.end_bytes.wrapping_sub(self.start_bytes)
                    && if self.stride_bytes < 0 {
                        span.start_bytes > self.mark_bytes
                    } else {
                        span.start_bytes < self.mark_bytes
                    }
            }
            _ => false,
        };
        if glides {
            self.place(span);
        }
        glides
    }

    /// Adds what a reader [glided](Self::glides) over. It was planned, since it comes before the last window.
    fn sum_up(&mut self) {
        let pages = match self.kind() {
            Kind::Forward => page_behind(self.end_bytes).saturating_sub(page_behind(self.summed_bytes)),
            Kind::Backward => (self.summed_bytes / PAGE_BYTES).saturating_sub(self.start_bytes / PAGE_BYTES),
            Kind::Strided => {
                let distance_bytes = self.stride_bytes.unsigned_abs();
                let steps = self.start_bytes.abs_diff(self.summed_bytes).checked_div(distance_bytes).unwrap_or(0);
                let span = Span { start_bytes: self.start_bytes, end_bytes: self.end_bytes };
                if self.start_bytes < self.end_bytes { steps.saturating_mul(span.pages()) } else { 0 }
            }
            Kind::New | Kind::Free => 0,
        };
        self.sum(pages, pages);
    }

    /// Pages of an access that the last one did not have.
    #[inline]
    fn unshared_pages(&self, span: &Span) -> u64 {
        let (first, end) = span.page_range();
        let shared = end.min(page_behind(self.end_bytes)).saturating_sub(first.max(self.start_bytes / PAGE_BYTES));
        end - first - shared.min(end - first)
    }

    /// What it has read since the last question, where it leaves nothing out.
    pub(super) fn passed(&mut self) -> Option<Range> {
        let (start_bytes, end_bytes) = match self.kind() {
            Kind::Forward => (core::mem::replace(&mut self.passed_bytes, self.end_bytes), self.end_bytes),
            Kind::Backward => (self.start_bytes, core::mem::replace(&mut self.passed_bytes, self.start_bytes)),
            Kind::New | Kind::Strided | Kind::Free => return None,
        };
        (start_bytes < end_bytes).then_some(Range { start_bytes, end_bytes })
    }

    #[inline]
    fn place(&mut self, span: &Span) {
        (self.start_bytes, self.end_bytes) = (span.start_bytes, span.end_bytes);
    }

    /// An unconfirmed reader's next access.
    #[inline(never)]
    fn vote(&mut self, span: &Span, doubts: u8) {
        let distance = span.start_bytes.wrapping_sub(self.start_bytes) as i64;
        if distance == 0 {
            return;
        }
        if distance == self.stride_bytes {
            self.votes = self.votes.saturating_add(1);
        } else if self.votes > 1 {
            self.votes -= 1;
        } else {
            (self.stride_bytes, self.votes) = (distance, 1);
        }
        self.forward_votes = if self.continues(span) { self.forward_votes.saturating_add(1) } else { 0 };
        self.backward_votes = if self.recedes(span) { self.backward_votes.saturating_add(1) } else { 0 };
        self.place(span);
        let needed = if mutated(Mutant::ConfirmsAtOnce) { 1 } else { CONFIRMED.saturating_add(doubts) };
        // A gap of a page and more between equal distances is not worth loading.
        if self.votes >= needed && self.stride_bytes.unsigned_abs() >= span.bytes().saturating_add(PAGE_BYTES) {
            self.confirm(4, span.start_bytes, span.start_bytes.saturating_add_signed(self.stride_bytes));
        } else if self.forward_votes >= needed {
            self.confirm(2, span.start_bytes, span.end_bytes);
        } else if self.backward_votes >= needed {
            self.confirm(3, span.end_bytes, span.start_bytes);
        }
    }

    fn confirm(&mut self, kind: u8, mark_bytes: u64, frontier_bytes: u64) {
        (self.kind, self.mark_bytes, self.frontier_bytes) = (kind, mark_bytes, frontier_bytes);
        (self.window_pages, self.ahead_pages, self.used_pages) = (BASE_PAGES, 0, 0);
        self.passed_bytes = frontier_bytes;
    }
}

#[cfg(test)]
impl Stream {
    /// One of the kinds, where the byte of one has any value.
    pub(super) fn make_kind_likely(&mut self) {
        self.kind %= 6;
    }

    /// What this reader would read next.
    pub(super) fn next_access(&self, length_bytes: u64) -> Access {
        let offset_bytes = match self.kind() {
            Kind::Forward => self.end_bytes,
            Kind::Backward => self.start_bytes.saturating_sub(length_bytes),
            _ => self.start_bytes.saturating_add_signed(self.stride_bytes),
        };
        Access { offset_bytes, length_bytes, lane: self.lane }
    }
}
