//! Commands to and from submission queue entries.

use zerocopy::{FromBytes, IntoBytes};

use crate::{
    Command, CommandId, DatasetManagementRange, IoOpcode, Lba, LbaRange, Status, StreamAction, SubmissionEntry,
    WriteCommand, WriteOrder, ZoneReceiveAction, ZoneReportFilter, ZoneSendAction,
};

/// Number of Logical Blocks (NLB): 16 bits, zero-based.
const MAX_BLOCKS: u32 = 1 << 16;
/// Number of Ranges (NR): 8 bits, zero-based.
const MAX_RANGES: usize = 1 << 8;

/// CDW12: Force Unit Access.
const FUA: u32 = 1 << 30;
/// CDW12 of Write Zeroes: Deallocate (NVM figure 82).
const DEAC: u32 = 1 << 25;
/// CDW11 of Dataset Management: Attribute - Deallocate (NVM figure 43).
const AD: u32 = 1 << 2;
/// CDW13 of Zone Management Send: Select All (ZNS figure 39).
const SELECT_ALL: u32 = 1 << 8;
/// CDW13 of Zone Management Send: ZRWA Allocation, a bit of the Zone Send Action
/// Specific Option of Open Zone (TP 4076).
const ZRWAA: u32 = 1 << 9;
/// CDW13 of Zone Management Receive: Partial Report (ZNS figure 34).
const PARTIAL_REPORT: u32 = 1 << 16;
/// NUMD of Zone Management Receive counts dwords, zero-based, in 32 bits; the
/// buffers here are at most 4 GiB less one dword.
const MAX_REPORT_BYTES: u32 = !3;

/// A command that no submission queue entry can express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// NLB expresses 1 to 65536 blocks.
    #[error("a command of {count} logical blocks cannot be encoded; split it into commands of 1 to {MAX_BLOCKS}")]
    Blocks {
        /// The blocks of the command.
        count: u32,
    },
    /// NR expresses 1 to 256 ranges.
    #[error("Dataset Management of {count} ranges cannot be encoded; split it into commands of 1 to {MAX_RANGES}")]
    Ranges {
        /// The ranges of the command.
        count: usize,
    },
    /// NUMD counts dwords.
    #[error("a zone report of {bytes} bytes cannot be encoded; give a buffer of a multiple of 4 bytes, at least 4")]
    ReportBytes {
        /// Size of the buffer.
        bytes: u32,
    },
}

impl Command {
    /// Decodes a submission queue entry of an I/O queue. `data` is what the host
    /// transferred with it, which Dataset Management needs for its ranges.
    ///
    /// Fields that the command does not define are ignored, as the
    /// specification wants of reserved fields. Dataset Management without the
    /// Deallocate attribute is advice only and deallocates nothing.
    ///
    /// # Errors
    ///
    /// The status a controller completes the command with: an opcode this
    /// crate's [`Command`] has no form for, a fused command, the reserved PSDT
    /// value, ranges that were not all transferred, or a reserved Zone Send
    /// Action, Zone Receive Action, report filter or stream action.
    pub fn decode(entry: &SubmissionEntry, data: &[u8]) -> Result<Self, Status> {
        if entry.fuse() != 0 || entry.psdt() == 0b11 {
            return Err(Status::INVALID_FIELD);
        }
        let nsid = entry.namespace_id();
        let cdw12 = entry.cdw12.get();
        let range = LbaRange { start: Lba(entry.slba()), count: (cdw12 & 0xffff) + 1 };
        let fua = cdw12 & FUA != 0;
        match IoOpcode::try_from(entry.opc)? {
            IoOpcode::Flush => Ok(Self::Flush { nsid }),
            IoOpcode::Read => Ok(Self::Read { nsid, range, fua }),
            IoOpcode::Write => Ok(Self::ordered_write(nsid, range, fua, WriteOrder::of(entry))),
            IoOpcode::WriteZeroes => Ok(Self::WriteZeroes { nsid, range, fua, deallocate: cdw12 & DEAC != 0 }),
            IoOpcode::DatasetManagement if entry.cdw11.get() & AD == 0 => {
                Ok(Self::Deallocate { nsid, ranges: Box::default() })
            }
            IoOpcode::DatasetManagement => {
                let count = (entry.cdw10.get() & 0xff) as usize + 1;
                let (ranges, _) = <[DatasetManagementRange]>::ref_from_prefix_with_elems(data, count)
                    .map_err(|_| Status::DATA_TRANSFER_ERROR)?;
                Ok(Self::Deallocate { nsid, ranges: ranges.iter().map(|range| LbaRange::from(*range)).collect() })
            }
            IoOpcode::ZoneAppend => Ok(Self::ZoneAppend { nsid, zone: range.start, blocks: range.count, fua }),
            IoOpcode::ZoneManagementSend => {
                let cdw13 = entry.cdw13.get();
                Ok(Self::ZoneManagementSend {
                    nsid,
                    start: range.start,
                    action: ZoneSendAction::from_code(cdw13 as u8).ok_or(Status::INVALID_FIELD)?,
                    all: cdw13 & SELECT_ALL != 0,
                    zrwa: cdw13 & ZRWAA != 0,
                })
            }
            IoOpcode::ZoneManagementReceive => {
                let cdw13 = entry.cdw13.get();
                Ok(Self::ZoneManagementReceive {
                    nsid,
                    start: range.start,
                    action: ZoneReceiveAction::from_code(cdw13 as u8).ok_or(Status::INVALID_FIELD)?,
                    filter: ZoneReportFilter::from_code((cdw13 >> 8) as u8).ok_or(Status::INVALID_FIELD)?,
                    partial: cdw13 & PARTIAL_REPORT != 0,
                    bytes: cdw12.saturating_add(1).saturating_mul(4) & MAX_REPORT_BYTES,
                })
            }
            IoOpcode::StreamManagement => {
                let (stream, action) = StreamAction::of(entry)?;
                Ok(Self::StreamManagement { nsid, stream, action })
            }
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// Encodes the command with identifier `cid`; the second value is the data
    /// that Dataset Management transfers (empty for other commands). The data
    /// pointer is left to the transport.
    ///
    /// # Errors
    ///
    /// When a count does not fit its field.
    pub fn encode(&self, cid: CommandId) -> Result<(SubmissionEntry, Vec<u8>), EncodeError> {
        let mut entry = SubmissionEntry { cid: cid.0.into(), nsid: self.nsid().0.into(), ..SubmissionEntry::default() };
        let mut data = Vec::new();
        let (opcode, range, flags) = match self {
            Self::Flush { .. } => (IoOpcode::Flush, None, 0),
            Self::Read { range, fua, .. } => (IoOpcode::Read, Some(*range), if *fua { FUA } else { 0 }),
            Self::Write(WriteCommand { range, fua, .. }) => (IoOpcode::Write, Some(*range), if *fua { FUA } else { 0 }),
            Self::WriteZeroes { range, fua, deallocate, .. } => {
                let flags = if *fua { FUA } else { 0 } | if *deallocate { DEAC } else { 0 };
                (IoOpcode::WriteZeroes, Some(*range), flags)
            }
            Self::Deallocate { ranges, .. } => {
                let count = ranges.len();
                if !(1..=MAX_RANGES).contains(&count) {
                    return Err(EncodeError::Ranges { count });
                }
                entry.cdw10 = (count as u32 - 1).into();
                entry.cdw11 = AD.into();
                for range in ranges {
                    data.extend_from_slice(DatasetManagementRange::from(*range).as_bytes());
                }
                (IoOpcode::DatasetManagement, None, 0)
            }
            Self::ZoneAppend { zone, blocks, fua, .. } => {
                let range = LbaRange { start: *zone, count: *blocks };
                (IoOpcode::ZoneAppend, Some(range), if *fua { FUA } else { 0 })
            }
            Self::ZoneManagementSend { start, action, all, zrwa, .. } => {
                entry.set_slba(start.0);
                let flags = if *all { SELECT_ALL } else { 0 } | if *zrwa { ZRWAA } else { 0 };
                entry.cdw13 = (*action as u32 | flags).into();
                (IoOpcode::ZoneManagementSend, None, 0)
            }
            Self::ZoneManagementReceive { start, action, filter, partial, bytes, .. } => {
                if *bytes == 0 || !bytes.is_multiple_of(4) {
                    return Err(EncodeError::ReportBytes { bytes: *bytes });
                }
                entry.set_slba(start.0);
                entry.cdw12 = (bytes / 4 - 1).into();
                let flags = if *partial { PARTIAL_REPORT } else { 0 };
                entry.cdw13 = (*action as u32 | (*filter as u32) << 8 | flags).into();
                (IoOpcode::ZoneManagementReceive, None, 0)
            }
            Self::StreamManagement { stream, action, .. } => {
                action.set(*stream, &mut entry);
                (IoOpcode::StreamManagement, None, 0)
            }
        };
        entry.opc = opcode as u8;
        if let Some(LbaRange { start, count }) = range {
            if !(1..=MAX_BLOCKS).contains(&count) {
                return Err(EncodeError::Blocks { count });
            }
            entry.set_slba(start.0);
            entry.cdw12 = (flags | (count - 1)).into();
        }
        if let Self::Write(WriteCommand { order, .. }) = self {
            order.set(&mut entry);
        }
        Ok((entry, data))
    }
}
