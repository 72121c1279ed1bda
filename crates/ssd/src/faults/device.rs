//! The wrapper: commands pass a plan of faults on their way in.

use std::collections::BTreeMap;

use nvme::{Command, CommandId, NamespaceId, QueueId, Status, WriteCommand};
use units::Nanos;

use super::plan::{Ending, FaultId, FaultPlan};
use crate::wrapper::Wrapper;
use crate::zoned::ControllerEvent;
use crate::{Completion, Device, LiveState, PowerCut, Submission};

/// Most commands that never complete at a time; what a fault hits beyond is let pass.
const MAX_HELD: usize = 4096;

/// How long a flush takes that does nothing.
const NO_FLUSH_LATENCY: Nanos = Nanos::from_micros(10);

/// A device whose commands fail as a [`FaultPlan`] says.
pub struct FaultyDevice {
    device: Box<dyn Device>,
    plan: FaultPlan,
    zone_blocks: u64,
    now: Nanos,
    /// Completions that wait for their time, in order of time and then of arrival.
    waiting: BTreeMap<(Nanos, u64), Completion>,
    next_waiting: u64,
    /// Commands in the device whose completions are late.
    late: BTreeMap<(QueueId, CommandId), Late>,
    /// Commands that never complete.
    held: Vec<Held>,
    /// The plan's clearings when `held` was last looked through.
    clearings: u64,
    /// Completions of the device, on their way through.
    passing: Vec<Completion>,
}

#[derive(Clone, Copy)]
struct Late {
    submitted_at: Nanos,
    added: Nanos,
    at_least: Nanos,
}

struct Held {
    queue: QueueId,
    cid: CommandId,
    fault: FaultId,
}

impl FaultyDevice {
    /// Wraps `device`; `plan` is usually kept as well, to inject and clear faults.
    pub fn new(device: Box<dyn Device>, plan: FaultPlan) -> Self {
        let zone_blocks = device.identity().zoned.as_ref().map_or(0, |zoned| zoned.zone_blocks);
        Self {
            device,
            plan,
            zone_blocks,
            now: Nanos::ZERO,
            waiting: BTreeMap::new(),
            next_waiting: 0,
            late: BTreeMap::new(),
            held: Vec::new(),
            clearings: 0,
            passing: Vec::new(),
        }
    }

    fn complete_at(&mut self, at: Nanos, completion: Completion) {
        self.next_waiting += 1;
        self.waiting.insert((at, self.next_waiting), Completion { at, ..completion });
    }

    /// Completes a command that the device does not see.
    fn end(&mut self, at: Nanos, queue: QueueId, cid: CommandId, status: Status) {
        self.complete_at(at, Completion { queue, cid, status, result: 0, data: None, at });
    }

    fn must_release(&self) -> bool {
        !self.held.is_empty() && self.clearings != self.plan.clearings()
    }

    /// Ends the commands that were held by faults that are gone.
    fn release(&mut self, now: Nanos) {
        self.clearings = self.plan.clearings();
        let plan = self.plan.clone();
        let (held, gone): (Vec<_>, Vec<_>) = self.held.drain(..).partition(|held| plan.contains(held.fault));
        self.held = held;
        for Held { queue, cid, .. } in gone {
            self.end(now, queue, cid, Status::ABORT_REQUESTED);
        }
    }
}

/// The same command without the promise of FUA.
fn without_fua(mut command: Command) -> Command {
    if let Command::Write(WriteCommand { fua, .. })
    | Command::WriteZeroes { fua, .. }
    | Command::ZoneAppend { fua, .. } = &mut command
    {
        *fua = false;
    }
    command
}

impl Wrapper for FaultyDevice {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    fn submit(&mut self, now: Nanos, mut submission: Submission) {
        self.now = self.now.max(now);
        if self.plan.is_empty() {
            return self.device.submit(now, submission);
        }
        let verdict = self.plan.decide(&submission.command, self.zone_blocks, self.held.len() < MAX_HELD);
        let (queue, cid) = (submission.queue, submission.cid);
        let late = Late { submitted_at: now, added: verdict.added, at_least: verdict.at_least };
        if verdict.ending.is_some()
            && let Command::Write(WriteCommand { order, .. }) = &submission.command
        {
            self.device.break_streams(now, order);
        }
        match verdict.ending {
            Some(Ending::Fails(status, after)) => return self.end(late.ending(now + after), queue, cid, status),
            Some(Ending::Never(fault)) => return self.held.push(Held { queue, cid, fault }),
            None => {}
        }
        if verdict.lies {
            if matches!(submission.command, Command::Flush { .. }) {
                return self.end(late.ending(now + NO_FLUSH_LATENCY), queue, cid, Status::SUCCESS);
            }
            submission.command = without_fua(submission.command);
        }
        if late.added > Nanos::ZERO || late.at_least > Nanos::ZERO {
            self.late.insert((queue, cid), late);
        }
        self.device.submit(now, submission);
    }

    fn next_event(&self) -> Option<Nanos> {
        if self.must_release() {
            return Some(self.now);
        }
        let waiting = self.waiting.first_key_value().map(|((at, _), _)| *at);
        self.device.next_event().into_iter().chain(waiting).min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.now = self.now.max(now);
        if self.must_release() {
            self.release(now);
        }
        if self.waiting.is_empty() && self.late.is_empty() {
            return self.device.advance(now, completions);
        }
        let mut passing = std::mem::take(&mut self.passing);
        self.device.advance(now, &mut passing);
        for completion in passing.drain(..) {
            let late = self.late.remove(&(completion.queue, completion.cid));
            let at = late.map_or(completion.at, |late| late.ending(completion.at));
            self.complete_at(at, completion);
        }
        self.passing = passing;
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            completions.push(first.remove());
        }
    }

    fn zone_event(&mut self, now: Nanos, nsid: NamespaceId, zone: u32, event: ControllerEvent) -> bool {
        self.now = self.now.max(now);
        self.device.zone_event(now, nsid, zone, event)
    }

    fn live_state(&self) -> LiveState {
        let mut state = self.device.live_state();
        state.outstanding_commands += (self.waiting.len() + self.held.len()) as u64;
        state
    }

    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.now = self.now.max(now);
        self.waiting.clear();
        self.late.clear();
        self.held.clear();
        self.device.power_cut(now)
    }

    fn advance_unseen(&mut self, _limit: Nanos) -> Option<Nanos> {
        None
    }
}

impl Late {
    /// When a command ends that would end at `at` by itself.
    fn ending(self, at: Nanos) -> Nanos {
        let delayed = Nanos(at.0.saturating_add(self.added.0));
        delayed.max(Nanos(self.submitted_at.0.saturating_add(self.at_least.0)))
    }
}
