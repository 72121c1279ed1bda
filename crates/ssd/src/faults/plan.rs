//! The faults in force, and what they decide about each command.

use std::cell::RefCell;
use std::rc::Rc;

use nvme::{Command, Status, ZoneSendAction};
use serde::{Deserialize, Serialize};
use units::Nanos;

use super::fault::{Effect, FAILURE_LATENCY, Fault, FaultError, Operation, extents};
use super::media::BadBlocks;

/// Most faults of a plan.
const MAX_FAULTS: usize = 64;

/// The name of an injected fault; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultId(pub u32);

/// A fault and what it has done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FaultReport {
    /// Its name.
    pub id: FaultId,
    /// What was injected.
    pub fault: Fault,
    /// Commands that matched.
    pub matched: u64,
    /// Commands that were hit.
    pub hits: u64,
    /// Blocks that still cannot be read, of a media error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_blocks: Option<u64>,
}

/// The faults in force. Clones are handles on the same plan.
#[derive(Clone, Default)]
pub struct FaultPlan(Rc<RefCell<Scheduled>>);

#[derive(Default)]
struct Scheduled {
    entries: Vec<Entry>,
    last_id: u32,
    /// How often faults were taken back.
    clearings: u64,
}

struct Entry {
    id: FaultId,
    fault: Fault,
    bad: Option<BadBlocks>,
    matched: u64,
    hits: u64,
}

/// What becomes of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Verdict {
    pub ending: Option<Ending>,
    /// What it takes longer.
    pub added: Nanos,
    /// What it takes at least.
    pub at_least: Nanos,
    /// Whether durability is only claimed.
    pub lies: bool,
}

/// How a command ends that is not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// With this status after this time.
    Fails(Status, Nanos),
    /// Never, until that fault is cleared.
    Never(FaultId),
}

impl FaultPlan {
    /// Adds a fault, after those that are there.
    ///
    /// # Errors
    ///
    /// When it makes no sense, or the plan is full.
    pub fn inject(&self, fault: Fault) -> Result<FaultId, FaultError> {
        fault.check()?;
        let mut plan = self.0.borrow_mut();
        if plan.entries.len() >= MAX_FAULTS {
            return Err(FaultError::Full { limit: MAX_FAULTS });
        }
        let bad = match (&fault.effect, fault.lbas) {
            (Effect::Media { cleared_by_write, .. }, Some((first, blocks))) => {
                Some(BadBlocks::new(first, blocks, *cleared_by_write))
            }
            _ => None,
        };
        plan.last_id += 1;
        let id = FaultId(plan.last_id);
        plan.entries.push(Entry { id, fault, bad, matched: 0, hits: 0 });
        Ok(id)
    }

    /// Takes back one fault, or all; how many there were.
    pub fn clear(&self, id: Option<FaultId>) -> usize {
        let mut plan = self.0.borrow_mut();
        let before = plan.entries.len();
        plan.entries.retain(|entry| id.is_some_and(|id| id != entry.id));
        let gone = before - plan.entries.len();
        plan.clearings += u64::from(gone > 0);
        gone
    }

    /// The faults in force, in order of injection.
    pub fn list(&self) -> Vec<FaultReport> {
        let report = |entry: &Entry| FaultReport {
            id: entry.id,
            fault: entry.fault.clone(),
            matched: entry.matched,
            hits: entry.hits,
            bad_blocks: entry.bad.as_ref().map(BadBlocks::left),
        };
        self.0.borrow().entries.iter().map(report).collect()
    }

    /// Whether no fault is in force.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().entries.is_empty()
    }

    /// How often faults were taken back: where this stands still, so do they.
    pub(super) fn clearings(&self) -> u64 {
        self.0.borrow().clearings
    }

    pub(super) fn contains(&self, id: FaultId) -> bool {
        self.0.borrow().entries.iter().any(|entry| entry.id == id)
    }

    /// Decides about a command, in order of injection: every fault up to the one that
    /// ends the command counts it, and delays add up. `can_hold` says whether one more
    /// command that never completes is within bounds.
    pub(super) fn decide(&self, command: &Command, zone_blocks: u64, can_hold: bool) -> Verdict {
        let mut plan = self.0.borrow_mut();
        let mut verdict = Verdict::default();
        for entry in &mut plan.entries {
            if !entry.fault.matches(command, zone_blocks) {
                continue;
            }
            if entry.bad.as_ref().is_some_and(|bad| !extents(command, zone_blocks).any(|extent| bad.fails(extent))) {
                continue;
            }
            entry.matched += 1;
            if entry.fault.times.is_some_and(|times| entry.hits >= times) || !entry.fault.hits(entry.matched) {
                continue;
            }
            match entry.fault.effect {
                Effect::Error { status, after } => verdict.ending = Some(Ending::Fails(status, after)),
                Effect::Media { after, .. } => verdict.ending = Some(Ending::Fails(Status::UNRECOVERED_READ, after)),
                Effect::ReadOnly => {
                    verdict.ending = Some(Ending::Fails(Status::NAMESPACE_WRITE_PROTECTED, FAILURE_LATENCY));
                }
                Effect::Delay { added } => verdict.added = Nanos(verdict.added.0.saturating_add(added.0)),
                Effect::Latency { at_least } => verdict.at_least = verdict.at_least.max(at_least),
                Effect::Timeout if can_hold => verdict.ending = Some(Ending::Never(entry.id)),
                Effect::Timeout => continue,
                Effect::LostFlush => verdict.lies = true,
            }
            entry.hits += 1;
            if verdict.ending.is_some() {
                return verdict;
            }
        }
        plan.written(command, zone_blocks);
        verdict
    }
}

impl Scheduled {
    /// A command is executed: what it writes can be read again.
    fn written(&mut self, command: &Command, zone_blocks: u64) {
        let writes = match command {
            Command::ZoneManagementSend { action, .. } => *action == ZoneSendAction::Reset,
            // The place of an append was reset before.
            Command::ZoneAppend { .. } => false,
            _ => Operation::of(command).changes(),
        };
        if !writes {
            return;
        }
        let everything = matches!(command, Command::ZoneManagementSend { all: true, .. });
        for entry in &mut self.entries {
            let Some(bad) = &mut entry.bad else { continue };
            if entry.fault.nsid.is_some_and(|nsid| nsid != command.nsid().0) {
                continue;
            }
            if everything {
                bad.written((0, u64::MAX));
            }
            extents(command, zone_blocks).for_each(|extent| bad.written(extent));
        }
    }
}
