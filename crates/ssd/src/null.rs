//! A device that takes a fixed time: null_blk's twin, for tests and as a limit.

use std::collections::{BTreeMap, VecDeque};

use nvme::{Command, Lba, LbaRange, Status};
use trace::Recorder;
use units::Nanos;

use crate::{Completion, Device, Identity, Payload, PowerCut, Submission, VolatileWrite};

/// Completes every command after the same latency, in order of submission.
/// Keeps contents in memory, sparse, block by block.
pub struct NullDevice {
    identity: Identity,
    latency: Nanos,
    outstanding: VecDeque<Completion>,
    blocks: BTreeMap<u64, Box<[u8]>>,
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
            keeps_contents: true,
        };
        Self { identity, latency, outstanding: VecDeque::new(), blocks: BTreeMap::new(), completed: 0 }
    }

    fn in_range(&self, range: LbaRange) -> bool {
        range.end().0 <= self.identity.namespace_blocks[0]
    }

    fn clear(&mut self, range: LbaRange) {
        for lba in range.start.0..range.end().0 {
            self.blocks.remove(&lba);
        }
    }

    fn store(&mut self, start: Lba, data: &[u8]) {
        for (lba, block) in (start.0..).zip(data.chunks(self.identity.lba_bytes as usize)) {
            self.blocks.insert(lba, block.into());
        }
    }

    fn load(&self, range: LbaRange) -> Payload {
        let lba_bytes = self.identity.lba_bytes as usize;
        let mut data = vec![0; range.count as usize * lba_bytes];
        for (lba, block) in (range.start.0..range.end().0).zip(data.chunks_mut(lba_bytes)) {
            if let Some(stored) = self.blocks.get(&lba) {
                block.copy_from_slice(stored);
            }
        }
        Some(data.into_boxed_slice())
    }

    fn execute(&mut self, command: &Command, data: Payload) -> (Status, Payload) {
        match command {
            Command::Flush { .. } => (Status::SUCCESS, None),
            Command::Read { range, .. } if self.in_range(*range) => (Status::SUCCESS, self.load(*range)),
            Command::Write { range, .. } if self.in_range(*range) => {
                if let Some(data) = data {
                    debug_assert_eq!(data.len(), range.count as usize * self.identity.lba_bytes as usize);
                    self.store(range.start, &data);
                }
                (Status::SUCCESS, None)
            }
            Command::WriteZeroes { range, .. } if self.in_range(*range) => {
                self.clear(*range);
                (Status::SUCCESS, None)
            }
            Command::Deallocate { ranges, .. } if ranges.iter().all(|range| self.in_range(*range)) => {
                ranges.iter().for_each(|range| self.clear(*range));
                (Status::SUCCESS, None)
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
        let (status, data) = self.execute(&submission.command, submission.data);
        let (queue, cid) = (submission.queue, submission.cid);
        self.outstanding.push_back(Completion { queue, cid, status, data, at: now + self.latency });
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

    fn counters(&self) -> Vec<(String, u64)> {
        vec![("commands".to_owned(), self.completed)]
    }
}
