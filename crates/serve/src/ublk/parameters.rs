//! What the kernel is told about a namespace.

use ssd::Identity;

use super::abi::{
    self, BasicParameters, DiscardParameters, Parameters, SECTOR_BYTES, SECTOR_SHIFT, ZonedParameters, attribute,
    parameter,
};
use super::error::UblkError;

/// Smallest and largest logical block that the driver takes: a sector and a page.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=4096;

/// The driver refuses requests that cannot hold a page.
const MIN_REQUEST_BYTES: u32 = 4096;

/// Requests over all queues: each is one command in the ring all the time.
const MAX_REQUESTS: u32 = 1 << 15;

/// Most data of one request: what one command carries, in whole pages.
pub(crate) fn max_request_bytes(identity: &Identity) -> u32 {
    let bytes = identity.max_transfer_bytes.min(abi::MAX_REQUEST_BYTES);
    (bytes / MIN_REQUEST_BYTES * MIN_REQUEST_BYTES).max(MIN_REQUEST_BYTES)
}

/// Queues and their depth, on a machine with `cpus` CPUs: as many as the device has
/// and CPUs can use. As Linux's NVMe driver does, one entry stays free, without
/// which a full queue could not be told from an empty one.
pub(crate) fn queues(identity: &Identity, cpus: u16) -> (u16, u16) {
    let queues = identity.queues.min(cpus).max(1);
    let per_queue = u16::try_from(MAX_REQUESTS / u32::from(queues)).unwrap_or(u16::MAX);
    let depth = identity.queue_depth.min(abi::MAX_QUEUE_DEPTH).min(per_queue).max(1);
    (queues, depth)
}

/// The parameters of namespace `index` (counted from 0).
///
/// Limits are those that Linux's NVMe driver derives from the same description, so
/// that both front-ends cut a stream of requests into the same commands.
///
/// # Errors
///
/// A logical block that ublk has no words for, or zones that Linux refuses.
pub(crate) fn parameters(identity: &Identity, index: usize, read_only: bool) -> Result<Parameters, UblkError> {
    let lba_bytes = identity.lba_bytes;
    if !lba_bytes.is_power_of_two() || !BLOCK_BYTES.contains(&lba_bytes) {
        return Err(UblkError::BlockSize { lba_bytes });
    }
    let blocks = identity.namespace_blocks.get(index).copied().unwrap_or(0);
    let block_shift = lba_bytes.trailing_zeros() as u8;
    let sectors = |blocks: u64| blocks.saturating_mul(u64::from(lba_bytes) / SECTOR_BYTES);
    let max_sectors = max_request_bytes(identity) >> SECTOR_SHIFT;

    let mut attrs = 0;
    for (present, bit) in [
        (read_only, attribute::READ_ONLY),
        (identity.rotational, attribute::ROTATIONAL),
        (identity.volatile_write_cache, attribute::VOLATILE_CACHE),
        (identity.volatile_write_cache && identity.supports_fua, attribute::FUA),
    ] {
        if present {
            attrs |= bit;
        }
    }
    let mut parameters = Parameters {
        len: size_of::<Parameters>() as u32,
        types: parameter::BASIC | parameter::DISCARD,
        basic: BasicParameters {
            attrs,
            logical_bs_shift: block_shift,
            physical_bs_shift: block_shift,
            io_opt_shift: block_shift,
            io_min_shift: block_shift,
            max_sectors,
            chunk_sectors: 0,
            dev_sectors: sectors(blocks),
            virt_boundary_mask: 0,
        },
        discard: DiscardParameters {
            discard_alignment: 0,
            discard_granularity: lba_bytes,
            max_discard_sectors: if identity.supports_deallocate { u32::MAX >> SECTOR_SHIFT } else { 0 },
            max_write_zeroes_sectors: max_sectors,
            max_discard_segments: u16::from(identity.supports_deallocate),
            reserved0: 0,
        },
        ..Parameters::default()
    };
    if let Some(zoned) = &identity.zoned {
        let zone_sectors = sectors(zoned.zone_blocks);
        let chunk_sectors = u32::try_from(zone_sectors).ok().filter(|sectors| sectors.is_power_of_two());
        let Some(chunk_sectors) = chunk_sectors else {
            return Err(UblkError::ZoneSize { zone_bytes: zone_sectors.saturating_mul(SECTOR_BYTES) });
        };
        let zones = u32::try_from(blocks / zoned.zone_blocks.max(1)).unwrap_or(u32::MAX);
        // Zero is "no limit"; a limit that cannot be reached is refused.
        let limit = |limit: Option<u32>| limit.filter(|limit| *limit <= zones).unwrap_or(0);
        parameters.types |= parameter::ZONED;
        parameters.basic.chunk_sectors = chunk_sectors;
        parameters.zoned = ZonedParameters {
            max_open_zones: limit(zoned.max_open),
            max_active_zones: limit(zoned.max_active),
            max_zone_append_sectors: (zoned.append_limit_bytes >> SECTOR_SHIFT).min(max_sectors),
            reserved: [0; 20],
        };
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ssd::{Device, NullDevice, ZonedIdentity};
    use units::Nanos;

    use super::*;

    fn identity() -> Identity {
        NullDevice::new(1 << 20, 4096, Nanos(1)).identity().clone()
    }

    fn zoned(zone_blocks: u64, max_open: Option<u32>) -> ZonedIdentity {
        ZonedIdentity {
            zone_blocks,
            zone_capacity_blocks: zone_blocks,
            max_open,
            max_active: max_open,
            append_limit_bytes: 1 << 18,
            reads_across_zones: true,
            descriptor_extension_bytes: 0,
            zrwa: None,
        }
    }

    #[test]
    fn cache_and_fua() {
        let mut identity = identity();
        assert_eq!(parameters(&identity, 0, false).unwrap().basic.attrs, 0, "FUA means nothing without a cache");
        identity.volatile_write_cache = true;
        let attrs = parameters(&identity, 0, true).unwrap().basic.attrs;
        assert_eq!(attrs, attribute::READ_ONLY | attribute::VOLATILE_CACHE | attribute::FUA);
        identity.supports_fua = false;
        assert_eq!(parameters(&identity, 0, false).unwrap().basic.attrs, attribute::VOLATILE_CACHE);
    }

    #[test]
    fn zones_are_powers_of_two_below_two_tebibytes() {
        let mut identity = identity();
        identity.zoned = Some(zoned(1 << 16, Some(14)));
        let found = parameters(&identity, 0, false).unwrap();
        assert_eq!(found.basic.chunk_sectors, 1 << 19);
        assert_eq!((found.zoned.max_open_zones, found.zoned.max_zone_append_sectors), (14, 512));
        // 1 << 20 blocks hold 16 such zones.
        identity.zoned = Some(zoned(1 << 16, Some(17)));
        assert_eq!(parameters(&identity, 0, false).unwrap().zoned.max_open_zones, 0);
        for blocks in [3 << 16, 1 << 40] {
            identity.zoned = Some(zoned(blocks, None));
            assert!(matches!(parameters(&identity, 0, false), Err(UblkError::ZoneSize { .. })), "{blocks}");
        }
    }

    #[test]
    fn queues_follow_device_and_cpus() {
        let mut identity = identity();
        assert_eq!(queues(&identity, 2), (2, 1023));
        assert_eq!(queues(&identity, 128), (64, 512), "bounded over all queues");
        (identity.queues, identity.queue_depth) = (1, 32);
        assert_eq!(queues(&identity, 8), (1, 32));
    }

    proptest! {
        /// What the driver's `ublk_validate_params` checks.
        #[test]
        fn the_driver_takes_them(
            lba_shift in 0_u32..20,
            blocks: u64,
            max_transfer_bytes: u32,
            zone_blocks in prop::option::of(prop_oneof![any::<u64>(), (0_u32..40).prop_map(|shift| 1 << shift)]),
            limit in prop::option::of(0_u32..100),
            deallocate: bool,
        ) {
            let mut identity = identity();
            identity.lba_bytes = 1 << lba_shift;
            identity.namespace_blocks = vec![blocks];
            identity.max_transfer_bytes = max_transfer_bytes;
            identity.supports_deallocate = deallocate;
            identity.zoned = zone_blocks.map(|blocks| zoned(blocks, limit));
            let Ok(found) = parameters(&identity, 0, false) else { return Ok(()) };
            let basic = found.basic;
            prop_assert!((9..=12).contains(&basic.logical_bs_shift));
            prop_assert!(basic.logical_bs_shift <= basic.physical_bs_shift);
            prop_assert!(basic.max_sectors >= 8 && basic.max_sectors <= max_request_bytes(&identity) >> 9);
            prop_assert!(found.discard.discard_granularity > 0);
            prop_assert!(found.discard.max_discard_sectors == 0 || found.discard.max_discard_segments == 1);
            if identity.zoned.is_some() {
                prop_assert!(basic.chunk_sectors.is_power_of_two());
                let zones = basic.dev_sectors >> basic.chunk_sectors.trailing_zeros();
                prop_assert!(u64::from(found.zoned.max_open_zones) <= zones);
                prop_assert!(u64::from(found.zoned.max_active_zones) <= zones);
                prop_assert!(found.zoned.max_zone_append_sectors > 0);
            }
        }
    }
}
