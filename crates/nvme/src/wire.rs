//! Commands to and from submission queue entries.

use zerocopy::{FromBytes, IntoBytes};

use crate::{Command, CommandId, DatasetManagementRange, IoOpcode, Lba, LbaRange, Status, SubmissionEntry};

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
    /// value, or ranges that were not all transferred.
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
            IoOpcode::Write => Ok(Self::Write { nsid, range, fua }),
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
            Self::Read { range, fua, .. } => (IoOpcode::Read, Some(range), if *fua { FUA } else { 0 }),
            Self::Write { range, fua, .. } => (IoOpcode::Write, Some(range), if *fua { FUA } else { 0 }),
            Self::WriteZeroes { range, fua, deallocate, .. } => {
                let flags = if *fua { FUA } else { 0 } | if *deallocate { DEAC } else { 0 };
                (IoOpcode::WriteZeroes, Some(range), flags)
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
            Self::ZoneAppend { .. } | Self::ZoneManagementSend { .. } | Self::ZoneManagementReceive { .. } => {
                unimplemented!("zoned commands on the wire")
            }
        };
        entry.opc = opcode as u8;
        if let Some(&LbaRange { start, count }) = range {
            if !(1..=MAX_BLOCKS).contains(&count) {
                return Err(EncodeError::Blocks { count });
            }
            entry.set_slba(start.0);
            entry.cdw12 = (flags | (count - 1)).into();
        }
        Ok((entry, data))
    }
}
