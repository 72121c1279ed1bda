//! The map journal: what makes map changes survive a power cut.
//!
//! Map changes are collected in memory and written as journal pages: when a
//! flush or FUA write asks, before a block is erased, and when a page's worth
//! has come together. Until then the old place of an overwritten unit is what a
//! power cut would leave, so its block must not be erased. Journal pages go to
//! blocks of their own, outside the geometry given.

use crate::controller::buffer::Part;
use crate::flash::{Op, OpKind, Owner};
use crate::ftl::map::Entry;
use crate::slab::NONE;

use super::{Opcode, Ssd};
use nvme::Status;
use trace::RequestId;
use units::Nanos;

/// Who waits for a journal write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    /// A flush, a FUA write, or a FUA read.
    Command(u32),
    /// A block whose valid units have moved.
    Erase(u32),
}

/// A map entry takes a unit number and its place.
const ENTRY_BYTES: u32 = 8;

/// The journal's state.
#[derive(Default)]
pub(super) struct Journal {
    /// Map changes since the last journal write, oldest first, with what was before.
    pub undo: Vec<(u32, Entry)>,
    /// What the next journal write has to hold: units written or moved, and
    /// ranges zeroed or deallocated, since the last one began.
    pub entries: usize,
    /// Accepted writes that are on flash and wait for their map change.
    pub settled: Vec<Part>,
    waiters: Vec<Waiter>,
    /// The write in progress: pages left, and what it covers.
    pages_left: u32,
    covers: usize,
    running: Vec<Waiter>,
    writing: Vec<Part>,
    /// Die of the next journal page.
    die: u32,
}

impl Journal {
    /// Whether a power cut now would take back any map change.
    pub fn is_clean(&self) -> bool {
        self.undo.is_empty() && self.settled.is_empty() && self.pages_left == 0
    }

    /// Power off.
    pub fn reset(&mut self) {
        self.settled.clear();
        self.waiters.clear();
        self.running.clear();
        self.writing.clear();
        self.undo.clear();
        self.entries = 0;
        self.pages_left = 0;
        self.covers = 0;
    }

    /// Whether a write is in progress.
    pub fn is_busy(&self) -> bool {
        self.pages_left > 0
    }
}

impl Ssd {
    /// Waits until everything settled so far survives a power cut.
    pub(super) fn journal_wait(&mut self, now: Nanos, waiter: Waiter) {
        let journal = &mut self.journal;
        if journal.is_clean() {
            self.journal_done(now, waiter);
        } else if journal.is_busy() && journal.undo.len() == journal.covers && journal.settled.is_empty() {
            journal.running.push(waiter);
        } else {
            journal.waiters.push(waiter);
            self.journal_start(now);
        }
    }

    /// Writes the journal if a page is full, though nobody waits.
    pub(super) fn journal_if_full(&mut self, now: Nanos) {
        if self.journal.entries >= self.journal_page_entries() && !self.journal.is_busy() {
            self.journal_begin(now);
        }
    }

    /// Writes the journal of an idle device.
    pub(super) fn journal_if_dirty(&mut self, now: Nanos) {
        if !self.journal.is_clean() && !self.journal.is_busy() {
            self.journal_begin(now);
        }
    }

    fn journal_page_entries(&self) -> usize {
        (self.layout.units_per_page * self.layout.unit_bytes / ENTRY_BYTES) as usize
    }

    fn journal_start(&mut self, now: Nanos) {
        if !self.journal.is_busy() && !self.journal.waiters.is_empty() {
            self.journal_begin(now);
        }
    }

    fn journal_begin(&mut self, now: Nanos) {
        let entries = self.journal_page_entries();
        let controller = &self.config.controller;
        let journal = &mut self.journal;
        journal.covers = journal.undo.len();
        std::mem::swap(&mut journal.settled, &mut journal.writing);
        std::mem::swap(&mut journal.waiters, &mut journal.running);
        let asked = journal.running.iter().map(|waiter| match waiter {
            Waiter::Command(id) if self.commands[*id].opcode == Opcode::Write => controller.journal_pages_per_fua,
            Waiter::Command(_) => controller.journal_pages_per_flush,
            Waiter::Erase(_) => 1,
        });
        let pages = std::mem::take(&mut journal.entries).div_ceil(entries) as u32;
        journal.pages_left = asked.max().unwrap_or(1).max(pages).max(1);
        self.journal_page(now);
    }

    fn journal_page(&mut self, now: Nanos) {
        let request = match self.journal.running.first() {
            Some(Waiter::Command(id)) => self.commands[*id].request,
            _ => RequestId(0),
        };
        let bytes = self.layout.units_per_page * self.layout.unit_bytes;
        let die = self.journal.die;
        self.journal.die = (die + 1) % self.layout.dies;
        self.counters.journal_written_bytes += u64::from(bytes);
        let op = Op {
            kind: OpKind::Program,
            owner: Owner::Journal,
            tag: NONE,
            die,
            address: NONE,
            array: self.timing.program_journal(),
            bytes,
            request,
            suspended: 0,
        };
        self.flash.submit(now, op, &mut self.events);
    }

    /// A journal page is programmed.
    pub(super) fn journal_page_done(&mut self, now: Nanos) {
        self.journal.pages_left -= 1;
        if self.journal.pages_left > 0 {
            self.journal_page(now);
            return;
        }
        let covers = std::mem::take(&mut self.journal.covers);
        self.journal.undo.drain(..covers);
        let mut status = Status::SUCCESS;
        let mut writing = std::mem::take(&mut self.journal.writing);
        for part in writing.drain(..) {
            if self.store.commit_blocks(part.sequence, part.nsid, part.range).is_err() {
                status = Status::WRITE_FAULT;
                self.counters.media_errors += 1;
            }
        }
        self.journal.writing = writing;
        let mut running = std::mem::take(&mut self.journal.running);
        for waiter in running.drain(..) {
            if let Waiter::Command(id) = waiter
                && !status.is_success()
            {
                self.commands[id].status = status;
            }
            self.journal_done(now, waiter);
        }
        // Waking a waiter starts no journal write, so the list is still ours.
        self.journal.running = running;
        self.journal_start(now);
        self.journal_if_full(now);
    }

    fn journal_done(&mut self, now: Nanos, waiter: Waiter) {
        match waiter {
            Waiter::Erase(block) => self.erase(now, block),
            Waiter::Command(id) if self.commands[id].opcode == Opcode::Read => {
                self.commands[id].prepared = true;
                self.start_read(now, id);
            }
            Waiter::Command(id) => self.complete(now, id),
        }
    }
}
