//! Runs of ext4 whose commands at the device are looked at.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use linux::{FileSystem, FrontEnd, Kernel, Linux, Outcome, Streams};
use nvme::{Closing, Command, WriteCommand, WriteOrder};
use ssd::command_log::{self, CommandRecord};

use crate::linux_rig;

pub const DEVICE: &str = "samsung-980pro-1tb";

/// ext4 over NVMe/TCP, with streams if they are named.
pub fn ext4(ordering: &str) -> Linux {
    let mut run = linux_rig::on(DEVICE);
    run.file_system = FileSystem::Ext4;
    run.front_end = FrontEnd::NvmeTcp;
    run.file_system_bytes = Some(256 << 20);
    run.ordering = (!ordering.is_empty()).then(|| ordering.parse::<Streams>().unwrap());
    run
}

/// The same with a device that can be made to fail from inside, by `control`.
pub fn controlled(ordering: &str, script: &str) -> Linux {
    let mut run = ext4(ordering);
    run.serve_arguments = vec!["--control".into(), "unix:/tmp/control".into()];
    let plumb = linux_rig::PLUMB;
    run.script(&format!("control() {{ {plumb} control unix:/tmp/control \"$@\" > /dev/null; }}\n{script}"))
}

/// What came of it, and the commands that the device got.
pub fn logged(run: &Linux, kernel: &Kernel, folder: &Path) -> (Outcome, Vec<CommandRecord>) {
    let path = folder.join("commands.tsv");
    let mut run = run.clone();
    run.output = Some(folder.to_owned());
    run.serve_arguments.extend(["--command-log".into(), path.clone().into()]);
    let outcome = run.run(kernel).unwrap();
    assert!(outcome.ended.success(), "{}\n{}", outcome.text(), String::from_utf8_lossy(&outcome.stderr));
    let file = BufReader::new(std::fs::File::open(&path).unwrap());
    (outcome, command_log::read("commands.tsv", file, 1 << 20).unwrap())
}

/// Those of the command itself, and of writing back what it left: metadata in its place, and one flush.
pub fn during(outcome: &Outcome, mut records: Vec<CommandRecord>) -> Vec<CommandRecord> {
    records.retain(|record| (outcome.began..=outcome.done).contains(&record.submitted_at));
    records.sort_by_key(|record| record.sequence);
    records
}

pub fn write(record: &CommandRecord) -> Option<&WriteCommand> {
    match &record.command {
        Command::Write(write) => Some(write),
        _ => None,
    }
}

pub fn ordered(records: &[CommandRecord]) -> Vec<&WriteCommand> {
    records.iter().filter_map(write).filter(|write| write.order.is_ordered()).collect()
}

pub fn flushes(records: &[CommandRecord]) -> usize {
    records.iter().filter(|record| matches!(record.command, Command::Flush { .. })).count()
}

pub fn forced(records: &[CommandRecord]) -> usize {
    records.iter().filter_map(write).filter(|write| write.fua).count()
}

/// The streams of a write with their epochs, and the count with which it closes each.
pub fn memberships(order: &WriteOrder) -> impl Iterator<Item = (u16, u16, Option<u32>)> + '_ {
    let counts = match order.closing {
        Closing::Counted { first_blocks, second_blocks } => [first_blocks, second_blocks],
        Closing::None | Closing::ByArrival => [0, 0],
    };
    let of = [order.first, order.second].into_iter().zip(counts);
    of.filter(|(at, _)| at.stream.0 != 0).map(|(at, count)| (at.stream.0, at.epoch.0, (count > 0).then_some(count)))
}

/// Each epoch that is closed by count has exactly so many blocks, and is closed once.
pub fn assert_counts(records: &[CommandRecord]) {
    let mut blocks: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    let mut counts: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    for write in ordered(records) {
        for (stream, epoch, count) in memberships(&write.order) {
            *blocks.entry((stream, epoch)).or_default() += u64::from(write.range.count);
            if let Some(count) = count {
                assert_eq!(counts.insert((stream, epoch), count.into()), None, "closed twice: {stream} {epoch}");
            }
        }
    }
    for (at, count) in counts {
        assert_eq!(blocks[&at], count, "{at:?}");
    }
}

/// The commands as the device got them, one a line.
pub fn table(records: &[CommandRecord]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}
