//! What the NVMe driver sent beside what the device got: the same commands in each queue, or somebody changed them on the way.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use nvme::{Close, Closing, Command, CommandId, NamespaceId, QueueId};
use serde::Serialize;
use ssd::command_log::{self, CommandRecord};
use units::Nanos;

use super::{CLOCK_STEP, driver};
use crate::error::LinuxError;

/// The most commands of a device's log that are read.
const COMMANDS_MAX: usize = 1 << 22;

/// A write or a flush, as one side has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submitted {
    /// When the driver set it up, or the device was given it.
    pub at: Nanos,
    /// Submission queue.
    pub queue: QueueId,
    /// Identifier, of which the server gives its own.
    pub cid: CommandId,
    /// The command.
    pub command: Command,
}

/// The same place in a queue on both sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// What the driver sent.
    pub kernel: Option<Submitted>,
    /// What the device got.
    pub device: Option<Submitted>,
}

/// Writes and flushes of a run, as driver and device have them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commands {
    /// In the driver's order; what the device alone has is at the end.
    pub rows: Vec<Row>,
    /// Events of the kernel that had no room, so that rows are missing.
    pub lost_events: u64,
}

/// A line of the table.
#[derive(Serialize)]
struct Line {
    seen_by: &'static str,
    at_ns: u64,
    queue: u16,
    cid: u16,
    command: &'static str,
    slba: Option<u64>,
    blocks: Option<u32>,
    fua: bool,
    stream_1: u16,
    epoch_1: Option<u16>,
    stream_2: u16,
    epoch_2: Option<u16>,
    barrier: bool,
    count_1: Option<u32>,
    count_2: Option<u32>,
}

const HEADER: &str = "seen_by\tat_ns\tqueue\tcid\tcommand\tslba\tblocks\tfua\tstream_1\tepoch_1\tstream_2\tepoch_2\tbarrier\
    \tcount_1\tcount_2";

impl Row {
    /// Whether both sides have it, and have the same.
    pub fn agrees(&self) -> bool {
        match (&self.kernel, &self.device) {
            (Some(kernel), Some(device)) => (kernel.queue, &kernel.command) == (device.queue, &device.command),
            _ => false,
        }
    }

    /// One line where both sides have the same, else each side's.
    fn lines(&self) -> impl Iterator<Item = Line> {
        let sides = if self.agrees() {
            [self.kernel.as_ref().map(|side| ("both", side)), None]
        } else {
            [self.kernel.as_ref().map(|side| ("kernel", side)), self.device.as_ref().map(|side| ("device", side))]
        };
        sides.into_iter().flatten().map(|(seen_by, side)| Line::of(seen_by, side))
    }
}

impl Commands {
    /// Reads what the guest left: the kernel's events and the device's log.
    pub(crate) fn read(kernel: &Path, device: &Path) -> Result<Self, LinuxError> {
        let unreadable = |path: &Path| LinuxError::system(format!("cannot read the trace {}", path.display()));
        let open = |path: &Path| File::open(path).map(BufReader::new).map_err(unreadable(path));
        let (sent, buffer) = driver::read(open(kernel)?).map_err(unreadable(kernel))?;
        let name = device.display().to_string();
        let got = command_log::read(&name, open(device)?, COMMANDS_MAX)
            .map_err(|error| LinuxError::Invalid { message: error.to_string() })?;
        // The device serves before the recording begins. What was under way then had been sent before.
        let got = got.into_iter().filter(|record| record.submitted_at + CLOCK_STEP >= buffer.began);
        Ok(Self { lost_events: buffer.lost, ..Self::beside(sent, got.filter_map(submitted)) })
    }

    /// Sets the two sides beside each other, each in the order of its queues.
    pub fn beside(kernel: impl IntoIterator<Item = Submitted>, device: impl IntoIterator<Item = Submitted>) -> Self {
        let mut got: BTreeMap<QueueId, VecDeque<Submitted>> = BTreeMap::new();
        for command in device {
            got.entry(command.queue).or_default().push_back(command);
        }
        let mut rows: Vec<Row> = Vec::new();
        for sent in kernel {
            let device = got.get_mut(&sent.queue).and_then(VecDeque::pop_front);
            rows.push(Row { kernel: Some(sent), device });
        }
        let rest = got.into_values().flatten();
        rows.extend(rest.map(|command| Row { kernel: None, device: Some(command) }));
        Self { rows, lost_events: 0 }
    }

    /// The first row on which the sides disagree.
    pub fn disagreement(&self) -> Option<&Row> {
        self.rows.iter().find(|row| !row.agrees())
    }

    /// Writes the table, separated by tabs, or JSON where `path` ends in `.json`.
    ///
    /// # Errors
    /// What the file system reports.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = io::BufWriter::new(File::create(path)?);
        let lines = self.rows.iter().flat_map(Row::lines);
        if path.extension().is_some_and(|extension| extension == "json") {
            let (agree, lost_events) = (self.disagreement().is_none(), self.lost_events);
            let rows: Vec<Line> = lines.collect();
            let report = serde_json::json!({ "agree": agree, "lost_events": lost_events, "rows": rows });
            writeln!(out, "{report:#}")?;
        } else {
            writeln!(out, "{HEADER}")?;
            for line in lines {
                writeln!(out, "{}", line.text())?;
            }
        }
        out.flush()
    }
}

/// A write or a flush of a log. The server's own flush of everything, which ends the log, is none of the kernel's.
fn submitted(record: CommandRecord) -> Option<Submitted> {
    let CommandRecord { submitted_at: at, queue, cid, command, .. } = record;
    let is_of_kernel = match &command {
        Command::Write(_) => true,
        Command::Flush { nsid } => *nsid != NamespaceId::ALL,
        _ => false,
    };
    is_of_kernel.then_some(Submitted { at, queue, cid, command })
}

impl Line {
    fn of(seen_by: &'static str, side: &Submitted) -> Self {
        let mut line = Self {
            seen_by,
            at_ns: side.at.0,
            queue: side.queue.0,
            cid: side.cid.0,
            command: "flush",
            slba: None,
            blocks: None,
            fua: false,
            stream_1: 0,
            epoch_1: None,
            stream_2: 0,
            epoch_2: None,
            barrier: false,
            count_1: None,
            count_2: None,
        };
        if let Command::Write(write) = &side.command {
            line.command = "write";
            (line.slba, line.blocks, line.fua) = (Some(write.range.start.0), Some(write.range.count), write.fua);
            line.barrier = write.order.closing != Closing::None;
            let mut places = write.order.places().map(|(place, close)| {
                let count = close.and_then(|close| match close {
                    Close::ByArrival => None,
                    Close::Counted(blocks) => Some(blocks),
                });
                (place.stream.0, Some(place.epoch.0), count)
            });
            (line.stream_1, line.epoch_1, line.count_1) = places.next().unwrap_or_default();
            (line.stream_2, line.epoch_2, line.count_2) = places.next().unwrap_or_default();
        }
        line
    }

    /// The columns of [`HEADER`].
    fn text(&self) -> String {
        let or_dash = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let mut columns = vec![self.seen_by.to_owned()];
        columns.extend([self.at_ns, self.queue.into(), self.cid.into()].map(|value| value.to_string()));
        columns.push(self.command.to_owned());
        columns.extend([self.slba, self.blocks.map(u64::from), Some(self.fua.into())].map(or_dash));
        let places = [(self.stream_1, self.epoch_1), (self.stream_2, self.epoch_2)];
        columns.extend(places.into_iter().flat_map(|(stream, epoch)| {
            let stream = epoch.is_some().then_some(u64::from(stream));
            [or_dash(stream), or_dash(epoch.map(u64::from))]
        }));
        let counts = [self.count_1, self.count_2].map(|count| count.map(u64::from));
        columns.push(u8::from(self.barrier).to_string());
        columns.extend(counts.map(or_dash));
        columns.join("\t")
    }
}

#[cfg(test)]
mod tests {
    use nvme::{Epoch, Lba, LbaRange, Stream, StreamEpoch, WriteCommand, WriteOrder};

    use super::*;

    fn write(queue: u16, cid: u16, epoch: u16) -> Submitted {
        let place = |stream| StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) };
        let closing = Closing::Counted { first_blocks: 0, second_blocks: 8 };
        let order = WriteOrder { first: place(2), second: place(1), closing };
        let range = LbaRange { start: Lba(64), count: 8 };
        let command = Command::ordered_write(NamespaceId::FIRST, range, false, order);
        Submitted { at: Nanos(7), queue: QueueId(queue), cid: CommandId(cid), command }
    }

    fn flush(queue: u16, cid: u16) -> Submitted {
        let command = Command::Flush { nsid: NamespaceId::FIRST };
        Submitted { at: Nanos(9), queue: QueueId(queue), cid: CommandId(cid), command }
    }

    fn sides() -> Vec<Submitted> {
        vec![write(1, 1, 3), write(2, 1, 4), write(1, 2, 4), flush(1, 3)]
    }

    /// A side with one thing of a write changed.
    fn with(place: usize, change: impl Fn(&mut WriteCommand)) -> Vec<Submitted> {
        let mut side = sides();
        let Command::Write(write) = &mut side[place].command else { panic!("a flush") };
        change(write);
        side
    }

    #[test]
    fn queues_may_be_fetched_in_any_order() {
        let mut device = sides();
        device.swap(0, 1);
        (device[0].at, device[0].cid) = (Nanos(100), CommandId(9));
        let commands = Commands::beside(sides(), device);
        assert_eq!((commands.rows.len(), commands.disagreement()), (4, None));
    }

    #[test]
    fn any_difference_is_found_in_its_row() {
        type Change = fn(&mut WriteCommand);
        let changes: [Change; 8] = [
            |write| write.range.start.0 += 1,
            |write| write.range.count += 1,
            |write| write.fua = true,
            |write| write.order.first.stream.0 += 1,
            |write| write.order.first.epoch.0 += 1,
            |write| write.order.second = StreamEpoch::default(),
            |write| write.order.closing = Closing::None,
            |write| write.order.closing = Closing::Counted { first_blocks: 0, second_blocks: 9 },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            for commands in [Commands::beside(sides(), with(2, change)), Commands::beside(with(2, change), sides())] {
                let place = commands.rows.iter().position(|row| !row.agrees());
                assert_eq!(place, Some(2), "change {number}");
            }
        }
    }

    #[test]
    fn what_one_side_lacks_and_what_came_in_another_order_is_found() {
        let mut lost = sides();
        lost.remove(3);
        assert_eq!(Commands::beside(sides(), lost.clone()).disagreement().unwrap().device, None);
        assert_eq!(Commands::beside(lost, sides()).disagreement().unwrap().kernel, None);
        let mut turned = sides();
        turned.swap(0, 2);
        assert!(Commands::beside(sides(), turned).disagreement().is_some());
    }

    #[test]
    fn a_line_for_both_or_one_for_each() {
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str, commands: &Commands| {
            commands.write(&folder.path().join(name)).unwrap();
            std::fs::read_to_string(folder.path().join(name)).unwrap()
        };
        let commands = Commands::beside([write(1, 1, 3), flush(1, 2)], [write(1, 1, 3)]);
        let expected = format!(
            "{HEADER}\nboth\t7\t1\t1\twrite\t64\t8\t0\t2\t3\t1\t3\t1\t-\t8\nkernel\t9\t1\t2\tflush\t-\t-\t0\t-\t-\t-\t-\t0\t-\t-\n"
        );
        assert_eq!(written("table.tsv", &commands), expected);
        let json: serde_json::Value = serde_json::from_str(&written("table.json", &commands)).unwrap();
        assert_eq!((json["agree"].as_bool(), json["rows"].as_array().unwrap().len()), (Some(false), 2));
        assert_eq!(json["rows"][0]["count_2"], 8);
    }
}
