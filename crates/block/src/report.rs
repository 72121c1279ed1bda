//! Zone reports (block/blk-zoned.c, drivers/nvme/host/zns.c).

use nvme::{NamespaceId, Status, ZoneDescriptor, ZoneReportHeader, ZoneState};
use trace::RequestId;
use zerocopy::FromBytes;

use crate::bio::{Bio, BioFlags, BioOp, Sector};
use crate::device::BlockDevice;
use crate::limits::Limits;

/// A zone as reported (`struct blk_zone`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Its first sector.
    pub start: Sector,
    /// Sectors that can be written, from the first on.
    pub capacity_sectors: u64,
    /// The next sector to write; `None` in the states that have no write pointer
    /// (full, read-only, offline).
    pub write_pointer: Option<Sector>,
    /// Its state.
    pub state: ZoneState,
}

impl BlockDevice {
    /// Asks the device for all zones of a namespace, in order, with as few Zone
    /// Management Receive commands as its transfer limit allows (blkdev_report_zones,
    /// nvme_ns_report_zones). Takes the device's time.
    ///
    /// # Errors
    ///
    /// The status of the command that failed; `INVALID_NAMESPACE` and
    /// `INVALID_OPCODE` where there is no such namespace or it has no zones;
    /// `INTERNAL_ERROR` for a report that is no report.
    pub async fn report_zones(&self, cpu: u16, nsid: NamespaceId) -> Result<Vec<Zone>, Status> {
        let limits = self.limits_of(nsid).ok_or(Status::INVALID_NAMESPACE)?;
        let zone_limits = limits.zoned.as_ref().ok_or(Status::INVALID_OPCODE)?;
        let most = limits.max_hw_sectors * Sector::BYTES;
        let mut zones: Vec<Zone> = Vec::new();
        while (zones.len() as u64) < u64::from(zone_limits.zones) {
            let left = u64::from(zone_limits.zones) - zones.len() as u64;
            let wanted = ZoneReportHeader::BYTES as u64 + left * ZoneDescriptor::BYTES as u64;
            let bio = Bio {
                nsid,
                op: BioOp::ZoneReport,
                sector: zone_limits.start_of(zones.len() as u32),
                bytes: wanted.min(most),
                flags: BioFlags::SYNC,
                data: None,
                order: None,
                request: RequestId::default(),
            };
            let result = self.submit(cpu, bio).await;
            if !result.status.is_success() {
                return Err(result.status);
            }
            let before = zones.len();
            let report = result.data.ok_or(Status::INTERNAL_ERROR)?;
            parse(&report, &limits, &mut zones).ok_or(Status::INTERNAL_ERROR)?;
            if zones.len() == before {
                return Err(Status::INTERNAL_ERROR);
            }
        }
        Ok(zones)
    }
}

/// Appends the zones of a report; `None` if it is none.
fn parse(report: &[u8], limits: &Limits, zones: &mut Vec<Zone>) -> Option<()> {
    let block_sectors = u64::from(limits.logical_block_bytes) / Sector::BYTES;
    let sectors = |blocks: u64| blocks.checked_mul(block_sectors);
    let (header, descriptors) = ZoneReportHeader::read_from_prefix(report).ok()?;
    let listed = usize::try_from(header.nr_zones.get()).ok()?;
    for descriptor in descriptors.chunks_exact(ZoneDescriptor::BYTES).take(listed) {
        let descriptor = ZoneDescriptor::read_from_bytes(descriptor).ok()?;
        let state = descriptor.state()?;
        let has_pointer = !matches!(state, ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline);
        let write_pointer = match has_pointer {
            true => Some(Sector(sectors(descriptor.wp.get())?)),
            false => None,
        };
        zones.push(Zone {
            start: Sector(sectors(descriptor.zslba.get())?),
            capacity_sectors: sectors(descriptor.zcap.get())?,
            write_pointer,
            state,
        });
    }
    Some(())
}
