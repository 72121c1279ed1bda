//! Vendor specific fields for ordered writes: where Plumb keeps room for them.
//!
//! Some research drives let a host say in which order writes have to become
//! durable: each write belongs to one or two streams, in each to an epoch, and a
//! barrier closes the epoch. Plumb reserves the fields that such a drive reads and
//! a descriptor by which a controller says that it reads them. `docs/nvme-ordering-fields.md`
//! describes both.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::SubmissionEntry;

/// The ordering capability descriptor: bytes 31:0 of the vendor specific area of
/// Identify Controller (bytes 3103:3072).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct OrderingCapability {
    /// [`Self::SIGNATURE`], so that nobody takes another vendor's bytes for it.
    pub signature: [u8; 8],
    /// Version of the fields that the controller reads; 0: it reads none.
    pub version: U16,
    /// Streams that one write can belong to.
    pub streams_per_write: U16,
    /// Streams that can be open at once.
    pub streams: U32,
    /// Epochs of a stream that can be open at once.
    pub epochs: U32,
    /// Reserved.
    pub rsvd20: [u8; 12],
}

const _: () = assert!(size_of::<OrderingCapability>() == 32);

impl OrderingCapability {
    /// What the descriptor begins with.
    pub const SIGNATURE: [u8; 8] = *b"ordering";

    /// The descriptor of a controller that reads none of the fields.
    pub fn none() -> Self {
        Self { signature: Self::SIGNATURE, ..Self::new_zeroed() }
    }

    /// The descriptor at the start of a vendor specific area, where one is there.
    pub fn of(vendor_specific: &[u8]) -> Option<Self> {
        let (descriptor, _) = Self::read_from_prefix(vendor_specific).ok()?;
        (descriptor.signature == Self::SIGNATURE).then_some(descriptor)
    }
}

/// CDW12 of Write and Zone Append: barrier, the last write of its epoch.
const BARRIER: u32 = 1 << 25;

/// The ordering fields of a write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct OrderingFields {
    /// Stream and epoch: identifiers in CDW2 bits 15:0 and CDW3 bits 15:0.
    pub first: (u16, u16),
    /// A second stream and its epoch: CDW2 bits 31:16 and CDW3 bits 31:16.
    pub second: (u16, u16),
    /// The write closes its epochs: CDW12 bit 25.
    pub barrier: bool,
}

impl OrderingFields {
    /// The fields of a command.
    pub fn of(entry: &SubmissionEntry) -> Self {
        let (streams, epochs) = (entry.cdw2.get(), entry.cdw3.get());
        Self {
            first: (streams as u16, epochs as u16),
            second: ((streams >> 16) as u16, (epochs >> 16) as u16),
            barrier: entry.cdw12.get() & BARRIER != 0,
        }
    }

    /// Writes the fields into a command.
    pub fn set(self, entry: &mut SubmissionEntry) {
        entry.cdw2 = (u32::from(self.first.0) | u32::from(self.second.0) << 16).into();
        entry.cdw3 = (u32::from(self.first.1) | u32::from(self.second.1) << 16).into();
        let others = entry.cdw12.get() & !BARRIER;
        entry.cdw12 = (others | if self.barrier { BARRIER } else { 0 }).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_where_they_are_documented() {
        let mut entry = SubmissionEntry { cdw12: (1 << 30 | 7).into(), ..SubmissionEntry::default() };
        let fields = OrderingFields { first: (0x0102, 0x0304), second: (0x0506, 0x0708), barrier: true };
        fields.set(&mut entry);
        assert_eq!(entry.as_bytes()[8..16], [2, 1, 6, 5, 4, 3, 8, 7]);
        assert_eq!(entry.cdw12.get(), 1 << 30 | 1 << 25 | 7);
        assert_eq!(OrderingFields::of(&entry), fields);
        OrderingFields::default().set(&mut entry);
        assert_eq!(entry.cdw12.get(), 1 << 30 | 7);
    }

    #[test]
    fn a_descriptor_is_known_by_its_signature() {
        let mut area = [0; 1024];
        assert_eq!(OrderingCapability::of(&area), None);
        area[..32].copy_from_slice(OrderingCapability::none().as_bytes());
        assert_eq!(OrderingCapability::of(&area).map(|descriptor| descriptor.version.get()), Some(0));
        assert_eq!(OrderingCapability::of(&area[..31]), None);
    }
}
