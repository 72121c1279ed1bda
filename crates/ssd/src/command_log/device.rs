//! A device with a log at its boundary.

use std::collections::BTreeMap;

use nvme::{CommandId, QueueId};
use units::Nanos;

use super::{CommandLog, CommandRecord};
use crate::wrapper::Wrapper;
use crate::{Completion, Device, PowerCut, Submission};

/// Passes everything on, and logs each command when it completes.
pub(super) struct LoggedDevice {
    device: Box<dyn Device>,
    log: CommandLog,
    /// Commands in the device: bounded by its queues.
    outstanding: BTreeMap<(QueueId, CommandId), CommandRecord>,
    next_sequence: u64,
}

impl LoggedDevice {
    pub(super) fn new(device: Box<dyn Device>, log: CommandLog) -> Self {
        Self { device, log, outstanding: BTreeMap::new(), next_sequence: 0 }
    }

    /// Logs what is in the device as never completed.
    fn lose_outstanding(&mut self) {
        for record in std::mem::take(&mut self.outstanding).into_values() {
            self.log.add(record);
        }
    }
}

impl Wrapper for LoggedDevice {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let record = CommandRecord {
            sequence: self.next_sequence,
            submitted_at: now,
            completed_at: None,
            queue: submission.queue,
            cid: submission.cid,
            command: submission.command.clone(),
            status: None,
        };
        self.next_sequence += 1;
        let reused = self.outstanding.insert((submission.queue, submission.cid), record);
        if let Some(lost) = reused {
            self.log.add(lost);
        }
        self.device.submit(now, submission);
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.device.advance(now, completions);
        for done in completions.iter().skip(before) {
            if let Some(mut record) = self.outstanding.remove(&(done.queue, done.cid)) {
                record.completed_at = Some(done.at);
                record.status = Some(done.status);
                self.log.add(record);
            }
        }
    }

    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.lose_outstanding();
        self.device.power_cut(now)
    }
}

impl Drop for LoggedDevice {
    fn drop(&mut self) {
        self.lose_outstanding();
    }
}
