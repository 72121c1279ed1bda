//! Zone reports: from the device's words to the block layer's.

use nvme::{ZoneDescriptor, ZoneReportHeader, ZoneState};
use zerocopy::{FromBytes, IntoBytes};

use super::abi::{BlockZone, MAX_REQUEST_BYTES, SECTOR_BYTES};

/// Size of the report to ask for so that `zones` zones fit. A driver that asks for
/// more than one request's data gets what fits, as its report of none says.
pub(crate) fn report_bytes(zones: u32) -> u32 {
    const MOST: u32 = MAX_REQUEST_BYTES / BlockZone::BYTES as u32;
    ZoneReportHeader::BYTES as u32 + zones.min(MOST) * ZoneDescriptor::BYTES as u32
}

/// A report as the block layer wants it: `struct blk_zone`s, ended by one of length
/// zero where fewer than `zones` are left. What does not parse is left out.
pub(crate) fn block_zones(report: &[u8], zones: u32, lba_bytes: u32, zone_bytes: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(report.len());
    let sectors_per_block = u64::from(lba_bytes) / SECTOR_BYTES;
    let Ok((header, descriptors)) = ZoneReportHeader::read_from_prefix(report) else { return out };
    let count = header.nr_zones.get().min(u64::from(zones)) as usize;
    for descriptor in descriptors.chunks_exact(ZoneDescriptor::BYTES).take(count) {
        let Ok(descriptor) = ZoneDescriptor::read_from_bytes(descriptor) else { break };
        let Some(zone) = block_zone(&descriptor, sectors_per_block, zone_bytes / SECTOR_BYTES) else { break };
        out.extend_from_slice(zone.as_bytes());
    }
    if out.len() < zones as usize * BlockZone::BYTES {
        out.extend_from_slice(BlockZone::default().as_bytes());
    }
    out
}

/// As Linux's NVMe driver does it (`nvme_zone_parse_entry` of
/// `drivers/nvme/host/zns.c`): the conditions have the same codes in both, and the
/// write pointer of a full zone is its end.
fn block_zone(descriptor: &ZoneDescriptor, sectors_per_block: u64, zone_sectors: u64) -> Option<BlockZone> {
    let state = descriptor.state()?;
    let start = descriptor.zslba.get().checked_mul(sectors_per_block)?;
    let wp = match state {
        ZoneState::Full => start.checked_add(zone_sectors)?,
        _ => descriptor.wp.get().saturating_mul(sectors_per_block),
    };
    Some(BlockZone {
        start,
        len: zone_sectors,
        wp,
        zone_type: BlockZone::SEQUENTIAL_WRITE_REQUIRED,
        cond: state as u8,
        capacity: descriptor.zcap.get().checked_mul(sectors_per_block)?,
        ..BlockZone::default()
    })
}

#[cfg(test)]
mod tests {
    use nvme::{Lba, ZoneAttributes};
    use proptest::prelude::*;

    use super::*;

    const LBA_BYTES: u32 = 4096;
    const ZONE_BYTES: u64 = 2 << 30;
    const ZONE_BLOCKS: u64 = ZONE_BYTES / LBA_BYTES as u64;
    const CAPACITY_BLOCKS: u64 = 275_712;

    fn report(zones: &[(ZoneState, Option<Lba>)]) -> Vec<u8> {
        let mut bytes = ZoneReportHeader::new(zones.len() as u64).to_bytes().to_vec();
        for (index, (state, wp)) in zones.iter().enumerate() {
            let start = Lba(index as u64 * ZONE_BLOCKS);
            let zone = ZoneDescriptor::new(*state, ZoneAttributes::empty(), CAPACITY_BLOCKS, start, *wp);
            bytes.extend_from_slice(&zone.to_bytes());
        }
        bytes
    }

    fn zones_of(bytes: &[u8]) -> Vec<BlockZone> {
        bytes.chunks_exact(BlockZone::BYTES).map(|zone| BlockZone::read_from_bytes(zone).unwrap()).collect()
    }

    #[test]
    fn in_sectors_and_ended() {
        let bytes = report(&[
            (ZoneState::Empty, Some(Lba(0))),
            (ZoneState::ImplicitlyOpened, Some(Lba(ZONE_BLOCKS + 3))),
            (ZoneState::Full, None),
        ]);
        let zones = zones_of(&block_zones(&bytes, 5, LBA_BYTES, ZONE_BYTES));
        assert_eq!(zones.len(), 4);
        assert_eq!(zones[1].start, 1 << 22);
        assert_eq!(zones[1].len, 1 << 22);
        assert_eq!(zones[1].wp, (1 << 22) + 24);
        assert_eq!(zones[1].capacity, CAPACITY_BLOCKS * 8);
        // BLK_ZONE_COND_IMP_OPEN and BLK_ZONE_COND_FULL.
        assert_eq!((zones[1].cond, zones[2].cond), (2, 0xe));
        assert_eq!(zones[2].wp, 3 << 22);
        assert_eq!(zones[3], BlockZone::default());
        let zones = zones_of(&block_zones(&bytes, 3, LBA_BYTES, ZONE_BYTES));
        assert_eq!(zones.len(), 3, "a full report needs no end");
    }

    proptest! {
        #[test]
        fn arbitrary_reports(bytes in prop::collection::vec(any::<u8>(), 0..1024), zones in 0_u32..20) {
            let out = block_zones(&bytes, zones, LBA_BYTES, ZONE_BYTES);
            prop_assert!(out.len() <= zones as usize * BlockZone::BYTES);
            prop_assert_eq!(out.len() % BlockZone::BYTES, 0);
        }
    }

    #[test]
    fn a_huge_report_is_bounded() {
        assert_eq!(report_bytes(u32::MAX), (32 << 20) + 64);
        assert_eq!(report_bytes(3), 256);
    }
}
