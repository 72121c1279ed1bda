//! One reader: where it is, how it moves, and how far is planned for it.

use super::BASE_WINDOW_BYTES;
use crate::access::{Access, Limits, PAGE_BYTES};
use crate::mutant::{Mutant, mutated};
use crate::plan::{MAX_RANGES, Plan};

/// Votes that confirm.
const CONFIRMED: u8 = 3;
/// How far behind its reader an access still counts as the reader's: threads that share one come a little out of order.
const BEHIND_BYTES: u64 = BASE_WINDOW_BYTES;
/// A reader's distance to the end of what is planned for it, in windows; more is a damaged state.
const MOST_WINDOWS_AHEAD: u64 = 4;
/// The same where no limits are known.
const MOST_BYTES_AHEAD: u64 = 1 << 32;

const BASE_PAGES: u32 = (BASE_WINDOW_BYTES / PAGE_BYTES) as u32;

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
    fn bytes(&self) -> u64 {
        self.end_bytes - self.start_bytes
    }

    #[inline]
    fn pages(&self) -> u64 {
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
enum Kind {
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
    end_bytes: u64,
    /// Between the beginnings of two accesses; a candidate until it has its votes.
    stride_bytes: i64,
    /// What is planned ends here, in the direction of the reader; of a strided one, the beginning of the next range.
    frontier_bytes: u64,
    /// The beginning of the last window: who enters it asks for the next.
    mark_bytes: u64,
    /// The next window.
    window_pages: u32,
    /// Planned, and not read yet.
    pub(super) ahead_pages: u32,
    /// Read by it so far.
    read_pages: u32,
    /// Of what was planned, read.
    used_pages: u32,
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
    reserved: [u8; 3],
}

impl Stream {
    pub(super) const FREE: Self = Self {
        start_bytes: 0,
        end_bytes: 0,
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
        reserved: [0; 3],
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
    fn kind(&self) -> Kind {
        match self.kind {
            1 => Kind::New,
            2 => Kind::Forward,
            3 => Kind::Backward,
            4 => Kind::Strided,
            _ => Kind::Free,
        }
    }

    pub(super) fn is_free(&self) -> bool {
        self.kind() == Kind::Free
    }

    /// Whether it was confirmed, and then read little of what was planned for it.
    pub(super) fn is_disappointing(&self) -> bool {
        self.spare() == 0 && self.used_pages < BASE_PAGES && self.ahead_pages > self.used_pages
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
        let (first, end) = span.page_range();
        // Pages that this reader passes for the first time, of them those that were planned, and whether it has entered its last window.
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
        let used_pages = planned_pages.min(u64::from(self.ahead_pages)) as u32;
        self.ahead_pages -= used_pages;
        self.read_pages = self.read_pages.saturating_add(new_pages.min(u64::from(u32::MAX)) as u32);
        let unproved = self.used_pages < BASE_PAGES;
        self.used_pages = self.used_pages.saturating_add(used_pages);
        Step { proved: unproved && self.used_pages >= BASE_PAGES, asks: asks || mutated(Mutant::MarkIgnored) }
    }

    /// Pages of an access that the last one did not have.
    #[inline]
    fn unshared_pages(&self, span: &Span) -> u64 {
        let (first, end) = span.page_range();
        let shared = end.min(page_behind(self.end_bytes)).saturating_sub(first.max(self.start_bytes / PAGE_BYTES));
        end - first - shared.min(end - first)
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
    }

    /// The next window, within `room_pages` and the limits.
    pub(super) fn plan(&mut self, span: &Span, room_pages: u64, limits: &Limits) -> Option<Plan> {
        let limit_pages = limits.window_bytes / PAGE_BYTES;
        // One read at least: a smaller window helps nobody.
        let wanted_pages = u64::from(self.window_pages).max(u64::from(BASE_PAGES)).max(span.pages()).min(limit_pages);
        let ahead_pages = u64::from(self.ahead_pages).max(self.lead_pages(span, limits));
        let earned_pages = u64::from(self.read_pages).saturating_sub(ahead_pages);
        let earned_pages = if mutated(Mutant::WasteUnbounded) { u64::MAX } else { earned_pages };
        let payable_pages = wanted_pages.min(earned_pages).min(room_pages);
        let plan = match self.kind() {
            Kind::Forward => self.forward(span, payable_pages, wanted_pages, limits),
            Kind::Backward => self.backward(span, payable_pages, wanted_pages, limits),
            Kind::Strided => self.strided(span, payable_pages, wanted_pages, limits),
            Kind::New | Kind::Free => None,
        }?;
        if payable_pages == wanted_pages && !mutated(Mutant::WindowStays) {
            self.window_pages = u32::try_from((wanted_pages * 2).min(limit_pages)).unwrap_or(u32::MAX);
        }
        self.ahead_pages = self.ahead_pages.saturating_add(u32::try_from(plan.pages()).unwrap_or(u32::MAX));
        Some(plan)
    }

    /// From the reader to the end of what was planned, whoever loaded it. What cannot be is 0.
    fn lead_pages(&self, span: &Span, limits: &Limits) -> u64 {
        let (lead_bytes, most_bytes) = match self.kind() {
            Kind::Forward => (self.frontier_bytes.saturating_sub(self.end_bytes), self.most_bytes(limits)),
            Kind::Backward => (self.start_bytes.saturating_sub(self.frontier_bytes), self.most_bytes(limits)),
            Kind::Strided => {
                let distance_bytes = self.stride_bytes.unsigned_abs();
                let ranges = self.frontier_bytes.abs_diff(self.start_bytes).checked_div(distance_bytes).unwrap_or(0);
                (ranges.saturating_sub(1).saturating_mul(span.pages() * PAGE_BYTES), self.most_bytes(limits))
            }
            Kind::New | Kind::Free => (0, 0),
        };
        if lead_bytes <= most_bytes { lead_bytes / PAGE_BYTES } else { 0 }
    }

    /// More than this is ahead of nobody.
    fn most_bytes(&self, limits: &Limits) -> u64 {
        limits.window_bytes.saturating_mul(MOST_WINDOWS_AHEAD).max(BEHIND_BYTES)
    }

    /// Small windows cost a call each: while the reader has something ahead of it, it waits for a quarter of a usual one.
    fn waits(payable_pages: u64, wanted_pages: u64, has_ahead: bool) -> bool {
        payable_pages == 0 || payable_pages < wanted_pages.min(u64::from(BASE_PAGES / 4)) && has_ahead
    }

    fn forward(&mut self, span: &Span, payable_pages: u64, wanted_pages: u64, limits: &Limits) -> Option<Plan> {
        let read_bytes = self.end_bytes.checked_next_multiple_of(PAGE_BYTES)?;
        let ahead_bytes = self.frontier_bytes.saturating_sub(read_bytes);
        let sound = ahead_bytes <= self.most_bytes(limits);
        let from_bytes = if sound { self.frontier_bytes.max(read_bytes) } else { read_bytes };
        let from_bytes = from_bytes.checked_next_multiple_of(PAGE_BYTES)?;
        if from_bytes >= limits.file_bytes
            || Self::waits(payable_pages, wanted_pages, from_bytes - read_bytes > span.bytes())
        {
            return None;
        }
        let end_bytes = if mutated(Mutant::EndIgnored) { u64::MAX } else { limits.file_bytes };
        let to_bytes = from_bytes.saturating_add(payable_pages * PAGE_BYTES).min(end_bytes);
        (self.mark_bytes, self.frontier_bytes) = (from_bytes, to_bytes);
        Some(Plan::contiguous(from_bytes, to_bytes))
    }

    fn backward(&mut self, span: &Span, payable_pages: u64, wanted_pages: u64, limits: &Limits) -> Option<Plan> {
        let read_bytes = self.start_bytes / PAGE_BYTES * PAGE_BYTES;
        let ahead_bytes = read_bytes.saturating_sub(self.frontier_bytes);
        let sound = ahead_bytes <= self.most_bytes(limits);
        let to_bytes = if sound { self.frontier_bytes.min(read_bytes) } else { read_bytes };
        let to_bytes = to_bytes.min(limits.file_bytes) / PAGE_BYTES * PAGE_BYTES;
        if to_bytes == 0 || Self::waits(payable_pages, wanted_pages, read_bytes.saturating_sub(to_bytes) > span.bytes())
        {
            return None;
        }
        let from_bytes = to_bytes.saturating_sub(payable_pages * PAGE_BYTES);
        (self.mark_bytes, self.frontier_bytes) = (to_bytes, from_bytes);
        let plan = Plan::contiguous(from_bytes, to_bytes);
        Some(Plan { stride_bytes: -plan.stride_bytes, ..plan })
    }

    fn strided(&mut self, span: &Span, payable_pages: u64, wanted_pages: u64, limits: &Limits) -> Option<Plan> {
        let distance_bytes = self.stride_bytes.unsigned_abs();
        let ahead_bytes = if self.stride_bytes < 0 {
            self.start_bytes.checked_sub(self.frontier_bytes)
        } else {
            self.frontier_bytes.checked_sub(self.start_bytes)
        };
        let most_bytes = distance_bytes.saturating_mul(u64::from(MAX_RANGES) * MOST_WINDOWS_AHEAD);
        let sound = ahead_bytes
            .is_some_and(|ahead| ahead > 0 && ahead <= most_bytes && ahead.checked_rem(distance_bytes) == Some(0));
        let from_bytes =
            if sound { self.frontier_bytes } else { self.start_bytes.checked_add_signed(self.stride_bytes)? };
        let length_bytes = span.bytes();
        let room_bytes = limits.file_bytes.checked_sub(length_bytes)?.checked_sub(from_bytes)?;
        let in_file = if self.stride_bytes < 0 { from_bytes } else { room_bytes }.checked_div(distance_bytes)? + 1;
        let plan = Plan { start_bytes: from_bytes, stride_bytes: self.stride_bytes, length_bytes, count: 1, stream: 0 };
        // Of several, since they may lie differently in their pages.
        let of_each = Plan { count: 2, ..plan }.pages() / 2;
        let ahead = from_bytes.abs_diff(self.start_bytes);
        let affordable = payable_pages / of_each;
        let wanted = (wanted_pages / of_each).max(1);
        if affordable == 0 || Self::waits(affordable * of_each, wanted * of_each, ahead > distance_bytes) {
            return None;
        }
        let count = affordable.min(wanted).min(in_file).min(u64::from(MAX_RANGES)) as u32;
        self.mark_bytes = from_bytes;
        self.frontier_bytes = from_bytes.saturating_add_signed(self.stride_bytes.saturating_mul(i64::from(count)));
        Some(Plan { count, ..plan })
    }

    /// A plan of `pages` was not carried out.
    pub(super) fn give_back(&mut self, pages: u64) {
        self.ahead_pages = self.ahead_pages.saturating_sub(u32::try_from(pages).unwrap_or(u32::MAX));
    }

    /// The last plan was not carried out: it is made again at the next access.
    pub(super) fn rewind(&mut self) {
        self.frontier_bytes = self.mark_bytes;
        self.mark_bytes = if self.kind() == Kind::Backward { self.end_bytes } else { self.start_bytes };
    }

    /// Smaller windows, down to the first.
    pub(super) fn halve(&mut self) {
        self.window_pages = (self.window_pages / 2).max(BASE_PAGES);
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
