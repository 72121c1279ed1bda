//! What is beneath the device: whether there is room for what a request would store, and whether what the device
//! has stored is really there.

use nvme::{Command, Lba, LbaRange, NamespaceId, Status, WriteCommand};
use ssd::Store;
use units::Nanos;

use super::{Backend, Request};
use crate::troubles::Beneath;

/// How long nothing is tried again that the image has refused.
const RETRY_PAUSE: Nanos = Nanos::from_millis(100);

/// Requests refused before the device got them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// Writes, since the image does not take what was written before.
    pub(crate) by_image: u64,
    /// Writes beyond the bound on memory.
    pub(crate) by_memory: u64,
}

impl<T> Backend<T> {
    /// Bounds the memory for contents: a write that needs more of it is answered with `CAPACITY_EXCEEDED`.
    pub fn limit_memory(&mut self, bytes: Option<u64>) {
        self.limit_bytes = bytes;
    }

    /// The bound on memory for contents.
    pub(crate) fn memory_limit_bytes(&self) -> Option<u64> {
        self.limit_bytes
    }

    /// How things stand beneath the device.
    pub(crate) fn beneath(&self) -> Beneath {
        let store = self.device.store();
        Beneath {
            failures: store.map(Store::failures).unwrap_or_default(),
            refusals: self.refusals,
            is_settled: store.is_none_or(Store::is_settled),
            memory_bytes: self.memory_bytes(),
            limit_bytes: self.limit_bytes,
        }
    }

    /// Changes when something has gone wrong beneath the device since, or has ended: cheap to watch.
    pub(crate) fn trouble_count(&self) -> (u64, bool) {
        let store = self.device.store();
        let refusals = self.refusals.by_image + self.refusals.by_memory;
        (store.map_or(0, Store::failure_count) + refusals, store.is_none_or(Store::is_settled))
    }

    /// Memory taken for contents.
    pub fn memory_bytes(&self) -> u64 {
        self.device.store().map_or(0, Store::memory_bytes)
    }

    /// Commits what the device has moved to its media; without power that is all there is.
    pub(crate) fn finish_store(&mut self) -> Result<(), String> {
        self.device.store_mut().map_or(Ok(()), |store| store.finish().map_err(|error| error.to_string()))
    }

    /// Memory that a write may take for contents; none where memory has no bound.
    pub(super) fn absent_bytes_of(&self, nsid: NamespaceId, request: &Request) -> u64 {
        let (Some(_), Some(store)) = (self.limit_bytes, self.device.store()) else { return 0 };
        let lba_bytes = u64::from(self.identity.lba_bytes);
        let (nsid, start, bytes) = match request {
            Request::Write { offset, data, .. } => (nsid, offset / lba_bytes, data.len() as u64),
            Request::Command { command: Command::Write(WriteCommand { nsid, range, .. }), data: Some(data) } => {
                (*nsid, range.start.0, data.len() as u64)
            }
            // Where the blocks go is not known, but that nothing is there yet.
            Request::Command { command: Command::ZoneAppend { .. }, data: Some(data) } => return data.len() as u64,
            _ => return 0,
        };
        let range = LbaRange { start: Lba(start), count: (bytes / lba_bytes) as u32 };
        let blocks = self.namespace_bytes(nsid) / lba_bytes;
        // What does not fit the namespace is refused anyhow.
        match start.checked_add(u64::from(range.count)) {
            Some(end) if end <= blocks => store.absent_bytes(nsid, range),
            _ => 0,
        }
    }

    /// Why the data of a write cannot be kept.
    pub(super) fn no_room(&mut self, now: Nanos, request: &Request, absent_bytes: u64) -> Option<Status> {
        let writes = match request {
            Request::Write { .. } => true,
            Request::Command { command, .. } => matches!(command, Command::Write(_) | Command::ZoneAppend { .. }),
            _ => false,
        };
        let store = self.device.store_mut().filter(|_| writes)?;
        if !store.is_settled()
            && now >= self.stuck.1
            && let Err(error) = store.settle()
        {
            let status = if error.is_no_space() { Status::CAPACITY_EXCEEDED } else { Status::WRITE_FAULT };
            self.stuck = (status, now + RETRY_PAUSE);
        }
        if !store.is_settled() {
            self.refusals.by_image += 1;
            return Some(self.stuck.0);
        }
        let needed = store.memory_bytes() + self.absent_bytes + absent_bytes;
        if absent_bytes > 0 && self.limit_bytes.is_some_and(|limit| needed > limit) {
            self.refusals.by_memory += 1;
            return Some(Status::CAPACITY_EXCEEDED);
        }
        None
    }
}
