//! The map journal: what makes map changes survive a power cut.
//!
//! Map changes are collected in memory and written as journal pages: when a
//! flush or FUA write asks, before a block is erased, and when a page's worth
//! has come together. Until then the old place of an overwritten unit is what a
//! power cut would leave, so its block must not be erased.
//!
//! Here is what is collected, what a write in progress covers, and who waits;
//! `controller::journal` writes the pages.

use super::map::Entry;
use crate::contents::WritePart;

/// Who waits for a journal write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    /// A flush, a FUA write, or a FUA read.
    Command(u32),
    /// A block whose valid units have moved.
    Erase(u32),
}

/// The journal's state.
#[derive(Default)]
pub(crate) struct Journal {
    /// Map changes since the last journal write, oldest first, with what was before.
    undo: Vec<(u32, Entry)>,
    /// What the next journal write has to hold: units written or moved, and
    /// ranges zeroed or deallocated, since the last one began.
    pub entries: usize,
    /// Accepted writes that are on flash and wait for their map change.
    settled: Vec<WritePart>,
    waiters: Vec<Waiter>,
    /// The write in progress: pages left, map changes that it covers, and who waits for it.
    pages_left: u32,
    covers: usize,
    running: Written,
}

/// What a journal write makes durable.
#[derive(Default)]
pub(crate) struct Written {
    pub parts: Vec<WritePart>,
    pub waiters: Vec<Waiter>,
}

impl Journal {
    /// Whether a power cut now would take back any map change.
    pub fn is_clean(&self) -> bool {
        self.undo.is_empty() && self.settled.is_empty() && self.pages_left == 0
    }

    /// Whether a write is in progress.
    pub fn is_busy(&self) -> bool {
        self.pages_left > 0
    }

    /// Whether anyone waits for the next write.
    pub fn is_wanted(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Who waits longest for the write in progress.
    pub fn first_running(&self) -> Option<Waiter> {
        self.running.waiters.first().copied()
    }

    /// A unit's content changed, which was at `from`.
    pub fn note_undo(&mut self, unit: u32, from: Entry) {
        self.undo.push((unit, from));
    }

    /// An accepted write is on flash, and its map change made.
    pub fn note_settled(&mut self, part: WritePart) {
        self.settled.push(part);
    }

    /// The changes that no journal write has covered, oldest first.
    pub fn take_undo(&mut self) -> Vec<(u32, Entry)> {
        std::mem::take(&mut self.undo)
    }

    /// Whether everything settled so far survives a power cut; if not, the waiter
    /// waits until it does.
    pub fn wait(&mut self, waiter: Waiter) -> bool {
        if self.is_clean() {
            return true;
        }
        let covered = self.is_busy() && self.undo.len() == self.covers && self.settled.is_empty();
        let waiters = if covered { &mut self.running.waiters } else { &mut self.waiters };
        waiters.push(waiter);
        false
    }

    /// Begins a write of what has come together: as many pages as the entries
    /// take, and as who waits asks for.
    pub fn begin(&mut self, entries_per_page: usize, asked_pages: impl Fn(&Waiter) -> u32) {
        debug_assert!(!self.is_busy());
        self.covers = self.undo.len();
        std::mem::swap(&mut self.settled, &mut self.running.parts);
        std::mem::swap(&mut self.waiters, &mut self.running.waiters);
        let asked = self.running.waiters.iter().map(asked_pages).max().unwrap_or(1);
        let pages = std::mem::take(&mut self.entries).div_ceil(entries_per_page) as u32;
        self.pages_left = asked.max(pages).max(1);
    }

    /// Pages of the write in progress that are not programmed yet.
    pub fn pages_left(&self) -> u32 {
        self.pages_left
    }

    /// The page that is programmed counts as the last: a defect.
    #[cfg(test)]
    pub fn forget_pages(&mut self) {
        self.pages_left = self.pages_left.min(1);
    }

    /// A page is programmed: what the write made durable, if it was the last.
    pub fn page_done(&mut self) -> Option<Written> {
        self.pages_left -= 1;
        if self.pages_left > 0 {
            return None;
        }
        let covers = std::mem::take(&mut self.covers);
        self.undo.drain(..covers);
        Some(std::mem::take(&mut self.running))
    }

    /// Takes the lists of a write that is over back, for their memory.
    pub fn recycle(&mut self, written: Written) {
        debug_assert!(written.parts.is_empty() && written.waiters.is_empty() && self.running.waiters.is_empty());
        self.running = written;
    }

    /// Power off.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}
