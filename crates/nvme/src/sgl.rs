//! Scatter Gather List descriptors (Base 4.1.2).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// SGL Descriptor Types (Base figure 115).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum SglDescriptorType {
    /// SGL Data Block descriptor.
    DataBlock = 0x0,
    /// SGL Bit Bucket descriptor.
    BitBucket = 0x1,
    /// SGL Segment descriptor.
    Segment = 0x2,
    /// SGL Last Segment descriptor.
    LastSegment = 0x3,
    /// Keyed SGL Data Block descriptor.
    KeyedDataBlock = 0x4,
    /// Transport SGL Data Block descriptor.
    TransportDataBlock = 0x5,
    /// Vendor Specific.
    VendorSpecific = 0xf,
}

/// An SGL descriptor of the forms without key: address, length, identifier
/// (Base figures 117 to 121).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct SglDescriptor {
    /// Address, or offset where the subtype says so.
    pub address: U64,
    /// Length in bytes.
    pub length: U32,
    /// Reserved.
    pub rsvd12: [u8; 3],
    /// SGL Identifier: type in bits 7:4, subtype in bits 3:0.
    pub sgl_identifier: u8,
}

const _: () = assert!(size_of::<SglDescriptor>() == 16);

impl SglDescriptor {
    /// Subtype: the address is an offset from the start of in-capsule data
    /// (Base figure 116).
    pub const SUBTYPE_OFFSET: u8 = 0x1;

    /// A descriptor.
    pub fn new(kind: SglDescriptorType, subtype: u8, address: u64, length: u32) -> Self {
        debug_assert!(subtype < 16);
        let sgl_identifier = (kind as u8) << 4 | (subtype & 0xf);
        Self { address: address.into(), length: length.into(), rsvd12: [0; 3], sgl_identifier }
    }

    /// Its type; `None` where that is reserved.
    pub fn descriptor_type(&self) -> Option<SglDescriptorType> {
        Some(match self.sgl_identifier >> 4 {
            0x0 => SglDescriptorType::DataBlock,
            0x1 => SglDescriptorType::BitBucket,
            0x2 => SglDescriptorType::Segment,
            0x3 => SglDescriptorType::LastSegment,
            0x4 => SglDescriptorType::KeyedDataBlock,
            0x5 => SglDescriptorType::TransportDataBlock,
            0xf => SglDescriptorType::VendorSpecific,
            _ => return None,
        })
    }

    /// Its subtype.
    pub fn subtype(&self) -> u8 {
        self.sgl_identifier & 0xf
    }
}
