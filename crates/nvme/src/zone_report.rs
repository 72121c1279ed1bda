//! What Zone Management Receive returns (ZNS 3.4.2.2, figures 35 to 37).

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Lba, ZoneReportFilter, ZoneState};

bitflags::bitflags! {
    /// Zone Attributes (ZA; ZNS figure 37, bit 3 from TP 4076).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct ZoneAttributes: u8 {
        /// Zone Finished by Controller (ZFC).
        const FINISHED_BY_CONTROLLER = 1 << 0;
        /// Finish Zone Recommended (FZR).
        const FINISH_RECOMMENDED = 1 << 1;
        /// Reset Zone Recommended (RZR).
        const RESET_RECOMMENDED = 1 << 2;
        /// Zone Random Write Area Valid (ZRWAV).
        const ZRWA_VALID = 1 << 3;
        /// Zone Descriptor Extension Valid (ZDEV).
        const EXTENSION_VALID = 1 << 7;
    }
}

impl ZoneReportFilter {
    /// Whether a report with this filter lists a zone.
    pub fn matches(self, state: ZoneState, attributes: ZoneAttributes) -> bool {
        match self {
            Self::All => true,
            Self::Empty => state == ZoneState::Empty,
            Self::ImplicitlyOpened => state == ZoneState::ImplicitlyOpened,
            Self::ExplicitlyOpened => state == ZoneState::ExplicitlyOpened,
            Self::Closed => state == ZoneState::Closed,
            Self::Full => state == ZoneState::Full,
            Self::ReadOnly => state == ZoneState::ReadOnly,
            Self::Offline => state == ZoneState::Offline,
            Self::AttributeSet => attributes.intersects(
                ZoneAttributes::RESET_RECOMMENDED
                    | ZoneAttributes::FINISH_RECOMMENDED
                    | ZoneAttributes::FINISHED_BY_CONTROLLER,
            ),
        }
    }
}

/// The head of a report (ZNS figures 35 and 36).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ZoneReportHeader {
    /// Number of Zones: of those that match, or with Partial Report of those that
    /// are in the buffer.
    pub nr_zones: U64,
    /// Reserved.
    pub rsvd8: [u8; 56],
}

const _: () = assert!(size_of::<ZoneReportHeader>() == ZoneReportHeader::BYTES);

impl ZoneReportHeader {
    /// Its size on the wire.
    pub const BYTES: usize = 64;

    /// The head of a report of `zones` zones.
    pub fn new(zones: u64) -> Self {
        Self { nr_zones: zones.into(), rsvd8: [0; 56] }
    }

    /// As it goes over the wire.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        zerocopy::transmute!(*self)
    }
}

/// A Zone Descriptor (ZNS figure 37).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ZoneDescriptor {
    /// Zone Type (ZT) in bits 3:0.
    pub zt: u8,
    /// Zone State (ZS) in bits 7:4.
    pub zs: u8,
    /// Zone Attributes (ZA).
    pub za: u8,
    /// Zone Attributes Information (ZAI).
    pub zai: u8,
    /// Reserved.
    pub rsvd4: [u8; 4],
    /// Zone Capacity (ZCAP) in logical blocks.
    pub zcap: U64,
    /// Zone Start Logical Block Address (ZSLBA).
    pub zslba: U64,
    /// Write Pointer (WP).
    pub wp: U64,
    /// Reserved.
    pub rsvd32: [u8; 32],
}

const _: () = assert!(size_of::<ZoneDescriptor>() == ZoneDescriptor::BYTES);

/// ZT: Sequential Write Required, the only type.
const SEQUENTIAL_WRITE_REQUIRED: u8 = 2;

impl ZoneDescriptor {
    /// Its size on the wire.
    pub const BYTES: usize = 64;

    /// The descriptor of a zone; an invalid write pointer (`None`) is reported
    /// as all ones.
    pub fn new(
        state: ZoneState,
        attributes: ZoneAttributes,
        capacity_blocks: u64,
        start: Lba,
        write_pointer: Option<Lba>,
    ) -> Self {
        Self {
            zt: SEQUENTIAL_WRITE_REQUIRED,
            zs: (state as u8) << 4,
            za: attributes.bits(),
            zai: 0,
            rsvd4: [0; 4],
            zcap: capacity_blocks.into(),
            zslba: start.0.into(),
            wp: write_pointer.map_or(u64::MAX, |lba| lba.0).into(),
            rsvd32: [0; 32],
        }
    }

    /// As it goes over the wire.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        zerocopy::transmute!(*self)
    }

    /// The zone's state; `None` for a reserved value.
    pub fn state(&self) -> Option<ZoneState> {
        ZoneState::from_code(self.zs >> 4)
    }

    /// The zone's attributes; reserved bits are dropped.
    pub fn attributes(&self) -> ZoneAttributes {
        ZoneAttributes::from_bits_truncate(self.za)
    }
}
