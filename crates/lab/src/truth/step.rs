//! A command without what the two hosts may name differently.

use std::fmt;

use ssd::command_log::CommandRecord;
use units::Nanos;

use crate::commands::{blocks, class};
use nvme::{Command, WriteCommand};

/// A command as it is compared: opcode, place, length and flags.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Its class, with FUA told apart.
    pub class: &'static str,
    /// (first block, blocks) of each range; none for a flush.
    pub ranges: Vec<(u64, u64)>,
    /// DEAC of a Write Zeroes, Select All of a Zone Management Send.
    pub flag: bool,
}

impl Step {
    /// Of a command.
    pub fn of(command: &Command) -> Self {
        let (ranges, flag) = match command {
            Command::Flush { .. } | Command::StreamManagement { .. } => (Vec::new(), false),
            Command::Read { range, .. } | Command::Write(WriteCommand { range, .. }) => {
                (vec![(range.start.0, u64::from(range.count))], false)
            }
            Command::WriteZeroes { range, deallocate, .. } => {
                (vec![(range.start.0, u64::from(range.count))], *deallocate)
            }
            Command::Deallocate { ranges, .. } => {
                (ranges.iter().map(|range| (range.start.0, u64::from(range.count))).collect(), false)
            }
            Command::ZoneAppend { zone, blocks, .. } => (vec![(zone.0, u64::from(*blocks))], false),
            Command::ZoneManagementSend { start, all, .. } => (vec![(start.0, 0)], *all),
            Command::ZoneManagementReceive { start, .. } => (vec![(start.0, 0)], false),
        };
        Self { class: class(command), ranges, flag }
    }

    /// The same without its place, for patterns whose offsets are drawn.
    pub fn shape(&self) -> Self {
        let ranges = self.ranges.iter().map(|(_, blocks)| (0, *blocks)).collect();
        Self { class: self.class, ranges, flag: self.flag }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class)?;
        for (start, blocks) in self.ranges.iter().take(3) {
            write!(f, " {start}+{blocks}")?;
        }
        if self.ranges.len() > 3 {
            write!(f, " … {} ranges", self.ranges.len())?;
        }
        if self.flag { f.write_str(" flag") } else { Ok(()) }
    }
}

/// What stood between a command that orders others, a flush or a FUA write, and the
/// commands around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its class.
    pub class: &'static str,
    /// Commands in the device when it was submitted: what it did not wait for.
    pub in_flight: usize,
    /// Commands submitted while it was in the device: what did not wait for it.
    pub overtaking: usize,
}

/// Whether a command is an order constraint by itself.
fn orders(command: &Command) -> bool {
    matches!(
        command,
        Command::Flush { .. } | Command::Write(WriteCommand { fua: true, .. }) | Command::ZoneManagementSend { .. }
    )
}

/// The order constraints of a stream, in the order of submission.
pub fn constraints(records: &[CommandRecord]) -> Vec<Order> {
    let in_device = |record: &CommandRecord, at: Nanos| {
        record.submitted_at <= at && record.completed_at.is_none_or(|done| done > at)
    };
    let mut found = Vec::new();
    for (index, record) in records.iter().enumerate().filter(|(_, record)| orders(&record.command)) {
        // Records are sorted by submission; queues are bounded, so only near ones overlap.
        let before = records[..index].iter().rev().take(NEAR);
        let in_flight = before.filter(|other| in_device(other, record.submitted_at)).count();
        let after = records.iter().skip(index + 1).take(NEAR);
        let overtaking = after.filter(|other| record.completed_at.is_none_or(|done| other.submitted_at < done)).count();
        found.push(Order { class: class(&record.command), in_flight, overtaking });
    }
    found
}

/// Commands before and after one that may overlap it.
const NEAR: usize = 4096;

/// The most commands that were in the device at once.
pub fn peak_in_flight(records: &[CommandRecord]) -> usize {
    let mut events: Vec<(Nanos, i64)> = Vec::with_capacity(records.len() * 2);
    for record in records {
        events.push((record.submitted_at, 1));
        events.extend(record.completed_at.map(|at| (at, -1)));
    }
    // At one time the ends first: what completes makes room for what is submitted.
    events.sort_unstable();
    let mut now = 0;
    let mut peak = 0;
    for (_, change) in events {
        now += change;
        peak = peak.max(now);
    }
    usize::try_from(peak).unwrap_or(0)
}

/// Logical blocks of all commands.
pub fn blocks_in_all(records: &[CommandRecord]) -> u64 {
    records.iter().map(|record| blocks(&record.command)).sum()
}
