//! Writes the pages of the map journal. They go to blocks of their own, outside
//! the geometry given.

use nvme::Status;
use trace::RequestId;
use units::Nanos;

use crate::contents::WritePart;
use crate::flash::{Op, OpKind, Owner};
use crate::ftl::journal::Waiter;
use crate::slab::NONE;

use super::{Opcode, Ssd};

/// A map entry takes a unit number and its place.
const ENTRY_BYTES: u32 = 8;

impl Ssd {
    /// Waits until everything settled so far survives a power cut.
    pub(super) fn journal_wait(&mut self, now: Nanos, waiter: Waiter) {
        if self.ftl.journal.wait(waiter) {
            self.journal_done(now, waiter);
        } else {
            self.journal_start(now);
        }
    }

    /// Writes the journal if a page is full, though nobody waits.
    pub(super) fn journal_if_full(&mut self, now: Nanos) {
        if self.ftl.journal.entries >= self.journal_page_entries() && !self.ftl.journal.is_busy() {
            self.journal_begin(now);
        }
    }

    /// Writes the journal of an idle device.
    pub(super) fn journal_if_dirty(&mut self, now: Nanos) {
        if !self.ftl.journal.is_clean() && !self.ftl.journal.is_busy() {
            self.journal_begin(now);
        }
    }

    fn journal_page_entries(&self) -> usize {
        (self.layout.units_per_page * self.layout.unit_bytes / ENTRY_BYTES) as usize
    }

    fn journal_start(&mut self, now: Nanos) {
        if !self.ftl.journal.is_busy() && self.ftl.journal.is_wanted() {
            self.journal_begin(now);
        }
    }

    fn journal_begin(&mut self, now: Nanos) {
        let entries = self.journal_page_entries();
        let (controller, host) = (&self.config.controller, &self.host);
        self.ftl.journal.begin(entries, |waiter| match waiter {
            Waiter::Command(id) if host[*id].opcode == Opcode::Write => controller.journal_pages_per_fua,
            Waiter::Command(_) => controller.journal_pages_per_flush,
            Waiter::Erase(_) => 1,
        });
        let pages = self.ftl.journal.pages_left();
        self.ftl.flash.iter_mut().for_each(|flash| flash.journal_begins(pages));
        self.journal_page(now);
    }

    fn journal_page(&mut self, now: Nanos) {
        let request = match self.ftl.journal.first_running() {
            Some(Waiter::Command(id)) => self.host[id].request,
            _ => RequestId(0),
        };
        let bytes = self.layout.units_per_page * self.layout.unit_bytes;
        let die = self.dies.take_journal_turn();
        self.counters.journal_written_bytes += u64::from(bytes);
        let op = Op {
            kind: OpKind::Program,
            owner: Owner::Journal,
            tag: NONE,
            die,
            address: NONE,
            array: self.flash.timing.program_journal(),
            bytes,
            request,
            suspended: 0,
        };
        self.flash.submit(now, op, &mut self.events);
    }

    /// A journal page is programmed.
    pub(super) fn journal_page_done(&mut self, now: Nanos) {
        self.ftl.flash.iter_mut().for_each(|flash| flash.journal_page_done());
        #[cfg(test)]
        if self.mutant == Some(super::Mutant::JournalCountsEarly) {
            self.ftl.journal.forget_pages();
        }
        let Some(mut written) = self.ftl.journal.page_done() else { return self.journal_page(now) };
        let mut status = Status::SUCCESS;
        if self.store.keeps_contents() {
            WritePart::join(&mut written.parts);
        }
        for part in written.parts.drain(..) {
            if self.store.commit_blocks(part.sequence, part.nsid, part.range).is_err() {
                status = Status::WRITE_FAULT;
                self.counters.media_errors += 1;
            }
        }
        for waiter in written.waiters.drain(..) {
            if let Waiter::Command(id) = waiter
                && !status.is_success()
            {
                self.host[id].status = status;
            }
            self.journal_done(now, waiter);
        }
        // Waking a waiter starts no journal write.
        self.ftl.journal.recycle(written);
        self.journal_start(now);
        self.journal_if_full(now);
    }

    fn journal_done(&mut self, now: Nanos, waiter: Waiter) {
        match waiter {
            Waiter::Erase(block) => self.erase(now, block),
            Waiter::Command(id) if self.host[id].opcode == Opcode::Read => {
                self.host[id].prepared = true;
                self.start_read(now, id);
            }
            Waiter::Command(id) => self.complete(now, id),
        }
    }
}
