//! What serving computes, for a clock that does not see it.
//!
//! In virtual time the processor's work is free unless somebody pays for it. The kernel's has a table of costs; what a server
//! computes in its own code has this one. A cost is owed by request and by byte: a linear law of few terms, measured on a machine.

use std::sync::{Mutex, PoisonError};

use fuse::{Handler, Operation, Request};

use crate::operations::{Operations, Result};
use crate::volume::Volume;

/// What each kind of work costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ComputingCosts {
    /// A name or an inode that is made, removed, renamed or changed.
    pub change_ns: u32,
    /// A name that is looked up, or attributes that are told.
    pub lookup_ns: u32,
    /// A file that is opened or released, and whatever else is asked.
    pub other_ns: u32,
    /// A read, of no bytes.
    pub read_ns: u32,
    /// What it returns, from memory.
    pub read_ns_per_kib: u32,
    /// A write, of no bytes.
    pub write_ns: u32,
    /// What it takes.
    pub write_ns_per_kib: u32,
    /// What a directory's listing returns.
    pub listing_ns_per_kib: u32,
    /// A sync, besides what the device takes.
    pub sync_ns: u32,
    /// Bytes that move down the trees: merged, packed and written.
    pub worked_ns_per_kib: u32,
    /// Bytes that come from the device: checked and unpacked.
    pub loaded_ns_per_kib: u32,
}

const KIB: u64 = 1024;

/// How many bytes the store has moved, for which somebody pays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Merged, packed and written.
    pub worked_bytes: u64,
    /// Read from the device.
    pub loaded_bytes: u64,
}

impl ComputingCosts {
    /// What a request costs whose answer has so many bytes, besides what the store moves for it.
    pub fn of(&self, operation: &Operation<'_>, answer_bytes: u64) -> u64 {
        let per_kib = |ns: u32, bytes: u64| u64::from(ns) * bytes / KIB;
        match operation {
            Operation::Create { .. }
            | Operation::TemporaryFile { .. }
            | Operation::Symlink { .. }
            | Operation::MakeNode { .. }
            | Operation::MakeDirectory { .. }
            | Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. }
            | Operation::SetAttr(_)
            | Operation::SetXattr { .. }
            | Operation::RemoveXattr { .. }
            | Operation::Fallocate { .. }
            | Operation::CopyRange { .. } => self.change_ns.into(),
            Operation::Lookup { .. }
            | Operation::GetAttr { .. }
            | Operation::ReadLink
            | Operation::GetXattr { .. }
            | Operation::ListXattr { .. } => self.lookup_ns.into(),
            Operation::Read { .. } => u64::from(self.read_ns) + per_kib(self.read_ns_per_kib, answer_bytes),
            Operation::Write { data, .. } => {
                u64::from(self.write_ns) + per_kib(self.write_ns_per_kib, data.len() as u64)
            }
            Operation::ReadDirectory { .. } => per_kib(self.listing_ns_per_kib, answer_bytes),
            Operation::Fsync { .. } | Operation::FsyncDirectory { .. } | Operation::SyncFs => self.sync_ns.into(),
            _ => self.other_ns.into(),
        }
    }

    /// What moving these bytes costs.
    pub fn of_moved(&self, moved: Moved) -> u64 {
        u64::from(self.worked_ns_per_kib) * moved.worked_bytes / KIB
            + u64::from(self.loaded_ns_per_kib) * moved.loaded_bytes / KIB
    }
}

/// A server that spends what it computes.
pub struct Computing<'a> {
    handler: &'a dyn Handler,
    volume: &'a Volume,
    costs: ComputingCosts,
    /// Takes so many nanoseconds of the caller's thread.
    spend: &'a (dyn Fn(u64) + Sync),
    paid: Mutex<Moved>,
    /// Changes go one after the other, and so do their costs.
    turn: Mutex<()>,
}

impl<'a> Computing<'a> {
    /// Answers as `handler` does, whose requests `volume` carries out; `spend` takes so many nanoseconds of the thread that calls.
    pub fn new(
        handler: &'a dyn Handler,
        volume: &'a Volume,
        costs: ComputingCosts,
        spend: &'a (dyn Fn(u64) + Sync),
    ) -> Self {
        let paid = Mutex::new(volume.moved());
        Self { handler, volume, costs, spend, paid, turn: Mutex::new(()) }
    }

    /// What the store has moved since somebody paid.
    fn owed(&self) -> u64 {
        let now = self.volume.moved();
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = Moved {
            worked_bytes: now.worked_bytes.saturating_sub(paid.worked_bytes),
            loaded_bytes: now.loaded_bytes.saturating_sub(paid.loaded_bytes),
        };
        *paid = Moved {
            worked_bytes: now.worked_bytes.max(paid.worked_bytes),
            loaded_bytes: now.loaded_bytes.max(paid.loaded_bytes),
        };
        self.costs.of_moved(moved)
    }

    /// Does what changes owe the store ([`Operations::work`]), and pays for it.
    ///
    /// # Errors
    /// What the storage met.
    pub fn work(&self, bytes: u64) -> Result<bool> {
        let more = self.volume.work(bytes)?;
        (self.spend)(self.owed());
        Ok(more)
    }
}

impl Handler for Computing<'_> {
    fn answer(&self, request: &Request<'_>, body: &mut Vec<u8>) -> std::result::Result<(), i32> {
        let answer = self.handler.answer(request, body);
        let cost = self.costs.of(&request.operation, body.len() as u64) + self.owed();
        if changes(&request.operation) {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            (self.spend)(cost);
        } else {
            (self.spend)(cost);
        }
        answer
    }
}

/// Whether requests of its kind go one after the other.
fn changes(operation: &Operation<'_>) -> bool {
    !matches!(
        operation,
        Operation::Lookup { .. }
            | Operation::GetAttr { .. }
            | Operation::ReadLink
            | Operation::Read { .. }
            | Operation::ReadDirectory { .. }
            | Operation::GetXattr { .. }
            | Operation::ListXattr { .. }
            | Operation::StatFs
    )
}

impl std::fmt::Debug for Computing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Computing").field("costs", &self.costs).finish_non_exhaustive()
    }
}
