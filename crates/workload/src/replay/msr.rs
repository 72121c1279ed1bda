//! MSR Cambridge traces: CSV from 36 volumes of 13 servers, one week of 2007.
//!
//! Source: the README of SNIA IOTTA trace set 387 (Narayanan, Donnelly,
//! Rowstron: Write Off-Loading, FAST 2008). No header line;
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in
//! Windows filetime (100 ns since 1601), offset and size in bytes.

use block::BioFlags;
use units::Nanos;

use super::fields::{Fields, Unexpected};
use super::{Disk, Record, TraceOp};

/// A tick of Windows filetime in nanoseconds.
const TICK_NS: u64 = 100;

pub(super) const HEADER: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

/// Whether a line looks like one of this format.
pub(super) fn recognises(line: &[u8]) -> bool {
    let mut fields = Fields::new(line);
    let cells: Vec<_> = std::iter::from_fn(|| fields.cell()).map(|cell| cell.text).take(8).collect();
    cells.len() == 7 && super::fields::decimal(cells[0]).is_some() && operation(cells[3]).is_some()
}

pub(super) fn parse(line: &[u8], number: u64) -> Result<(Disk<'_>, Record), Unexpected> {
    let mut fields = Fields::new(line);
    let ticks = fields.need_cell("a timestamp")?;
    let at = ticks.scaled(TICK_NS, "a timestamp in Windows filetime (100 ns)")?;
    let host = fields.need_cell("a host name")?;
    let disk = fields.need_cell("a disk number")?;
    disk.u64("a disk number")?;
    let kind = fields.need_cell("Read or Write")?;
    let op = operation(kind.text).ok_or_else(|| kind.unexpected("Read or Write"))?;
    let offset = fields.need_cell("an offset")?.u64("an offset in bytes")?;
    let bytes = fields.need_cell("a size")?.length(1, offset)?;
    fields.need_cell("a response time")?.u64("a response time in Windows filetime (100 ns)")?;
    if let Some(more) = fields.cell() {
        return Err(more.unexpected("the end of the line after 7 fields"));
    }
    let disk = Disk { host: Some(host.text), name: disk.text };
    Ok((disk, Record { at: Nanos(at), op, offset, bytes, flags: BioFlags::empty(), cpu: None, line: number }))
}

fn operation(text: &[u8]) -> Option<TraceOp> {
    if text.eq_ignore_ascii_case(b"read") {
        Some(TraceOp::Read)
    } else if text.eq_ignore_ascii_case(b"write") {
        Some(TraceOp::Write)
    } else {
        None
    }
}
