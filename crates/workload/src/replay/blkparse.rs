//! Text of blkparse in its default form.
//!
//! Source: blkparse(1) and the blktrace user guide (Brunelle), "Default output
//! formatting": device as `major,minor`, CPU, sequence number, time in seconds
//! with 9 decimals, process, action, RWBS, and for an I/O `sector + sectors
//! [command]`. The RWBS letters are those of the kernel's `blk_fill_rwbs`
//! (kernel/trace/blktrace.c).

use std::fmt;
use std::str::FromStr;

use block::{BioFlags, Sector};
use units::Nanos;

use super::fields::{Field, Fields, Unexpected, decimal};
use super::{Disk, Record, TraceOp};

/// Which of an I/O's events stands for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum BlkAction {
    /// Q: the bio entered the block layer. The default, since the modelled stack
    /// merges, splits and schedules itself: what is replayed must be what the
    /// workload asked, not what another block layer made of it.
    #[default]
    Queued,
    /// D: the request went to the driver. For replaying what the device saw,
    /// best with merging off.
    Dispatched,
}

impl BlkAction {
    const fn letter(self) -> &'static str {
        match self {
            Self::Queued => "Q",
            Self::Dispatched => "D",
        }
    }
}

impl fmt::Display for BlkAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.letter())
    }
}

/// Why a text is no [`BlkAction`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an action to replay; write Q (as queued) or D (as dispatched)")]
pub struct ParseBlkActionError(String);

impl FromStr for BlkAction {
    type Err = ParseBlkActionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = [Self::Queued, Self::Dispatched].into_iter().find(|action| action.letter() == text);
        known.ok_or_else(|| ParseBlkActionError(text.to_owned()))
    }
}

/// What a line holds.
pub(super) enum Event<'a> {
    /// An I/O.
    Io(Disk<'a>, Record),
    /// Another event, a message, a passthrough command.
    Other,
    /// The summary begins; no events follow.
    Summary,
}

/// Whether a line looks like one of this format.
pub(super) fn recognises(line: &[u8]) -> bool {
    let mut fields = Fields::new(line);
    is_file_note(line)
        || fields.word().is_some_and(|word| is_device(word.text))
            && fields.word().is_some_and(|word| decimal(word.text).is_some())
}

pub(super) fn parse(line: &[u8], number: u64, action: BlkAction) -> Result<Event<'_>, Unexpected> {
    if is_file_note(line) {
        return Ok(Event::Other);
    }
    if line.starts_with(b"CPU") || line.starts_with(b"Total (") {
        return Ok(Event::Summary);
    }
    let mut fields = Fields::new(line);
    let device = fields.need_word("a device as major,minor")?;
    if !is_device(device.text) {
        return Err(device.unexpected("a device as major,minor"));
    }
    let cpu = fields.need_word("a CPU number")?;
    let cpu = u16::try_from(cpu.u64("a CPU number")?).map_err(|_| cpu.unexpected("a CPU number"))?;
    fields.need_word("a sequence number")?.u64("a sequence number")?;
    let at = seconds(fields.need_word("a time")?)?;
    fields.need_word("a process ID")?.u64("a process ID")?;
    let event = fields.need_word("an action")?;
    let rwbs = fields.need_word("RWBS flags")?;
    if event.text != action.letter().as_bytes() {
        return Ok(Event::Other);
    }
    let (op, flags) = rwbs_flags(rwbs)?;
    let sector = fields.need_word("a sector or a [command]")?;
    let flush = flags.contains(BioFlags::PREFLUSH);
    let (op, offset, bytes) = if sector.text.starts_with(b"[") {
        if !flush {
            // Neither bytes nor a flush: nothing that reached the disk.
            return whole(line, Event::Other);
        }
        (TraceOp::Sync, 0, 0)
    } else {
        let offset = sector.scaled(Sector::BYTES, "a sector")?;
        let plus = fields.need_word("`+`")?;
        if plus.text.starts_with(b"(") {
            // A packet command: length and payload bytes, passed through to the device.
            return whole(line, Event::Other);
        }
        if plus.text != b"+" {
            return Err(plus.unexpected("`+`"));
        }
        let sectors = fields.need_word("a number of sectors")?;
        match op {
            _ if sectors.text == b"0" && flush => (TraceOp::Sync, 0, 0),
            Some(op) => (op, offset, sectors.length(Sector::BYTES, offset)?),
            None => return whole(line, Event::Other),
        }
    };
    let flags = if op == TraceOp::Sync { flags - BioFlags::PREFLUSH - BioFlags::FUA } else { flags };
    let record = Record { at, op, offset, bytes, flags, cpu: Some(cpu), line: number };
    whole(line, Event::Io(Disk { host: None, name: device.text }, record))
}

/// The event, if the line ends in the `[command]` that ends every I/O's.
fn whole<'a>(line: &[u8], event: Event<'a>) -> Result<Event<'a>, Unexpected> {
    if line.trim_ascii_end().ends_with(b"]") {
        return Ok(event);
    }
    Err(Fields::new(line).missing("`]` after the command"))
}

/// Operation and flags of an RWBS field; no operation for N.
fn rwbs_flags(field: Field<'_>) -> Result<(Option<TraceOp>, BioFlags), Unexpected> {
    let fail = || field.unexpected("RWBS flags: [F] R, W, D or N, then any of F A S M B E U");
    let mut flags = BioFlags::empty();
    let mut rest = field.text;
    if let [b'F', more @ ..] = rest {
        flags |= BioFlags::PREFLUSH;
        rest = more;
    }
    let (first, more) = rest.split_first().unwrap_or((&b'N', &[]));
    let op = match first {
        b'R' => Some(TraceOp::Read),
        b'W' => Some(TraceOp::Write),
        b'D' => Some(TraceOp::Trim),
        // REQ_OP_FLUSH is spelled F too, behind the flag or alone.
        b'N' | b'F' => None,
        _ => return Err(fail()),
    };
    for letter in more {
        flags |= match letter {
            b'F' => BioFlags::FUA,
            b'S' => BioFlags::SYNC,
            b'M' => BioFlags::META,
            // A barrier, of kernels before 2.6.37: flush before, on media after.
            b'B' => BioFlags::PREFLUSH | BioFlags::FUA,
            // Readahead, secure erase, atomic write: no matter to the model.
            b'A' | b'E' | b'U' => BioFlags::empty(),
            _ => return Err(fail()),
        };
    }
    Ok((op, flags))
}

/// Seconds with exactly nine decimals.
fn seconds(field: Field<'_>) -> Result<Nanos, Unexpected> {
    let parse = || {
        let dot = field.text.iter().position(|byte| *byte == b'.')?;
        let (whole, decimals) = (&field.text[..dot], &field.text[dot + 1..]);
        if decimals.len() != 9 {
            return None;
        }
        decimal(whole)?.checked_mul(1_000_000_000)?.checked_add(decimal(decimals)?)
    };
    parse().map(Nanos).ok_or_else(|| field.unexpected("seconds with 9 decimals"))
}

fn is_device(text: &[u8]) -> bool {
    let comma = text.iter().position(|byte| *byte == b',');
    comma.is_some_and(|comma| decimal(&text[..comma]).is_some() && decimal(&text[comma + 1..]).is_some())
}

fn is_file_note(line: &[u8]) -> bool {
    line.starts_with(b"Input file ") && line.ends_with(b" added")
}
