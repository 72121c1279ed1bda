//! A device with a log at its boundary.

use std::collections::BTreeMap;

use nvme::{ChangedZoneList, CommandId, NamespaceId, QueueId};
use trace::Recorder;
use units::Nanos;

use super::{CommandLog, CommandRecord};
use crate::zoned::ControllerEvent;
use crate::{Completion, Device, Identity, LiveState, PowerCut, Store, Submission, VolatileWrite, ZoneStatus};

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

impl Device for LoggedDevice {
    fn identity(&self) -> &Identity {
        self.device.identity()
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

    fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }

    fn advance_unseen(&mut self, limit: Nanos) -> Option<Nanos> {
        self.device.advance_unseen(limit)
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

    fn zones(&self, nsid: NamespaceId) -> Vec<ZoneStatus> {
        self.device.zones(nsid)
    }

    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.lose_outstanding();
        self.device.power_cut(now)
    }

    fn survive(&mut self, write: &VolatileWrite) {
        self.device.survive(write);
    }

    fn set_recorder(&mut self, recorder: Recorder) {
        self.device.set_recorder(recorder);
    }

    fn store(&self) -> Option<&Store> {
        self.device.store()
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        self.device.store_mut()
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.device.counters()
    }

    fn zone_event(&mut self, now: Nanos, nsid: NamespaceId, zone: u32, event: ControllerEvent) -> bool {
        self.device.zone_event(now, nsid, zone, event)
    }

    fn has_zone_events(&self, nsid: NamespaceId) -> bool {
        self.device.has_zone_events(nsid)
    }

    fn changed_zones(&mut self, nsid: NamespaceId, retain: bool) -> ChangedZoneList {
        self.device.changed_zones(nsid, retain)
    }

    fn live_state(&self) -> LiveState {
        self.device.live_state()
    }
}

impl Drop for LoggedDevice {
    fn drop(&mut self) {
        self.lose_outstanding();
    }
}
