//! The text of tracefs: events of the block layer (`include/trace/events/block.h`) and of the NVMe driver
//! (`drivers/nvme/host/trace.h`), with time stamps in nanoseconds of the clock `virtual`.

use std::io::{self, BufRead};

use units::Nanos;

use super::MARK;

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub(super) at: Nanos,
    pub(super) what: What,
}

/// A piece of a block device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Extent {
    pub(super) device: (u32, u32),
    pub(super) sector: u64,
    pub(super) sectors: u32,
}

/// What an I/O is for, from the letters of `blk_fill_rwbs`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    Read,
    Write,
    Flush,
    Discard,
    Other,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum What {
    BioQueued(Kind, Extent),
    BioCompleted(Kind, Extent),
    Inserted(Kind, Extent),
    Issued(Kind, Extent),
    Completed(Kind, Extent),
    NvmeSetUp { controller: u32, queue: u16, command: u32 },
    NvmeCompleted { controller: u32, queue: u16, command: u32 },
}

/// The events of a buffer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Events {
    pub(super) events: Vec<Event>,
    /// Written but overwritten.
    pub(super) lost: u64,
}

/// Reads the whole of tracefs's `trace`. Lines that are no event of those above are passed over.
pub(super) fn read(text: impl BufRead) -> io::Result<Events> {
    let mut events = Vec::new();
    let buffer = each(text, |at, name, detail| events.extend(what(name, detail).map(|what| Event { at, what })))?;
    Ok(Events { events, lost: buffer.lost })
}

/// What tracefs's `trace` tells beside its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Buffer {
    /// When recording began.
    pub(super) began: Nanos,
    /// Events that were overwritten.
    pub(super) lost: u64,
}

/// Calls `event` with virtual time, name and text of each line of tracefs's `trace` that looks like an event.
pub(super) fn each(text: impl BufRead, mut event: impl FnMut(Nanos, &str, &str)) -> io::Result<Buffer> {
    let mut buffer = Buffer::default();
    let mut offset: i128 = 0;
    for line in text.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some(header) = line.strip_prefix("# entries-in-buffer/entries-written: ") {
            buffer.lost = lost(header).unwrap_or(0);
        }
        let Some((at, name, detail)) = split(&line) else { continue };
        if name == "tracing_mark_write" {
            if let Some(mono) = detail.strip_prefix(MARK).and_then(|ns| ns.trim().parse::<u64>().ok()) {
                offset = i128::from(mono) - i128::from(at);
                buffer.began = Nanos(mono);
            }
            continue;
        }
        let at = u64::try_from(i128::from(at) + offset).unwrap_or(0);
        event(Nanos(at), name, detail);
    }
    Ok(buffer)
}

/// From `12/34   #P:1`: those that were overwritten.
fn lost(header: &str) -> Option<u64> {
    let (kept, rest) = header.split_once('/')?;
    let written: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(written.saturating_sub(kept.trim().parse().ok()?))
}

/// Time stamp, event and its text: `  fio-12  [000] ..... 123456: block_rq_issue: 259,0 R …`. The name of
/// a process may hold anything; what follows the number of the processor may not.
fn split(line: &str) -> Option<(u64, &str, &str)> {
    let is_processor = |before: &str| {
        before
            .rsplit_once('[')
            .is_some_and(|(_, digits)| digits.len() >= 3 && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let (end, _) = line.match_indices("] ").find(|(end, _)| is_processor(&line[..*end]))?;
    let rest = &line[end + 2..];
    let (before, rest) = rest.split_once(": ")?;
    let at = before.split_whitespace().next_back()?.parse().ok()?;
    let (name, detail) = rest.split_once(": ")?;
    Some((at, name, detail))
}

fn what(name: &str, detail: &str) -> Option<What> {
    let on = |make: fn(Kind, Extent) -> What| extent(detail).map(|(kind, extent)| make(kind, extent));
    match name {
        "block_bio_queue" => on(What::BioQueued),
        "block_bio_complete" => on(What::BioCompleted),
        "block_rq_insert" => on(What::Inserted),
        "block_rq_issue" => on(What::Issued),
        "block_rq_complete" => on(What::Completed),
        "nvme_setup_cmd" => {
            let (controller, queue, command) = nvme(detail)?;
            Some(What::NvmeSetUp { controller, queue, command })
        }
        "nvme_complete_rq" => {
            let (controller, queue, command) = nvme(detail)?;
            Some(What::NvmeCompleted { controller, queue, command })
        }
        _ => None,
    }
}

/// `259,0 WS 4096 () 2048 + 8 none,0,0 [fio]` and its relatives: device, letters, and around the plus
/// sign the sectors.
fn extent(detail: &str) -> Option<(Kind, Extent)> {
    let (device, rest) = detail.split_once(' ')?;
    let (major, minor) = device.split_once(',')?;
    let letters = rest.split(' ').next()?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let plus = words.iter().position(|word| *word == "+")?;
    // A flush without data has no sector: all ones.
    let sector = *words.get(plus.checked_sub(1)?)?;
    let sector = sector.parse::<u64>().ok().or_else(|| sector.parse::<i64>().ok().map(|_| u64::MAX))?;
    let sectors = words.get(plus + 1)?.parse().ok()?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    Some((kind(letters), Extent { device, sector: if sector == u64::MAX { 0 } else { sector }, sectors }))
}

fn kind(letters: &str) -> Kind {
    let first = letters.strip_prefix('F').unwrap_or(letters).chars().next();
    match first {
        Some('R') => Kind::Read,
        Some('W') => Kind::Write,
        Some('D') => Kind::Discard,
        _ if letters.starts_with('F') => Kind::Flush,
        _ => Kind::Other,
    }
}

/// `nvme0: disk=nvme0n1, qid=1, cmdid=12, …`: controller, queue and command.
pub(super) fn nvme(detail: &str) -> Option<(u32, u16, u32)> {
    let (controller, _) = detail.split_once(": ")?;
    let controller = controller.strip_prefix("nvme")?.parse().ok()?;
    Some((controller, field(detail, "qid")?.parse().ok()?, field(detail, "cmdid")?.parse().ok()?))
}

/// The value of `name` in the text of an event of the NVMe driver.
pub(super) fn field<'a>(detail: &'a str, name: &str) -> Option<&'a str> {
    let words = detail.split([' ', ',', '(', ')']);
    words.filter_map(|word| word.split_once('=')).find(|(given, _)| *given == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 7/10   #P:1
#
           plumb-1       [000] .....     900: tracing_mark_write: plumb-clock 1000
 my: [odd] job-44      [000] .....    1000: block_bio_queue: 259,0 RS 2048 + 8 [my]
             dd-44      [000] .....    1000: block_rq_issue: 259,0 RS 4096 () 2048 + 8 none,0,0 [dd]
             dd-44      [000] .....    1001: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, cmdid=4097, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=256, len=0, ctrl=0x0, dsmgmt=0, reftag=0)
         <idle>-0       [000] ..s1.   81000: nvme_complete_rq: nvme0: disk=nvme0n1, qid=1, cmdid=4097, res=0x0, retries=0, flags=0x0, status=0x0
         <idle>-0       [000] ..s1.   81000: block_rq_complete: 259,0 RS () 2048 + 8 none,0,0 [0]
    kworker/0:1-9       [000] .....   82000: block_rq_issue: 259,0 FF 0 () 18446744073709551615 + 0 none,0,0 [kworker/0:1H]
    kworker/0:1-9       [000] .....   82000: block_rq_issue: 259,0 FF 0 () -1 + 0 none,0,0 [kworker/0:1H]
";

    #[test]
    fn what_a_kernel_writes() {
        let read = read(TEXT.as_bytes()).unwrap();
        let extent = Extent { device: (259, 0), sector: 2048, sectors: 8 };
        let nvme = (0, 1, 4097);
        let expected = [
            (1100, What::BioQueued(Kind::Read, extent)),
            (1101, What::NvmeSetUp { controller: nvme.0, queue: nvme.1, command: nvme.2 }),
            (81100, What::NvmeCompleted { controller: nvme.0, queue: nvme.1, command: nvme.2 }),
            (81100, What::Completed(Kind::Read, extent)),
        ];
        for (at, what) in expected {
            assert!(read.events.contains(&Event { at: Nanos(at), what: what.clone() }), "{what:?} in {read:?}");
        }
        assert!(read.events.iter().any(|event| matches!(event.what, What::Issued(Kind::Flush, _))));
        assert_eq!(read.lost, 3);
    }

    #[test]
    fn letters() {
        let expected = [
            ("R", Kind::Read),
            ("RA", Kind::Read),
            ("WS", Kind::Write),
            ("FWFS", Kind::Write),
            ("WFS", Kind::Write),
            ("FF", Kind::Flush),
            ("F", Kind::Flush),
            ("D", Kind::Discard),
            ("ZR", Kind::Other),
            ("N", Kind::Other),
            ("", Kind::Other),
        ];
        for (letters, expected) in expected {
            assert_eq!(kind(letters), expected, "{letters}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            read(bytes.as_slice()).unwrap();
        }

        #[test]
        fn any_change_of_one_byte_is_read_without_a_panic(at in 0..TEXT.len(), byte in any::<u8>()) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            read(bytes.as_slice()).unwrap();
        }
    }
}
