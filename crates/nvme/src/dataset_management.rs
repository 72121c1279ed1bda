//! Dataset Management ranges (NVM 3.2.1).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Lba, LbaRange};

/// A range definition (NVM figure 44).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct DatasetManagementRange {
    /// Context Attributes: hints on use; no meaning for deallocation.
    pub context_attributes: U32,
    /// Length in logical blocks; not zero-based.
    pub length: U32,
    /// Starting LBA.
    pub slba: U64,
}

const _: () = assert!(size_of::<DatasetManagementRange>() == 16);

impl From<LbaRange> for DatasetManagementRange {
    fn from(range: LbaRange) -> Self {
        Self { context_attributes: 0.into(), length: range.count.into(), slba: range.start.0.into() }
    }
}

impl From<DatasetManagementRange> for LbaRange {
    fn from(range: DatasetManagementRange) -> Self {
        Self { start: Lba(range.slba.get()), count: range.length.get() }
    }
}
