//! A device that takes a fixed time: null_blk's twin, for tests and as a limit.

use std::collections::VecDeque;

use nvme::{Command, LbaRange, NamespaceId, Status, WriteCommand};
use trace::Recorder;
use units::Nanos;

use crate::{Completion, Contents, Device, Identity, LiveState, Payload, PowerCut, Store, Submission, VolatileWrite};

/// Completes every command after the same latency, in order of submission.
/// Keeps contents in memory.
pub struct NullDevice {
    identity: Identity,
    latency: Nanos,
    outstanding: VecDeque<Completion>,
    store: Store,
    completed: u64,
}

impl NullDevice {
    /// A device of `blocks` logical blocks of `lba_bytes`.
    pub fn new(blocks: u64, lba_bytes: u32, latency: Nanos) -> Self {
        let identity = Identity {
            model: "null".to_owned(),
            lba_bytes,
            namespace_blocks: vec![blocks],
            queues: 64,
            queue_depth: 1023,
            max_transfer_bytes: 1 << 20,
            volatile_write_cache: false,
            supports_fua: true,
            supports_deallocate: true,
            rotational: false,
            ordering: None,
            keeps_contents: true,
            zoned: None,
        };
        let store = match Store::new(&Contents::Memory, lba_bytes, &identity.namespace_blocks, false) {
            Ok(store) => store,
            Err(_) => unreachable!("a store in memory opens no file"),
        };
        Self { identity, latency, outstanding: VecDeque::new(), store, completed: 0 }
    }

    fn in_range(&self, range: LbaRange) -> bool {
        range.end().0 <= self.identity.namespace_blocks[0]
    }

    /// Zeroes a range, or stores `data` there.
    fn put(&mut self, nsid: NamespaceId, range: LbaRange, data: Payload) -> Status {
        match self.store.write_durable(nsid, range, data) {
            Ok(_) => Status::SUCCESS,
            Err(_) => Status::WRITE_FAULT,
        }
    }

    fn execute(&mut self, command: Command, data: Payload) -> (Status, Payload) {
        match command {
            Command::Flush { .. } => (Status::SUCCESS, None),
            Command::StreamManagement { .. } => (Status::INVALID_OPCODE, None),
            Command::Write(WriteCommand { order, .. }) if order.is_barrier() => (Status::INVALID_FIELD, None),
            command if command.nsid() != NamespaceId::FIRST => (Status::INVALID_NAMESPACE, None),
            Command::Read { nsid, range, .. } if self.in_range(range) => match self.store.read(nsid, range) {
                Ok(data) => (Status::SUCCESS, data),
                Err(_) => (Status::UNRECOVERED_READ, None),
            },
            // A write without bytes belongs to a timing-only run.
            Command::Write(WriteCommand { range, .. }) if self.in_range(range) && data.is_none() => {
                (Status::SUCCESS, None)
            }
            Command::Write(WriteCommand { nsid, range, .. }) if self.in_range(range) => {
                (self.put(nsid, range, data), None)
            }
            Command::WriteZeroes { nsid, range, .. } if self.in_range(range) => (self.put(nsid, range, None), None),
            Command::Deallocate { nsid, ranges } if ranges.iter().all(|range| self.in_range(*range)) => {
                let failed =
                    ranges.iter().map(|range| self.put(nsid, *range, None)).find(|status| !status.is_success());
                (failed.unwrap_or(Status::SUCCESS), None)
            }
            _ => (Status::LBA_OUT_OF_RANGE, None),
        }
    }
}

impl Device for NullDevice {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let (status, data) = self.execute(submission.command, submission.data);
        let (queue, cid) = (submission.queue, submission.cid);
        self.outstanding.push_back(Completion { queue, cid, status, result: 0, data, at: now + self.latency });
    }

    fn next_event(&self) -> Option<Nanos> {
        self.outstanding.front().map(|completion| completion.at)
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while self.outstanding.front().is_some_and(|completion| completion.at <= now) {
            completions.extend(self.outstanding.pop_front());
            self.completed += 1;
        }
    }

    fn power_cut(&mut self, _now: Nanos) -> PowerCut {
        self.outstanding.clear();
        PowerCut::default()
    }

    fn survive(&mut self, _write: &VolatileWrite) {}

    fn set_recorder(&mut self, _recorder: Recorder) {}

    fn live_state(&self) -> LiveState {
        LiveState { outstanding_commands: self.outstanding.len() as u64, ..LiveState::default() }
    }

    fn store(&self) -> Option<&Store> {
        Some(&self.store)
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        Some(&mut self.store)
    }

    fn counters(&self) -> Vec<(String, u64)> {
        vec![("commands".to_owned(), self.completed)]
    }
}
