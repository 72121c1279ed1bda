//! The Changed Zone List log page (Log Identifier BFh; ZNS 4.1.4.1, figure 46).

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Lba;

/// The log page.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ChangedZoneList {
    /// Number of Zone Identifiers; FFFFh: more zones changed than fit.
    pub nrzid: U16,
    /// Reserved.
    pub rsvd2: [u8; 6],
    /// Zone Identifiers: ZSLBAs, unused ones zero.
    pub zid: [U64; Self::ENTRIES],
}

const _: () = assert!(size_of::<ChangedZoneList>() == 4096);

impl ChangedZoneList {
    /// The log page's identifier.
    pub const LOG_IDENTIFIER: u8 = 0xbf;
    /// Zone Identifiers that fit.
    pub const ENTRIES: usize = 511;

    /// The list of zones that start at `zones`, or [`Self::overflown`] where they
    /// do not fit.
    pub fn of(zones: impl IntoIterator<Item = Lba>) -> Self {
        let mut list = Self { nrzid: 0.into(), rsvd2: [0; 6], zid: [0.into(); Self::ENTRIES] };
        for (index, zone) in zones.into_iter().enumerate() {
            match list.zid.get_mut(index) {
                Some(entry) => *entry = zone.0.into(),
                None => return Self::overflown(),
            }
            list.nrzid += 1;
        }
        list
    }

    /// The list that says: read the whole report, too many zones changed.
    pub fn overflown() -> Self {
        Self { nrzid: u16::MAX.into(), rsvd2: [0; 6], zid: [0.into(); Self::ENTRIES] }
    }

    /// The zones listed; `None` where too many changed.
    pub fn zones(&self) -> Option<impl Iterator<Item = Lba>> {
        let count = usize::from(self.nrzid.get());
        (count <= Self::ENTRIES).then(|| self.zid[..count].iter().map(|zone| Lba(zone.get())))
    }
}
