//! Zone Management Receive: reports (ZNS 3.4.2).

use nvme::{Lba, Status, ZoneAttributes, ZoneDescriptor, ZoneReceiveAction, ZoneReportFilter, ZoneReportHeader};

use super::Zones;

impl Zones {
    /// Writes a report of the zones from the one that holds block `start` on into
    /// `out`, at most `bytes` long: the header (cut off where even that does not
    /// fit), then as many whole descriptors, each with its extension in an
    /// extended report, as fit. An extension
    /// that was never set is reported as zeroes.
    ///
    /// # Errors
    ///
    /// LBA Out of Range; Invalid Field for an extended report where zones have
    /// no extensions.
    pub(crate) fn report(
        &self,
        start: Lba,
        action: ZoneReceiveAction,
        filter: ZoneReportFilter,
        partial: bool,
        bytes: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        if start.0 >= self.blocks() {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        let extension_bytes = match action {
            ZoneReceiveAction::Report => 0,
            ZoneReceiveAction::ExtendedReport if self.extension_bytes == 0 => return Err(Status::INVALID_FIELD),
            ZoneReceiveAction::ExtendedReport => self.extension_bytes,
        };
        let first = (start.0 / self.zone_blocks) as usize;
        let room = (bytes as usize).saturating_sub(ZoneReportHeader::BYTES) / (ZoneDescriptor::BYTES + extension_bytes);

        out.clear();
        out.resize(ZoneReportHeader::BYTES, 0);
        let mut matching = 0_u64;
        for index in first..self.zones.len() {
            let attributes = self.zones[index].attributes;
            if !filter.matches(self.zones[index].state, attributes) {
                continue;
            }
            matching += 1;
            if matching <= room as u64 {
                out.extend_from_slice(&self.descriptor(index).to_bytes());
                let end = out.len() + extension_bytes;
                if attributes.contains(ZoneAttributes::EXTENSION_VALID) {
                    out.extend_from_slice(&self.extensions[self.extension_bytes * index..][..extension_bytes]);
                }
                out.resize(end, 0);
            } else if partial {
                break;
            }
        }
        let zones = if partial { matching.min(room as u64) } else { matching };
        out[..ZoneReportHeader::BYTES].copy_from_slice(&ZoneReportHeader::new(zones).to_bytes());
        out.truncate(bytes as usize);
        Ok(())
    }

    fn descriptor(&self, index: usize) -> ZoneDescriptor {
        let zone = &self.zones[index];
        let start = index as u64 * self.zone_blocks;
        let write_pointer = zone.valid_write_pointer().map(|blocks| Lba(start + blocks));
        ZoneDescriptor::new(zone.state, zone.attributes, self.capacity_blocks, Lba(start), write_pointer)
    }
}
