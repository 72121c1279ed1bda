//! Zone Management Receive.

use nvme::{Status, ZoneDescriptor, ZoneReceiveAction, ZoneReportFilter, ZoneReportHeader, ZoneState};
use zerocopy::FromBytes;

use super::Model;

impl Model {
    pub(super) fn report(
        &self,
        start: u64,
        action: ZoneReceiveAction,
        filter: ZoneReportFilter,
        partial: bool,
        bytes: usize,
    ) -> Result<Vec<u8>, Status> {
        if start >= self.shape.blocks() {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        let extended = action == ZoneReceiveAction::ExtendedReport;
        if extended && self.shape.extension_bytes == 0 {
            return Err(Status::INVALID_FIELD);
        }
        use ZoneState as S;
        let mut listed = Vec::new();
        for index in (start / self.shape.zone_blocks) as usize..self.zones.len() {
            let zone = &self.zones[index];
            let wanted = match filter {
                ZoneReportFilter::All => true,
                ZoneReportFilter::Empty => zone.state == S::Empty,
                ZoneReportFilter::ImplicitlyOpened => zone.state == S::ImplicitlyOpened,
                ZoneReportFilter::ExplicitlyOpened => zone.state == S::ExplicitlyOpened,
                ZoneReportFilter::Closed => zone.state == S::Closed,
                ZoneReportFilter::Full => zone.state == S::Full,
                ZoneReportFilter::ReadOnly => zone.state == S::ReadOnly,
                ZoneReportFilter::Offline => zone.state == S::Offline,
                ZoneReportFilter::AttributeSet => {
                    zone.finished_by_controller || zone.finish_recommended || zone.reset_recommended
                }
            };
            if wanted {
                listed.push(self.describe(index, extended));
            }
        }
        let each = 64 + if extended { self.shape.extension_bytes } else { 0 };
        let fit = listed.len().min(bytes.saturating_sub(64) / each);
        let number = if partial { fit } else { listed.len() } as u64;
        let mut report = [&number.to_le_bytes()[..], &[0; 56]].concat();
        report.extend(listed[..fit].concat());
        report.truncate(bytes);
        Ok(report)
    }

    /// A zone descriptor by the byte numbers of ZNS figure 37.
    fn describe(&self, index: usize, extended: bool) -> Vec<u8> {
        let zone = &self.zones[index];
        let start = index as u64 * self.shape.zone_blocks;
        let mut bytes = vec![0; 64];
        bytes[0] = 2;
        bytes[1] = match zone.state {
            ZoneState::Empty => 0x10,
            ZoneState::ImplicitlyOpened => 0x20,
            ZoneState::ExplicitlyOpened => 0x30,
            ZoneState::Closed => 0x40,
            ZoneState::ReadOnly => 0xd0,
            ZoneState::Full => 0xe0,
            ZoneState::Offline => 0xf0,
        };
        let flags = [
            (zone.finished_by_controller, 0x01),
            (zone.finish_recommended, 0x02),
            (zone.reset_recommended, 0x04),
            (zone.has_zrwa, 0x08),
            (zone.extension.is_some(), 0x80),
        ];
        bytes[2] = flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum();
        bytes[8..16].copy_from_slice(&self.shape.capacity.to_le_bytes());
        bytes[16..24].copy_from_slice(&start.to_le_bytes());
        let pointer = match zone.state {
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => u64::MAX,
            _ => start + zone.pointer,
        };
        bytes[24..32].copy_from_slice(&pointer.to_le_bytes());
        if extended {
            bytes.extend(zone.extension.clone().unwrap_or(vec![0; self.shape.extension_bytes]));
        }
        bytes
    }
}

/// The descriptors of a plain report.
pub fn descriptors(report: &[u8]) -> Vec<ZoneDescriptor> {
    let body = &report[ZoneReportHeader::BYTES..];
    body.chunks_exact(ZoneDescriptor::BYTES)
        .map(|bytes| ZoneDescriptor::read_from_bytes(bytes).expect("64 bytes"))
        .collect()
}
