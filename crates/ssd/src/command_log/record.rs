//! One command in a log, and its text form.

use std::fmt;
use std::str::FromStr;

use nvme::{
    Closing, Command, CommandId, Epoch, Lba, LbaRange, NamespaceId, QueueId, Status, Stream, StreamAction, StreamEpoch,
    WriteCommand, WriteOrder, ZoneReceiveAction, ZoneReportFilter, ZoneSendAction,
};
use units::Nanos;

/// Ranges of one Dataset Management command (NVM 3.2.1).
const RANGES_MAX: usize = 256;

/// A command as the device got it, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRecord {
    /// Its place in the order of submission, from 0.
    pub sequence: u64,
    /// When the device got it, on the device's clock.
    pub submitted_at: Nanos,
    /// When it completed; `None` where the power went before.
    pub completed_at: Option<Nanos>,
    /// Submission queue.
    pub queue: QueueId,
    /// Identifier.
    pub cid: CommandId,
    /// The command.
    pub command: Command,
    /// How it ended; `None` where it did not.
    pub status: Option<Status>,
}

impl CommandRecord {
    /// Time in the device.
    pub fn latency(&self) -> Option<Nanos> {
        self.completed_at.map(|at| at.since(self.submitted_at))
    }
}

/// Why a line is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct RecordError {
    what: String,
}

fn wrong<T>(what: impl Into<String>) -> Result<T, RecordError> {
    Err(RecordError { what: what.into() })
}

/// Writes the columns of [`super::HEADER`], separated by tabs. A Dataset
/// Management command has all its ranges in the column `lba`, as
/// `FIRST+COUNT,FIRST+COUNT`; what a column does not apply to is `-`.
impl fmt::Display for CommandRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t", self.sequence, self.submitted_at.0)?;
        match self.completed_at {
            Some(at) => write!(f, "{}\t", at.0)?,
            None => f.write_str("-\t")?,
        }
        write!(f, "{}\t{}\t", self.queue.0, self.cid.0)?;
        let nsid = self.command.nsid().0;
        let flag = |on: bool, name: &'static str| on.then_some(name);
        let flags = |names: &[Option<&str>]| {
            let names: Vec<&str> = names.iter().flatten().copied().collect();
            if names.is_empty() { "-".to_owned() } else { names.join(",") }
        };
        let (start, blocks, flags) = match &self.command {
            Command::Flush { .. } => ("-".to_owned(), 0, "-".to_owned()),
            Command::Read { range, fua, .. } => {
                (range.start.0.to_string(), range.count.into(), flags(&[flag(*fua, "fua")]))
            }
            Command::Write(WriteCommand { range, fua, order, .. }) => {
                let order = order_flags(order);
                let names: Vec<Option<&str>> =
                    std::iter::once(flag(*fua, "fua")).chain(order.iter().map(|text| Some(text.as_str()))).collect();
                (range.start.0.to_string(), range.count.into(), flags(&names))
            }
            Command::WriteZeroes { range, fua, deallocate, .. } => {
                let flags = flags(&[flag(*fua, "fua"), flag(*deallocate, "deac")]);
                (range.start.0.to_string(), range.count.into(), flags)
            }
            Command::Deallocate { ranges, .. } => {
                let list: Vec<String> =
                    ranges.iter().map(|range| format!("{}+{}", range.start.0, range.count)).collect();
                let blocks = ranges.iter().map(|range| u64::from(range.count)).sum();
                (if list.is_empty() { "-".to_owned() } else { list.join(",") }, blocks, "-".to_owned())
            }
            Command::ZoneAppend { zone, blocks, fua, .. } => {
                (zone.0.to_string(), u64::from(*blocks), flags(&[flag(*fua, "fua")]))
            }
            Command::ZoneManagementSend { start, action, all, zrwa, .. } => {
                let action = format!("action={}", *action as u8);
                let flags = flags(&[Some(&action), flag(*all, "all"), flag(*zrwa, "zrwa")]);
                (start.0.to_string(), 0, flags)
            }
            Command::ZoneManagementReceive { start, action, filter, partial, bytes, .. } => {
                let action = format!("action={},filter={},bytes={bytes}", *action as u8, *filter as u8);
                (start.0.to_string(), 0, flags(&[Some(&action), flag(*partial, "partial")]))
            }
            Command::StreamManagement { stream, action, .. } => {
                let stream = format!("stream={}", stream.0);
                let open = match action {
                    StreamAction::Open { first } => Some(format!("open={}", first.0)),
                    StreamAction::Close => None,
                };
                ("-".to_owned(), 0, flags(&[Some(&stream), open.as_deref()]))
            }
        };
        write!(f, "{}\t{nsid}\t{start}\t{blocks}\t{flags}\t", opcode_name(&self.command))?;
        match self.status {
            Some(Status { code_type, code }) => write!(f, "{code_type:x}/{code:02x}"),
            None => f.write_str("-"),
        }
    }
}

/// The flags of a write's order: `first=STREAM:EPOCH`, `second=STREAM:EPOCH`, and `barrier` or `blocks=FIRST:SECOND`.
fn order_flags(order: &WriteOrder) -> Vec<String> {
    let place = |name: &str, place: StreamEpoch| {
        (place != StreamEpoch::default()).then(|| format!("{name}={}:{}", place.stream.0, place.epoch.0))
    };
    let closing = match order.closing {
        Closing::None => None,
        Closing::ByArrival => Some("barrier".to_owned()),
        Closing::Counted { first_blocks, second_blocks } => Some(format!("blocks={first_blocks}:{second_blocks}")),
    };
    [place("first", order.first), place("second", order.second), closing].into_iter().flatten().collect()
}

/// The name of a command's opcode in a log.
fn opcode_name(command: &Command) -> &'static str {
    match command {
        Command::Flush { .. } => "flush",
        Command::Read { .. } => "read",
        Command::Write(_) => "write",
        Command::WriteZeroes { .. } => "write_zeroes",
        Command::Deallocate { .. } => "deallocate",
        Command::ZoneAppend { .. } => "zone_append",
        Command::ZoneManagementSend { .. } => "zone_send",
        Command::ZoneManagementReceive { .. } => "zone_receive",
        Command::StreamManagement { .. } => "stream",
    }
}

impl CommandRecord {
    /// The name of its opcode in a log: `flush`, `read`, `write`, `write_zeroes`,
    /// `deallocate`, `zone_append`, `zone_send`, `zone_receive` or `stream`.
    pub fn opcode_name(&self) -> &'static str {
        opcode_name(&self.command)
    }
}

impl FromStr for CommandRecord {
    type Err = RecordError;

    fn from_str(line: &str) -> Result<Self, RecordError> {
        let columns: Vec<&str> = line.split('\t').collect();
        let Ok([sequence, submitted, completed, queue, cid, opcode, nsid, lba, blocks, flags, status]) =
            <[&str; 11]>::try_from(columns)
        else {
            return wrong("not eleven columns separated by tabs");
        };
        let completed_at = if completed == "-" { None } else { Some(Nanos(number(completed, "completed_ns")?)) };
        Ok(Self {
            sequence: number(sequence, "sequence")?,
            submitted_at: Nanos(number(submitted, "submitted_ns")?),
            completed_at,
            queue: QueueId(number(queue, "queue")?),
            cid: CommandId(number(cid, "cid")?),
            command: command(opcode, NamespaceId(number(nsid, "nsid")?), lba, blocks, flags)?,
            status: parse_status(status)?,
        })
    }
}

fn number<T: FromStr>(text: &str, column: &str) -> Result<T, RecordError> {
    text.parse().or_else(|_| wrong(format!("`{text}` is no number for column {column}")))
}

fn parse_status(text: &str) -> Result<Option<Status>, RecordError> {
    if text == "-" {
        return Ok(None);
    }
    let parts = text.split_once('/').and_then(|(code_type, code)| {
        Some((u8::from_str_radix(code_type, 16).ok()?, u8::from_str_radix(code, 16).ok()?))
    });
    match parts {
        Some((code_type, code)) => Ok(Some(Status { code_type, code })),
        None => wrong(format!("`{text}` is no status; it is TYPE/CODE in hexadecimal, such as 0/00")),
    }
}

fn command(opcode: &str, nsid: NamespaceId, lba: &str, blocks: &str, flags: &str) -> Result<Command, RecordError> {
    let flags = Flags::parse(flags);
    let start = || number(lba, "lba").map(Lba);
    let range = || Ok(LbaRange { start: start()?, count: number(blocks, "blocks")? });
    let command = match opcode {
        "flush" => Command::Flush { nsid },
        "read" => Command::Read { nsid, range: range()?, fua: flags.has("fua") },
        "write" => Command::ordered_write(nsid, range()?, flags.has("fua"), flags.order()?),
        "write_zeroes" => {
            Command::WriteZeroes { nsid, range: range()?, fua: flags.has("fua"), deallocate: flags.has("deac") }
        }
        "deallocate" => Command::Deallocate { nsid, ranges: ranges(lba)? },
        "zone_append" => {
            Command::ZoneAppend { nsid, zone: start()?, blocks: number(blocks, "blocks")?, fua: flags.has("fua") }
        }
        "zone_send" => Command::ZoneManagementSend {
            nsid,
            start: start()?,
            action: flags.code("action", ZoneSendAction::from_code)?,
            all: flags.has("all"),
            zrwa: flags.has("zrwa"),
        },
        "zone_receive" => Command::ZoneManagementReceive {
            nsid,
            start: start()?,
            action: flags.code("action", ZoneReceiveAction::from_code)?,
            filter: flags.code("filter", ZoneReportFilter::from_code)?,
            partial: flags.has("partial"),
            bytes: flags.value("bytes")?,
        },
        "stream" => {
            let open = flags.optional("open", |first| number(first, "flags"))?;
            let action = open.map_or(StreamAction::Close, |first| StreamAction::Open { first: Epoch(first) });
            Command::StreamManagement { nsid, stream: Stream(flags.value("stream")?), action }
        }
        other => return wrong(format!("`{other}` is no opcode of a log")),
    };
    Ok(command)
}

fn ranges(text: &str) -> Result<Box<[LbaRange]>, RecordError> {
    if text == "-" {
        return Ok(Box::default());
    }
    let list: Vec<&str> = text.split(',').take(RANGES_MAX + 1).collect();
    if list.len() > RANGES_MAX {
        return wrong(format!("more than {RANGES_MAX} ranges"));
    }
    let range = |text: &&str| match text.split_once('+') {
        Some((start, count)) => Ok(LbaRange { start: Lba(number(start, "lba")?), count: number(count, "lba")? }),
        None => wrong(format!("`{text}` is no range; it is FIRST+COUNT")),
    };
    list.iter().map(range).collect()
}

/// The column of flags: names and `name=value`, separated by commas.
struct Flags<'a>(Vec<&'a str>);

impl<'a> Flags<'a> {
    fn parse(text: &'a str) -> Self {
        Self(text.split(',').collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    fn optional<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, RecordError>) -> Result<Option<T>, RecordError> {
        let value = self.0.iter().find_map(|flag| flag.strip_prefix(name)?.strip_prefix('='));
        value.map(read).transpose()
    }

    fn value<T: FromStr>(&self, name: &str) -> Result<T, RecordError> {
        match self.optional(name, |value| number(value, "flags"))? {
            Some(value) => Ok(value),
            None => wrong(format!("the flags lack `{name}=`")),
        }
    }

    /// The reverse of [`order_flags`].
    fn order(&self) -> Result<WriteOrder, RecordError> {
        fn pair<T: FromStr>(text: &str) -> Result<(T, T), RecordError> {
            match text.split_once(':') {
                Some((first, second)) => Ok((number(first, "flags")?, number(second, "flags")?)),
                None => wrong(format!("`{text}` is no pair of numbers; it is FIRST:SECOND")),
            }
        }
        let place = |name| {
            let place = self.optional(name, pair::<u16>)?;
            let place = place.map(|(stream, epoch)| StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) });
            Ok(place.unwrap_or_default())
        };
        let closing = match self.optional("blocks", pair::<u32>)? {
            Some((first_blocks, second_blocks)) => Closing::Counted { first_blocks, second_blocks },
            None if self.has("barrier") => Closing::ByArrival,
            None => Closing::None,
        };
        Ok(WriteOrder { first: place("first")?, second: place("second")?, closing })
    }

    fn code<T>(&self, name: &str, from: impl Fn(u8) -> Option<T>) -> Result<T, RecordError> {
        let code = self.value(name)?;
        from(code).map_or_else(|| wrong(format!("{name}={code} is reserved")), Ok)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_range() -> impl Strategy<Value = LbaRange> {
        (any::<u64>(), any::<u32>()).prop_map(|(start, count)| LbaRange { start: Lba(start), count })
    }

    fn any_order() -> impl Strategy<Value = WriteOrder> {
        let place = || {
            any::<(u16, u16)>().prop_map(|(stream, epoch)| StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) })
        };
        let counts = any::<(u32, u32)>()
            .prop_map(|(first_blocks, second_blocks)| Closing::Counted { first_blocks, second_blocks });
        let closing = prop_oneof![Just(Closing::None), Just(Closing::ByArrival), counts];
        (place(), place(), closing).prop_map(|(first, second, closing)| WriteOrder { first, second, closing })
    }

    fn any_command() -> impl Strategy<Value = Command> {
        let nsid = any::<u32>().prop_map(NamespaceId);
        prop_oneof![
            nsid.clone().prop_map(|nsid| Command::Flush { nsid }),
            (nsid.clone(), any_range(), any::<bool>()).prop_map(|(nsid, range, fua)| Command::Read {
                nsid,
                range,
                fua
            }),
            (nsid.clone(), any_range(), any::<bool>(), any_order())
                .prop_map(|(nsid, range, fua, order)| Command::ordered_write(nsid, range, fua, order)),
            (nsid.clone(), any::<u16>(), any::<Option<u16>>()).prop_map(|(nsid, stream, first)| {
                let action = first.map_or(StreamAction::Close, |first| StreamAction::Open { first: Epoch(first) });
                Command::StreamManagement { nsid, stream: Stream(stream), action }
            }),
            (nsid.clone(), any_range(), any::<bool>(), any::<bool>())
                .prop_map(|(nsid, range, fua, deallocate)| Command::WriteZeroes { nsid, range, fua, deallocate }),
            (nsid.clone(), prop::collection::vec(any_range(), 0..=RANGES_MAX))
                .prop_map(|(nsid, ranges)| Command::Deallocate { nsid, ranges: ranges.into() }),
            (nsid.clone(), any::<u64>(), any::<u32>(), any::<bool>())
                .prop_map(|(nsid, zone, blocks, fua)| Command::ZoneAppend { nsid, zone: Lba(zone), blocks, fua }),
            (nsid.clone(), any::<u64>(), prop::sample::select(ZoneSendAction::ALL), any::<bool>(), any::<bool>())
                .prop_map(|(nsid, start, action, all, zrwa)| Command::ZoneManagementSend {
                    nsid,
                    start: Lba(start),
                    action,
                    all,
                    zrwa
                }),
            (
                nsid,
                any::<u64>(),
                prop::sample::select(ZoneReceiveAction::ALL),
                prop::sample::select(ZoneReportFilter::ALL),
                any::<bool>(),
                any::<u32>()
            )
                .prop_map(|(nsid, start, action, filter, partial, bytes)| {
                    Command::ZoneManagementReceive { nsid, start: Lba(start), action, filter, partial, bytes }
                }),
        ]
    }

    proptest! {
        #[test]
        fn text_and_back(
            sequence: u64, submitted: u64, completed: Option<u64>, queue: u16, cid: u16, command in any_command(),
            status: Option<(u8, u8)>
        ) {
            let record = CommandRecord {
                sequence,
                submitted_at: Nanos(submitted),
                completed_at: completed.map(Nanos),
                queue: QueueId(queue),
                cid: CommandId(cid),
                command,
                status: status.map(|(code_type, code)| Status { code_type, code }),
            };
            prop_assert_eq!(record.to_string().parse::<CommandRecord>(), Ok(record));
        }

        #[test]
        fn any_line_is_an_answer(line in "[-0-9a-f\t,+/=_ \\PC]{0,120}") {
            let _ = line.parse::<CommandRecord>();
        }
    }

    #[test]
    fn faults_are_named() {
        for (line, word) in [
            ("", "columns"),
            ("0\t0\t0\t1\t0\tread\t1\t0\t8\t-\t0", "TYPE/CODE"),
            ("0\t0\t0\t1\t0\terase\t1\t0\t8\t-\t0/00", "erase"),
            ("0\t0\t0\t1\t70000\tread\t1\t0\t8\t-\t0/00", "cid"),
            ("0\t0\t0\t1\t0\tzone_send\t1\t0\t0\tall\t0/00", "action="),
            ("0\t0\t0\t1\t0\tzone_send\t1\t0\t0\taction=9\t0/00", "reserved"),
            ("0\t0\t0\t1\t0\tdeallocate\t1\t8\t0\t-\t0/00", "FIRST+COUNT"),
            ("0\t0\t0\t1\t0\twrite\t1\t8\t1\tfirst=3\t0/00", "FIRST:SECOND"),
            ("0\t0\t0\t1\t0\tstream\t1\t-\t0\topen=0\t0/00", "stream="),
        ] {
            let error = line.parse::<CommandRecord>().unwrap_err().to_string();
            assert!(error.contains(word), "{line:?} gave {error:?}");
        }
    }
}
