//! Which data goes with a command, by its SGL descriptor (TCP 3.3.2.1, Base
//! 4.1.2).
//!
//! Two descriptors have a meaning over TCP: a Data Block with an offset into the
//! capsule, for data that came along, and a Transport Data Block, for data that
//! travels in PDUs of its own.

use nvme::{AdminOpcode, SglDescriptor, SglDescriptorType, Status, SubmissionEntry};
use std::ops::Range;

use crate::subsystem::Transfer;

/// Subtype of a Transport Data Block: NVMe Transport Specific (Base figure 116).
const SUBTYPE_TRANSPORT: u8 = 0xa;

/// How a command gets its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DataPlan {
    /// It has what it needs: this part of the in-capsule data.
    Ready(Range<usize>),
    /// The host has to be asked for `bytes`.
    Fetch {
        /// Bytes to ask for; whole dwords, not zero.
        bytes: u32,
    },
    /// The host waits for at most `bytes`.
    Give {
        /// Most bytes to send.
        bytes: u32,
    },
}

/// Says how the command gets the data that `transfer` wants, when `in_capsule`
/// bytes came with it.
pub(super) fn plan(entry: &SubmissionEntry, transfer: Transfer, in_capsule: usize) -> Result<DataPlan, Status> {
    let (bytes, to_host) = match transfer {
        // The data pointer of a command without data means nothing.
        Transfer::None => return Ok(DataPlan::Ready(0..0)),
        Transfer::HostToController { bytes } => (bytes, false),
        Transfer::ControllerToHost { bytes } => (bytes, true),
    };
    if bytes == 0 {
        return Ok(DataPlan::Ready(0..0));
    }
    // Fabrics commands have no PSDT field (Base 6.1); others use SGLs only (Base
    // 4.1.2: a fabric has no PRPs).
    if entry.opc != AdminOpcode::Fabrics as u8 && !matches!(entry.psdt(), 0b01 | 0b10) {
        return Err(Status::INVALID_FIELD);
    }
    let sgl = entry.dptr;
    let length = sgl.length.get();
    match (sgl.descriptor_type(), sgl.subtype()) {
        (Some(SglDescriptorType::DataBlock), SglDescriptor::SUBTYPE_OFFSET) if !to_host => {
            let start = usize::try_from(sgl.address.get()).map_err(|_| Status::SGL_OFFSET_INVALID)?;
            let end = start.checked_add(length as usize).ok_or(Status::SGL_OFFSET_INVALID)?;
            if end > in_capsule {
                return Err(Status::SGL_OFFSET_INVALID);
            }
            if length < bytes {
                return Err(Status::DATA_SGL_LENGTH_INVALID);
            }
            Ok(DataPlan::Ready(start..start + bytes as usize))
        }
        (Some(SglDescriptorType::TransportDataBlock), SUBTYPE_TRANSPORT) => {
            // Transfers are whole dwords (TCP 3.3.2.1).
            if length < bytes || bytes % 4 != 0 {
                return Err(Status::DATA_SGL_LENGTH_INVALID);
            }
            Ok(if to_host { DataPlan::Give { bytes } } else { DataPlan::Fetch { bytes } })
        }
        _ => Err(Status::SGL_TYPE_INVALID),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: SglDescriptorType, subtype: u8, address: u64, length: u32) -> SubmissionEntry {
        let dptr = SglDescriptor::new(kind, subtype, address, length);
        SubmissionEntry { opc: 1, flags: 0x40, dptr, ..SubmissionEntry::default() }
    }

    #[test]
    fn descriptors() {
        use SglDescriptorType::{DataBlock, KeyedDataBlock, TransportDataBlock};
        let write = |bytes| Transfer::HostToController { bytes };
        let read = |bytes| Transfer::ControllerToHost { bytes };
        let in_capsule = |address, length| entry(DataBlock, 1, address, length);
        let transport = |length| entry(TransportDataBlock, 0xa, 0, length);
        for (entry, transfer, capsule, expected) in [
            (in_capsule(0, 512), write(512), 512, Ok(DataPlan::Ready(0..512))),
            (in_capsule(512, 4096), write(16), 8192, Ok(DataPlan::Ready(512..528))),
            (in_capsule(0, 512), write(512), 508, Err(Status::SGL_OFFSET_INVALID)),
            (in_capsule(u64::MAX, 512), write(512), 512, Err(Status::SGL_OFFSET_INVALID)),
            (in_capsule(0, 512), write(516), 512, Err(Status::DATA_SGL_LENGTH_INVALID)),
            (in_capsule(0, 512), read(512), 512, Err(Status::SGL_TYPE_INVALID)),
            (transport(4096), write(4096), 0, Ok(DataPlan::Fetch { bytes: 4096 })),
            (transport(4096), write(16), 0, Ok(DataPlan::Fetch { bytes: 16 })),
            (transport(4096), read(4096), 0, Ok(DataPlan::Give { bytes: 4096 })),
            (transport(4092), read(4096), 0, Err(Status::DATA_SGL_LENGTH_INVALID)),
            (transport(4096), write(15), 0, Err(Status::DATA_SGL_LENGTH_INVALID)),
            (entry(KeyedDataBlock, 0, 0, 512), write(512), 0, Err(Status::SGL_TYPE_INVALID)),
            (entry(DataBlock, 0, 0, 512), write(512), 512, Err(Status::SGL_TYPE_INVALID)),
            (entry(KeyedDataBlock, 0, 0, 512), Transfer::None, 512, Ok(DataPlan::Ready(0..0))),
            (transport(0), write(0), 0, Ok(DataPlan::Ready(0..0))),
        ] {
            assert_eq!(plan(&entry, transfer, capsule), expected, "{:?} {transfer:?}", entry.dptr);
        }
        let prps = SubmissionEntry { flags: 0, ..transport(512) };
        assert_eq!(plan(&prps, write(512), 0), Err(Status::INVALID_FIELD));
        let connect = SubmissionEntry { opc: 0x7f, flags: 0, ..in_capsule(0, 1024) };
        assert_eq!(plan(&connect, write(1024), 1024), Ok(DataPlan::Ready(0..1024)));
    }
}
