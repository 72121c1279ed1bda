//! The device that the way to a loop device is measured with.

use nvme::{Command, Status};
use ssd::{Completion, Device, Identity, NullDevice, PowerCut, Submission, VolatileWrite};
use trace::Recorder;
use units::Nanos;

/// Takes one time for a flush and another for everything else; keeps nothing.
pub(crate) struct ProbeDevice {
    identity: Identity,
    latency: Nanos,
    flush_latency: Nanos,
    /// A handful at most: whoever measures waits for answers.
    outstanding: Vec<Completion>,
}

impl ProbeDevice {
    pub(crate) fn new(lba_bytes: u32, latency: Nanos, flush_latency: Nanos) -> Self {
        let blocks = u64::from((1 << 20) / lba_bytes.max(1));
        let null = NullDevice::new(blocks, lba_bytes, latency);
        let identity = Identity { keeps_contents: false, ..null.identity().clone() };
        Self { identity, latency, flush_latency, outstanding: Vec::new() }
    }
}

impl Device for ProbeDevice {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let latency =
            if matches!(submission.command, Command::Flush { .. }) { self.flush_latency } else { self.latency };
        let (queue, cid, at) = (submission.queue, submission.cid, now + latency);
        self.outstanding.push(Completion { queue, cid, status: Status::SUCCESS, result: 0, data: None, at });
    }

    fn next_event(&self) -> Option<Nanos> {
        self.outstanding.iter().map(|completion| completion.at).min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        completions.extend(self.outstanding.extract_if(.., |completion| completion.at <= now));
    }

    fn power_cut(&mut self, _now: Nanos) -> PowerCut {
        self.outstanding.clear();
        PowerCut::default()
    }

    fn survive(&mut self, _write: &VolatileWrite) {}

    fn set_recorder(&mut self, _recorder: Recorder) {}

    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}
