//! The Identify data structures of the Zoned Namespace Command Set (CSI 02h):
//! namespace (CNS 05h; ZNS 4.1.5.1, figures 48 and 49) and controller (CNS 06h;
//! ZNS 4.1.5.2, figure 50). The ZRWA fields are from TP 4076.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identify::{FactsError, IDENTIFY_BYTES};

/// The page that ZASL counts in, as MDTS does.
const PAGE_BYTES: u32 = 4096;
/// The unit of ZDES.
const ZDES_BYTES: u32 = 64;
/// OZCS bit 0: Read Across Zone Boundaries.
const RAZB: u16 = 1 << 0;
/// OZCS bit 1: ZRWA Supported.
const ZRWASUP: u16 = 1 << 1;
/// ZRWACAP bit 0: Explicit ZRWA Flush Supported.
const EXPFLUSHSUP: u8 = 1 << 0;
/// MAR and MOR: no limit.
const NO_LIMIT: u32 = u32::MAX;

/// An LBA Format Extension (ZNS figure 49).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ZoneFormat {
    /// Zone Size (ZSZE) in logical blocks.
    pub zsze: U64,
    /// Zone Descriptor Extension Size (ZDES) in 64-byte units.
    pub zdes: u8,
    /// Reserved.
    pub rsvd9: [u8; 7],
}

const _: () = assert!(size_of::<ZoneFormat>() == 16);

/// The I/O Command Set specific Identify Namespace data structure (ZNS figure 48).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IdentifyZonedNamespace {
    /// Zone Operation Characteristics.
    pub zoc: U16,
    /// Optional Zoned Command Support.
    pub ozcs: U16,
    /// Maximum Active Resources, zero-based; all ones for no limit.
    pub mar: U32,
    /// Maximum Open Resources, zero-based; all ones for no limit.
    pub mor: U32,
    /// Reset Recommended Limit in seconds.
    pub rrl: U32,
    /// Finish Recommended Limit in seconds.
    pub frl: U32,
    /// Reset Recommended Limit 1.
    pub rrl1: U32,
    /// Reset Recommended Limit 2.
    pub rrl2: U32,
    /// Reset Recommended Limit 3.
    pub rrl3: U32,
    /// Finish Recommended Limit 1.
    pub frl1: U32,
    /// Finish Recommended Limit 2.
    pub frl2: U32,
    /// Finish Recommended Limit 3.
    pub frl3: U32,
    /// Number of ZRWA Resources, zero-based.
    pub numzrwa: U32,
    /// ZRWA Flush Granularity in logical blocks.
    pub zrwafg: U16,
    /// ZRWA Size in logical blocks.
    pub zrwasz: U16,
    /// ZRWA Capability.
    pub zrwacap: u8,
    /// Reserved.
    pub rsvd53: [u8; 2763],
    /// LBA Format Extensions.
    pub lbafe: [ZoneFormat; 64],
    /// Vendor specific.
    pub vs: [u8; 256],
}

const _: () = assert!(size_of::<IdentifyZonedNamespace>() == IDENTIFY_BYTES);

/// The I/O Command Set specific Identify Controller data structure (ZNS figure 50).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IdentifyZonedController {
    /// Zone Append Size Limit as a power of two of 4 KiB pages; 0: as MDTS.
    pub zasl: u8,
    /// Reserved.
    pub rsvd1: [u8; 4095],
}

const _: () = assert!(size_of::<IdentifyZonedController>() == IDENTIFY_BYTES);

/// What a modelled zoned namespace has to say about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedFacts {
    /// Distance between zone starts in logical blocks.
    pub zone_blocks: u64,
    /// Zones that may be open at once; `None`: no limit.
    pub max_open: Option<u32>,
    /// Zones that may be active at once; `None`: no limit.
    pub max_active: Option<u32>,
    /// Whether a read may cross into the next zone.
    pub reads_across_zones: bool,
    /// Size of a Zone Descriptor Extension in bytes; 0: none.
    pub descriptor_extension_bytes: u32,
    /// Zone Random Write Areas, where there are any.
    pub zrwa: Option<ZrwaFacts>,
}

/// Zone Random Write Areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZrwaFacts {
    /// Size of one in logical blocks.
    pub size_blocks: u16,
    /// Blocks a commit is a multiple of.
    pub commit_granularity_blocks: u16,
    /// How many zones may have one at once; at least 1.
    pub zones_max: u32,
}

impl IdentifyZonedNamespace {
    /// The structure for a namespace with one LBA format. Zone capacities are
    /// fixed, and the controller finishes no zone by itself (ZOC is 0).
    ///
    /// # Errors
    ///
    /// When a fact has no form in the structure.
    pub fn of(facts: &ZonedFacts) -> Result<Self, FactsError> {
        let ZonedFacts { max_open, max_active, descriptor_extension_bytes: bytes, .. } = *facts;
        let zdes = u8::try_from(bytes / ZDES_BYTES).ok().filter(|_| bytes.is_multiple_of(ZDES_BYTES));
        let zdes = zdes.ok_or(FactsError::DescriptorExtension { bytes })?;
        let zero_based = |limit: Option<u32>| match limit {
            None => Some(NO_LIMIT),
            Some(limit) => limit.checked_sub(1),
        };
        let (Some(mor), Some(mar)) = (zero_based(max_open), zero_based(max_active)) else {
            return Err(FactsError::ZoneLimits { max_open, max_active });
        };
        if mor > mar {
            return Err(FactsError::ZoneLimits { max_open, max_active });
        }
        let mut id = Self::new_zeroed();
        id.mar = mar.into();
        id.mor = mor.into();
        if facts.reads_across_zones {
            id.ozcs |= RAZB;
        }
        if let Some(zrwa) = &facts.zrwa {
            id.ozcs |= ZRWASUP;
            id.numzrwa = zrwa.zones_max.saturating_sub(1).into();
            id.zrwafg = zrwa.commit_granularity_blocks.into();
            id.zrwasz = zrwa.size_blocks.into();
            id.zrwacap = EXPFLUSHSUP;
        }
        id.lbafe[0] = ZoneFormat { zsze: facts.zone_blocks.into(), zdes, rsvd9: [0; 7] };
        Ok(id)
    }

    /// Zones that may be open at once; `None`: no limit.
    pub fn max_open(&self) -> Option<u32> {
        self.mor.get().checked_add(1)
    }

    /// Zones that may be active at once; `None`: no limit.
    pub fn max_active(&self) -> Option<u32> {
        self.mar.get().checked_add(1)
    }

    /// Whether a read may cross into the next zone.
    pub fn reads_across_zones(&self) -> bool {
        self.ozcs.get() & RAZB != 0
    }

    /// The Zone Random Write Areas, where there are any.
    pub fn zrwa(&self) -> Option<ZrwaFacts> {
        (self.ozcs.get() & ZRWASUP != 0).then(|| ZrwaFacts {
            size_blocks: self.zrwasz.get(),
            commit_granularity_blocks: self.zrwafg.get(),
            zones_max: self.numzrwa.get().saturating_add(1),
        })
    }
}

impl IdentifyZonedController {
    /// The structure for a controller with this Zone Append limit; `None`: that
    /// of every transfer.
    ///
    /// # Errors
    ///
    /// When the limit has no form as ZASL.
    pub fn of(append_limit_bytes: Option<u32>) -> Result<Self, FactsError> {
        let mut id = Self::new_zeroed();
        if let Some(append_limit_bytes) = append_limit_bytes {
            if !append_limit_bytes.is_power_of_two() || append_limit_bytes <= PAGE_BYTES {
                return Err(FactsError::AppendLimit { append_limit_bytes });
            }
            id.zasl = (append_limit_bytes / PAGE_BYTES).trailing_zeros() as u8;
        }
        Ok(id)
    }

    /// The Zone Append limit in bytes; `None` where it is that of every transfer,
    /// or larger than any.
    pub fn append_limit_bytes(&self) -> Option<u32> {
        match self.zasl {
            0 => None,
            zasl => 1_u32.checked_shl(zasl.into()).and_then(|pages| pages.checked_mul(PAGE_BYTES)),
        }
    }
}
