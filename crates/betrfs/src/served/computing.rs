//! What serving computes, for a clock that does not see it.
//!
//! In virtual time the processor's work is free unless somebody pays for it. The kernel's has a table of costs; what a server
//! computes in its own code has this one. A cost is owed by request and by byte: a linear law of few terms, measured on a machine.

use std::sync::{Mutex, PoisonError};

use fuse::{Handler, Operation, Request};
use units::ServerCosts;

use crate::operations::{Operations, Result};
use crate::volume::Volume;

const KIB: u64 = 1024;

/// How many bytes the store has moved, for which somebody pays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Merged, packed and written.
    pub worked_bytes: u64,
    /// Read from the device.
    pub loaded_bytes: u64,
}

/// A kind of work that has a cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Change,
    Lookup,
    Read,
    Write { bytes: u64 },
    Listing,
    Sync,
    Other,
}

impl Work {
    fn of(operation: &Operation<'_>) -> Self {
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
            | Operation::CopyRange { .. } => Self::Change,
            Operation::Lookup { .. }
            | Operation::GetAttr { .. }
            | Operation::ReadLink
            | Operation::GetXattr { .. }
            | Operation::ListXattr { .. }
            | Operation::StatFs => Self::Lookup,
            Operation::Read { .. } => Self::Read,
            Operation::Write { data, .. } => Self::Write { bytes: data.len() as u64 },
            Operation::ReadDirectory { .. } => Self::Listing,
            Operation::Fsync { .. } | Operation::FsyncDirectory { .. } | Operation::SyncFs => Self::Sync,
            _ => Self::Other,
        }
    }

    /// What it costs where the answer has so many bytes, besides what the store moves for it.
    fn ns(self, costs: &ServerCosts, answer_bytes: u64) -> u64 {
        match self {
            Self::Change => costs.change_ns.into(),
            Self::Lookup => costs.lookup_ns.into(),
            Self::Read => u64::from(costs.read_ns) + per_kib(costs.read_ns_per_kib, answer_bytes),
            Self::Write { bytes } => u64::from(costs.write_ns) + per_kib(costs.write_ns_per_kib, bytes),
            Self::Listing => per_kib(costs.listing_ns_per_kib, answer_bytes),
            Self::Sync => costs.sync_ns.into(),
            Self::Other => costs.other_ns.into(),
        }
    }

    /// Whether it goes beside other work, or one after the other.
    fn is_shared(self) -> bool {
        matches!(self, Self::Lookup | Self::Read | Self::Listing)
    }
}

fn per_kib(ns: u32, bytes: u64) -> u64 {
    u64::from(ns) * bytes / KIB
}

/// A server that spends what it computes.
pub struct Computing<'a> {
    handler: &'a dyn Handler,
    volume: &'a Volume,
    costs: ServerCosts,
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
        costs: ServerCosts,
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
        per_kib(self.costs.worked_ns_per_kib, moved.worked_bytes)
            + per_kib(self.costs.loaded_ns_per_kib, moved.loaded_bytes)
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
        let work = Work::of(&request.operation);
        let cost_ns = work.ns(&self.costs, body.len() as u64) + self.owed();
        let _turn = (!work.is_shared()).then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        (self.spend)(cost_ns);
        answer
    }
}

impl std::fmt::Debug for Computing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Computing").field("costs", &self.costs).finish_non_exhaustive()
    }
}
