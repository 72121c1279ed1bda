//! Writes and flushes as the NVMe driver sets them up (`nvme_setup_cmd`), with their streams and epochs (`nvme_order`, of the
//! kernel `order`).

use std::io::{self, BufRead};
use std::str::FromStr;

use nvme::{Closing, Command, CommandId, Epoch, Lba, LbaRange, NamespaceId, QueueId, Stream, StreamEpoch, WriteOrder};

use super::commands::Submitted;
use super::events::{Buffer, each, field, nvme};

/// Force Unit Access in the upper half of CDW12.
const FUA: u32 = 1 << 14;

/// What the driver sent through queues of I/O, in its order, out of the whole of tracefs's `trace`.
pub(super) fn read(text: impl BufRead) -> io::Result<(Vec<Submitted>, Buffer)> {
    let mut sent: Vec<Submitted> = Vec::new();
    let buffer = each(text, |at, name, detail| {
        let Some((_, queue, cid)) = nvme(detail).filter(|(_, queue, _)| *queue > 0) else { return };
        let (queue, cid) = (QueueId(queue), CommandId(cid as u16));
        match name {
            "nvme_setup_cmd" => sent.extend(command(detail).map(|command| Submitted { at, queue, cid, command })),
            "nvme_order" => {
                // It comes right after the command that it tells of.
                let last = sent.last_mut().filter(|last| (last.queue, last.cid) == (queue, cid));
                if let (Some(Submitted { command: Command::Write(write), .. }), Some((range, order))) =
                    (last, order(detail))
                {
                    (write.range, write.order) = (range, order);
                }
            }
            _ => {}
        }
    })?;
    Ok((sent, buffer))
}

/// `…, nsid=1, …, cmd=(nvme_cmd_write slba=256, len=0, ctrl=0x4000, …)`.
fn command(detail: &str) -> Option<Command> {
    let nsid = NamespaceId(number(detail, "nsid")?);
    let (_, words) = detail.split_once("cmd=(")?;
    match words.split([' ', ')']).next()? {
        "nvme_cmd_flush" => Some(Command::Flush { nsid }),
        "nvme_cmd_write" => {
            let control = u32::from_str_radix(field(words, "ctrl")?.strip_prefix("0x")?, 16).ok()?;
            let count = number::<u32>(words, "len")?.checked_add(1)?;
            let range = LbaRange { start: Lba(number(words, "slba")?), count };
            Some(Command::write(nsid, range, control & FUA != 0))
        }
        _ => None,
    }
}

/// `…, slba=256, blocks=8, stream=2/1, epoch=0/3, barrier=1, count=8/24`.
fn order(detail: &str) -> Option<(LbaRange, WriteOrder)> {
    let range = LbaRange { start: Lba(number(detail, "slba")?), count: number(detail, "blocks")? };
    let (streams, epochs) = (pair(detail, "stream")?, pair(detail, "epoch")?);
    let place = |stream, epoch| StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) };
    let closing = match (field(detail, "barrier")?, pair(detail, "count")?) {
        ("0", _) => Closing::None,
        (_, (0, 0)) => Closing::ByArrival,
        (_, (first_blocks, second_blocks)) => Closing::Counted { first_blocks, second_blocks },
    };
    Some((range, WriteOrder { first: place(streams.0, epochs.0), second: place(streams.1, epochs.1), closing }))
}

fn number<T: FromStr>(detail: &str, name: &str) -> Option<T> {
    field(detail, name)?.parse().ok()
}

fn pair<T: FromStr>(detail: &str, name: &str) -> Option<(T, T)> {
    let (first, second) = field(detail, name)?.split_once('/')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Nanos;

    use super::*;

    const TEXT: &str = "\
# entries-in-buffer/entries-written: 6/8   #P:1
           plumb-1       [000] .....     900: tracing_mark_write: plumb-clock 1000
             dd-44      [000] .....    1001: nvme_setup_cmd: nvme0: qid=0, cmdid=3, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_admin_identify cns=1, ctrlid=0)
             dd-44      [000] .....    1002: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=2, cmdid=4097, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_write slba=256, len=7, ctrl=0x200, dsmgmt=0, reftag=8)
             dd-44      [000] .....    1002: nvme_order: nvme0: disk=nvme0n1, qid=2, cmdid=4097, slba=256, blocks=8, stream=2/1, epoch=65535/3, barrier=1, count=8/0
             dd-44      [000] .....    1003: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, cmdid=5, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_write slba=9, len=0, ctrl=0x4000, dsmgmt=0, reftag=0)
             dd-44      [000] .....    1004: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, cmdid=6, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_flush cdw10=00 00 00 00)
             dd-44      [000] .....    1005: nvme_order: nvme0: disk=nvme0n1, qid=1, cmdid=7, slba=1, blocks=8, stream=2/0, epoch=1/0, barrier=0, count=0/0
";

    #[test]
    fn writes_and_flushes_with_what_the_driver_said_of_order() {
        let (sent, buffer) = read(TEXT.as_bytes()).unwrap();
        assert_eq!(buffer, Buffer { began: Nanos(1000), lost: 2 });
        let at = |stream, epoch| StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) };
        let closing = Closing::Counted { first_blocks: 8, second_blocks: 0 };
        let order = WriteOrder { first: at(2, 65535), second: at(1, 3), closing };
        let write = |start, count, fua, order| {
            let range = LbaRange { start: Lba(start), count };
            Command::ordered_write(NamespaceId::FIRST, range, fua, order)
        };
        let of =
            |at, queue, cid, command| Submitted { at: Nanos(at), queue: QueueId(queue), cid: CommandId(cid), command };
        let expected = [
            of(1102, 2, 4097, write(256, 8, false, order)),
            of(1103, 1, 5, write(9, 1, true, WriteOrder::NONE)),
            of(1104, 1, 6, Command::Flush { nsid: NamespaceId::FIRST }),
        ];
        assert_eq!(sent, expected);
    }

    proptest! {
        #[test]
        fn any_change_of_one_byte_is_read_without_a_panic(at in 0..TEXT.len(), byte in any::<u8>()) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            read(bytes.as_slice()).unwrap();
        }
    }
}
