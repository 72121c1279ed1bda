//! Alibaba block traces: CSV from 1000 virtual disks, January 2020.
//!
//! Source: README of github.com/alibaba/block-traces (Li et al.: An In-Depth
//! Analysis of Cloud Block Storage Workloads, IISWC 2020). No header line;
//! `device_id,opcode,offset,length,timestamp`, offset and length in bytes, the
//! timestamp in microseconds since 1970.

use block::BioFlags;
use units::Nanos;

use super::fields::{Fields, Unexpected};
use super::{Disk, Record, TraceOp};

const MICROSECOND_NS: u64 = 1_000;

pub(super) const HEADER: &str = "device_id,opcode,offset,length,timestamp";

/// Whether a line looks like one of this format.
pub(super) fn recognises(line: &[u8]) -> bool {
    let mut fields = Fields::new(line);
    let cells: Vec<_> = std::iter::from_fn(|| fields.cell()).map(|cell| cell.text).take(6).collect();
    cells.len() == 5 && operation(cells[1]).is_some()
}

pub(super) fn parse(line: &[u8], number: u64) -> Result<(Disk<'_>, Record), Unexpected> {
    let mut fields = Fields::new(line);
    let disk = fields.need_cell("a device_id")?;
    disk.u64("a device_id")?;
    let opcode = fields.need_cell("R or W")?;
    let op = operation(opcode.text).ok_or_else(|| opcode.unexpected("R or W"))?;
    let offset = fields.need_cell("an offset")?.u64("an offset in bytes")?;
    let bytes = fields.need_cell("a length")?.length(1, offset)?;
    let at = fields.need_cell("a timestamp")?.scaled(MICROSECOND_NS, "a timestamp in microseconds")?;
    if let Some(more) = fields.cell() {
        return Err(more.unexpected("the end of the line after 5 fields"));
    }
    let disk = Disk { host: None, name: disk.text };
    Ok((disk, Record { at: Nanos(at), op, offset, bytes, flags: BioFlags::empty(), cpu: None, line: number }))
}

fn operation(text: &[u8]) -> Option<TraceOp> {
    match text {
        b"R" => Some(TraceOp::Read),
        b"W" => Some(TraceOp::Write),
        _ => None,
    }
}
