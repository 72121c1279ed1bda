//! The windows of one reader: how far ahead of it something is planned.

use super::LOSS_SHARE;
use super::stream::{BASE_PAGES, BEHIND_BYTES, Kind, Span, Stream};
use crate::access::{Limits, PAGE_BYTES};
use crate::mutant::{Mutant, mutated};
use crate::plan::{MAX_RANGES, Plan};

/// Accesses for which a reader of a file that has lost much does not ask after it was given nothing.
const PAUSE: i64 = 16;

/// A reader's distance to the end of what is planned for it, in windows; more is a damaged state.
const MOST_WINDOWS_AHEAD: u64 = 4;

impl Stream {
    /// The next window, within `room_pages`, `window_pages` and the limits; a small one where readers of the file have lost much.
    pub(super) fn plan(
        &mut self,
        span: &Span,
        room_pages: u64,
        window_pages: u64,
        in_debt: bool,
        limits: &Limits,
    ) -> Option<Plan> {
        if self.is_the_kernels() && !limits.forward && !mutated(Mutant::KernelDoubled) {
            self.leave(limits.window_bytes);
            return None;
        }
        self.resume();
        // One read at least: a smaller window helps nobody.
        let wanted_pages = u64::from(self.window_pages).max(u64::from(BASE_PAGES)).max(span.pages()).min(window_pages);
        let ahead_pages = u64::from(self.ahead_pages).max(self.lead_pages(span, limits));
        let trusted_pages = if in_debt { self.read_pages / LOSS_SHARE } else { self.read_pages };
        let earned_pages = u64::from(trusted_pages).saturating_sub(ahead_pages);
        let earned_pages = if mutated(Mutant::WasteUnbounded) { u64::MAX } else { earned_pages };
        let payable_pages = wanted_pages.min(earned_pages).min(room_pages);
        if in_debt && payable_pages == 0 {
            self.pause(span);
            return None;
        }
        let plan = match self.kind() {
            Kind::Forward => self.forward(span, payable_pages, wanted_pages, limits),
            Kind::Backward => self.backward(span, payable_pages, wanted_pages, limits),
            Kind::Strided => self.strided(span, payable_pages, wanted_pages, limits),
            Kind::New | Kind::Free => None,
        }?;
        if payable_pages == wanted_pages && !mutated(Mutant::WindowStays) {
            self.window_pages = u32::try_from((wanted_pages * 2).min(window_pages)).unwrap_or(u32::MAX);
        }
        self.ahead_pages = self.ahead_pages.saturating_add(u32::try_from(plan.pages()).unwrap_or(u32::MAX));
        Some(plan)
    }

    /// Does not ask again for some accesses.
    fn pause(&mut self, span: &Span) {
        let distance_bytes = match self.kind() {
            Kind::Strided => self.stride_bytes,
            Kind::Backward => (span.bytes() as i64).wrapping_neg(),
            _ => span.bytes() as i64,
        };
        let from_bytes = if self.kind() == Kind::Forward { self.end_bytes } else { self.start_bytes };
        self.mark_bytes = from_bytes.saturating_add_signed(distance_bytes.saturating_mul(PAUSE));
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

    /// Nothing is planned for so much more.
    pub(super) fn leave(&mut self, bytes: u64) {
        self.left = 1;
        self.mark_bytes = self.end_bytes.saturating_add(bytes);
        self.frontier_bytes = self.mark_bytes;
    }

    /// Whether it is left to the kernel.
    #[inline]
    pub(super) fn is_left(&self) -> bool {
        self.left != 0
    }

    /// If it was left to the kernel, it is not any more.
    pub(super) fn resume(&mut self) {
        if core::mem::take(&mut self.left) != 0 {
            (self.mark_bytes, self.frontier_bytes) = (self.start_bytes, self.end_bytes);
        }
    }

    /// What is ahead of it counts as lost: so many pages.
    pub(super) fn lose(&mut self) -> u32 {
        if self.spare() != 0 {
            return 0;
        }
        self.gone_pages = self.gone_pages.saturating_add(self.ahead_pages);
        core::mem::take(&mut self.ahead_pages)
    }

    /// It is there again, and so is what was ahead of it: so many pages.
    pub(super) fn find(&mut self) -> u32 {
        let found = core::mem::take(&mut self.gone_pages);
        self.ahead_pages = self.ahead_pages.saturating_add(found);
        found
    }

    /// Smaller windows, down to the first.
    pub(super) fn halve(&mut self) {
        self.window_pages = (self.window_pages / 2).max(BASE_PAGES);
    }
}
