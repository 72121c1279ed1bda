//! Commands by class, out of a command log.

use std::collections::BTreeMap;

use nvme::{Command, WriteCommand, ZoneSendAction};
use ssd::command_log::CommandRecord;
use stats::Histogram;

use crate::results::CommandClass;

/// Most commands of one run that are kept for their latencies.
pub const COMMANDS_MAX: usize = 1 << 22;

/// The classes that commands fall into.
pub const CLASSES: [&str; 15] = [
    "read",
    "write",
    "write_fua",
    "flush",
    "write_zeroes",
    "write_zeroes_fua",
    "deallocate",
    "zone_append",
    "zone_append_fua",
    "zone_open",
    "zone_close",
    "zone_finish",
    "zone_reset",
    "zone_send",
    "zone_receive",
];

/// The class of a command: one of [`CLASSES`].
pub fn class(command: &Command) -> &'static str {
    match command {
        Command::Read { .. } => "read",
        Command::Write(WriteCommand { fua: false, .. }) => "write",
        Command::Write(WriteCommand { fua: true, .. }) => "write_fua",
        Command::Flush { .. } => "flush",
        Command::WriteZeroes { fua: false, .. } => "write_zeroes",
        Command::WriteZeroes { fua: true, .. } => "write_zeroes_fua",
        Command::Deallocate { .. } => "deallocate",
        Command::ZoneAppend { fua: false, .. } => "zone_append",
        Command::ZoneAppend { fua: true, .. } => "zone_append_fua",
        Command::ZoneManagementSend { action, .. } => match action {
            ZoneSendAction::Open => "zone_open",
            ZoneSendAction::Close => "zone_close",
            ZoneSendAction::Finish => "zone_finish",
            ZoneSendAction::Reset => "zone_reset",
            _ => "zone_send",
        },
        Command::ZoneManagementReceive { .. } => "zone_receive",
        Command::StreamManagement { .. } => "stream",
    }
}

/// Logical blocks of a command.
pub fn blocks(command: &Command) -> u64 {
    match command {
        Command::Read { range, .. }
        | Command::Write(WriteCommand { range, .. })
        | Command::WriteZeroes { range, .. } => range.count.into(),
        Command::Deallocate { ranges, .. } => ranges.iter().map(|range| u64::from(range.count)).sum(),
        Command::ZoneAppend { blocks, .. } => (*blocks).into(),
        Command::Flush { .. }
        | Command::ZoneManagementSend { .. }
        | Command::ZoneManagementReceive { .. }
        | Command::StreamManagement { .. } => 0,
    }
}

/// What completed, class by class, in the order of [`CLASSES`].
pub fn classes(records: &[CommandRecord]) -> Vec<CommandClass> {
    let mut found: BTreeMap<&str, (u64, Histogram)> = BTreeMap::new();
    for record in records {
        if let Some(took) = record.latency() {
            let (sum, histogram) = found.entry(class(&record.command)).or_default();
            *sum += blocks(&record.command);
            histogram.record(took);
        }
    }
    CLASSES
        .iter()
        .filter_map(|class| {
            let (blocks, histogram) = found.get(class)?;
            Some(CommandClass { class: (*class).to_owned(), blocks: *blocks, latency: histogram.into() })
        })
        .collect()
}

/// What a reader must know where not all commands were kept.
pub(crate) fn left_out_note(left_out: u64) -> Option<String> {
    (left_out > 0)
        .then(|| format!("the latencies of commands are those of the first {COMMANDS_MAX}; {left_out} came later"))
}

#[cfg(test)]
mod tests {
    use nvme::{CommandId, Lba, LbaRange, NamespaceId, QueueId, Status};
    use units::Nanos;

    use super::*;

    #[test]
    fn classes_tell_fua_apart_and_count_what_completed() {
        let record = |sequence, fua, completed_at| CommandRecord {
            sequence,
            submitted_at: Nanos(100),
            completed_at,
            queue: QueueId(1),
            cid: CommandId(0),
            command: Command::write(NamespaceId(1), LbaRange { start: Lba(0), count: 8 }, fua),
            status: Some(Status::SUCCESS),
        };
        let records = [record(0, false, Some(Nanos(300))), record(1, true, Some(Nanos(1100))), record(2, false, None)];
        let classes = classes(&records);
        let seen: Vec<_> =
            classes.iter().map(|class| (class.class.as_str(), class.latency.count, class.blocks)).collect();
        assert_eq!(seen, [("write", 1, 8), ("write_fua", 1, 8)]);
        assert!((classes[1].latency.mean_ns - 1000.0).abs() < 1e-9);
    }
}
