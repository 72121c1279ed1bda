//! A request of the driver, understood.

use nvme::{Command, Lba, NamespaceId, ZoneReceiveAction, ZoneReportFilter, ZoneSendAction};

use super::abi::{self, IoDescriptor, SECTOR_BYTES};
use super::errno::Errno;
use super::zones;
use crate::backend::Request;

/// What a request asks for. Bytes, except for a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        length: u32,
        fua: bool,
    },
    Flush,
    Discard {
        offset: u64,
        length: u64,
    },
    WriteZeroes {
        offset: u64,
        length: u64,
        fua: bool,
        deallocate: bool,
    },
    /// Write at the write pointer of the zone that starts at `zone`.
    Append {
        zone: u64,
        length: u32,
        fua: bool,
    },
    /// Open, close, finish or reset the zone that starts at `zone`.
    ManageZone {
        zone: u64,
        action: ZoneSendAction,
    },
    ResetAllZones,
    /// Report up to `zones` zones from the one at `first` on.
    ReportZones {
        first: u64,
        zones: u32,
    },
}

impl Operation {
    /// Understands a descriptor. The driver is trusted to write to this memory
    /// alone, but not to write what this server knows.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for an unknown operation, `EINVAL` for an extent that cannot be.
    pub(crate) fn decode(descriptor: &IoDescriptor) -> Result<Self, Errno> {
        use abi::operation as op;
        let code = descriptor.op_flags.to_le_bytes()[0];
        if code == op::FLUSH {
            return Ok(Self::Flush);
        }
        if code == op::ZONE_RESET_ALL {
            return Ok(Self::ResetAllZones);
        }
        let flags = descriptor.op_flags;
        let fua = flags & abi::FLAG_FUA != 0;
        let start = descriptor.start_sector.checked_mul(SECTOR_BYTES).ok_or(Errno::INVALID)?;
        let bytes = u64::from(descriptor.count) * SECTOR_BYTES;
        // Requests with data are held in memory whole.
        let data_bytes = || match u32::try_from(bytes) {
            Ok(bytes) if bytes <= abi::MAX_REQUEST_BYTES => Ok(bytes),
            _ => Err(Errno::INVALID),
        };
        let manage = |action| Ok(Self::ManageZone { zone: start, action });
        match code {
            op::READ => Ok(Self::Read { offset: start, length: data_bytes()? }),
            op::WRITE => Ok(Self::Write { offset: start, length: data_bytes()?, fua }),
            op::DISCARD => Ok(Self::Discard { offset: start, length: bytes }),
            op::WRITE_ZEROES => {
                let deallocate = flags & abi::FLAG_NOUNMAP == 0;
                Ok(Self::WriteZeroes { offset: start, length: bytes, fua, deallocate })
            }
            op::ZONE_APPEND => Ok(Self::Append { zone: start, length: data_bytes()?, fua }),
            op::ZONE_OPEN => manage(ZoneSendAction::Open),
            op::ZONE_CLOSE => manage(ZoneSendAction::Close),
            op::ZONE_FINISH => manage(ZoneSendAction::Finish),
            op::ZONE_RESET => manage(ZoneSendAction::Reset),
            op::REPORT_ZONES => Ok(Self::ReportZones { first: start, zones: descriptor.count }),
            _ => Err(Errno::NOT_SUPPORTED),
        }
    }

    /// Bytes that the driver has for the server.
    pub(crate) fn payload_bytes(&self) -> u32 {
        match *self {
            Self::Write { length, .. } | Self::Append { length, .. } => length,
            _ => 0,
        }
    }

    /// Whether it changes what is stored.
    pub(crate) fn changes_contents(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::Flush | Self::ReportZones { .. })
    }

    /// What to ask of the device, whose logical blocks are `lba_bytes` long, with
    /// `data` of [`payload_bytes`](Self::payload_bytes).
    ///
    /// # Errors
    ///
    /// `EINVAL` for a zone address that is no block's, `EOPNOTSUPP` for zones on a
    /// device without.
    pub(crate) fn into_request(self, nsid: NamespaceId, geometry: Geometry, data: Box<[u8]>) -> Result<Request, Errno> {
        let lba_bytes = u64::from(geometry.lba_bytes);
        let block = |offset: u64| match geometry.zoned {
            false => Err(Errno::NOT_SUPPORTED),
            true if offset.is_multiple_of(lba_bytes) => Ok(Lba(offset / lba_bytes)),
            true => Err(Errno::INVALID),
        };
        let command = |command, data| Ok(Request::Command { command, data });
        match self {
            Self::Read { offset, length } => Ok(Request::Read { offset, length }),
            Self::Write { offset, fua, .. } => Ok(Request::Write { offset, data, fua }),
            Self::Flush => Ok(Request::Flush),
            Self::Discard { offset, length } => Ok(Request::Trim { offset, length, fua: false }),
            Self::WriteZeroes { offset, length, fua, deallocate } => {
                Ok(Request::WriteZeroes { offset, length, fua, deallocate })
            }
            Self::Append { zone, length, fua } => {
                // Below the block's size the count would be zero.
                if length == 0 || !length.is_multiple_of(geometry.lba_bytes) {
                    return Err(Errno::INVALID);
                }
                let blocks = length / geometry.lba_bytes;
                command(Command::ZoneAppend { nsid, zone: block(zone)?, blocks, fua }, Some(data))
            }
            Self::ManageZone { zone, action } => {
                let start = block(zone)?;
                command(Command::ZoneManagementSend { nsid, start, action, all: false, zrwa: false }, None)
            }
            Self::ResetAllZones => {
                let (start, action) = (block(0)?, ZoneSendAction::Reset);
                command(Command::ZoneManagementSend { nsid, start, action, all: true, zrwa: false }, None)
            }
            Self::ReportZones { first, zones } => {
                let receive = Command::ZoneManagementReceive {
                    nsid,
                    start: block(first)?,
                    action: ZoneReceiveAction::Report,
                    filter: ZoneReportFilter::All,
                    partial: true,
                    bytes: zones::report_bytes(zones),
                };
                command(receive, None)
            }
        }
    }
}

/// What of a namespace the translation of requests depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    pub(crate) lba_bytes: u32,
    pub(crate) zoned: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GEOMETRIES: [Geometry; 4] = [
        Geometry { lba_bytes: 512, zoned: false },
        Geometry { lba_bytes: 4096, zoned: false },
        Geometry { lba_bytes: 512, zoned: true },
        Geometry { lba_bytes: 4096, zoned: true },
    ];

    fn descriptor(op: u8, flags: u32, start_sector: u64, count: u32) -> IoDescriptor {
        IoDescriptor { op_flags: u32::from(op) | flags, count, start_sector, addr: 0 }
    }

    #[test]
    fn flags_reach_the_request() {
        use abi::operation as op;
        let write = descriptor(op::WRITE, abi::FLAG_FUA, 8, 16);
        assert_eq!(Operation::decode(&write), Ok(Operation::Write { offset: 4096, length: 8192, fua: true }));
        let zeroes = descriptor(op::WRITE_ZEROES, abi::FLAG_NOUNMAP, 1, u32::MAX);
        assert_eq!(
            Operation::decode(&zeroes),
            Ok(Operation::WriteZeroes {
                offset: 512,
                length: u64::from(u32::MAX) * 512,
                fua: false,
                deallocate: false
            })
        );
        assert_eq!(Operation::decode(&descriptor(4, 0, 0, 1)), Err(Errno::NOT_SUPPORTED), "write same");
        assert_eq!(Operation::decode(&descriptor(op::READ, 0, 0, 1 << 17)), Err(Errno::INVALID), "64 MiB");
        assert_eq!(Operation::decode(&descriptor(op::READ, 0, u64::MAX, 1)), Err(Errno::INVALID));
    }

    #[test]
    fn zones_need_a_zoned_device_and_whole_blocks() {
        let open = Operation::decode(&descriptor(abi::operation::ZONE_OPEN, 0, 9, 0)).unwrap();
        let request = |geometry| open.into_request(NamespaceId::FIRST, geometry, Box::default());
        assert_eq!(request(GEOMETRIES[0]).unwrap_err(), Errno::NOT_SUPPORTED);
        assert_eq!(request(GEOMETRIES[3]).unwrap_err(), Errno::INVALID);
        let Ok(Request::Command { command: Command::ZoneManagementSend { start, action, all, .. }, .. }) =
            request(GEOMETRIES[2])
        else {
            panic!("not a zone command");
        };
        assert_eq!((start, action, all), (Lba(9), ZoneSendAction::Open, false));
    }

    proptest! {
        /// Whatever the shared memory holds, a descriptor is a bounded request or
        /// an error.
        #[test]
        fn arbitrary_descriptors(
            op_flags in prop_oneof![any::<u32>(), (0_u32..24)],
            count in prop_oneof![any::<u32>(), (0_u32..1 << 16)],
            start_sector in prop_oneof![any::<u64>(), (0_u64..1 << 32)],
            addr: u64,
            geometry in prop::sample::select(&GEOMETRIES[..]),
        ) {
            let descriptor = IoDescriptor { op_flags, count, start_sector, addr };
            let Ok(operation) = Operation::decode(&descriptor) else { return Ok(()) };
            prop_assert!(operation.payload_bytes() <= abi::MAX_REQUEST_BYTES);
            let data = vec![0; operation.payload_bytes() as usize].into();
            let Ok(request) = operation.into_request(NamespaceId::FIRST, geometry, data) else { return Ok(()) };
            match request {
                Request::Read { length, .. } => prop_assert!(length <= abi::MAX_REQUEST_BYTES),
                Request::Write { data, .. } => prop_assert_eq!(data.len() as u64, u64::from(count) * 512),
                Request::Command { command: Command::ZoneAppend { blocks, .. }, data } => {
                    let expected = data.map_or(0, |data| data.len() as u64);
                    prop_assert_eq!(u64::from(blocks) * u64::from(geometry.lba_bytes), expected);
                }
                Request::Command { command: Command::ZoneManagementReceive { bytes, .. }, .. } => {
                    prop_assert!(bytes <= abi::MAX_REQUEST_BYTES + 64);
                }
                _ => {}
            }
        }
    }
}
