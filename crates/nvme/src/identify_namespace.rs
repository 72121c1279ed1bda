//! The Identify Namespace data structure of the NVM Command Set (NVM 4.1.5.1,
//! figure 97).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identify::{FactsError, IDENTIFY_BYTES};

/// NSFEAT bit 4: NPWG, NPWA, NPDG, NPDA and NOWS are defined (OPTPERF).
const OPTPERF: u8 = 1 << 4;
/// DLFEAT bits 2:0: deallocated blocks read as zeroes.
const READS_ZEROES: u8 = 0b001;
/// DLFEAT bit 3: Write Zeroes takes the Deallocate bit.
const WRITE_ZEROES_DEALLOCATES: u8 = 1 << 3;

/// An LBA Format (NVM figure 98).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct LbaFormat {
    /// Metadata Size in bytes.
    pub ms: U16,
    /// LBA Data Size as a power of two.
    pub lbads: u8,
    /// Relative Performance in bits 1:0.
    pub rp: u8,
}

const _: () = assert!(size_of::<LbaFormat>() == 4);

/// The Identify Namespace data structure.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IdentifyNamespace {
    /// Namespace Size in logical blocks.
    pub nsze: U64,
    /// Namespace Capacity in logical blocks.
    pub ncap: U64,
    /// Namespace Utilization in logical blocks.
    pub nuse: U64,
    /// Namespace Features.
    pub nsfeat: u8,
    /// Number of LBA Formats, zero-based.
    pub nlbaf: u8,
    /// Formatted LBA Size: index low bits in 3:0, high bits in 6:5.
    pub flbas: u8,
    /// Metadata Capabilities.
    pub mc: u8,
    /// End-to-end Data Protection Capabilities.
    pub dpc: u8,
    /// End-to-end Data Protection Type Settings.
    pub dps: u8,
    /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
    pub nmic: u8,
    /// Reservation Capabilities.
    pub rescap: u8,
    /// Format Progress Indicator.
    pub fpi: u8,
    /// Deallocate Logical Block Features.
    pub dlfeat: u8,
    /// Namespace Atomic Write Unit Normal, zero-based.
    pub nawun: U16,
    /// Namespace Atomic Write Unit Power Fail, zero-based.
    pub nawupf: U16,
    /// Namespace Atomic Compare & Write Unit, zero-based.
    pub nacwu: U16,
    /// Namespace Atomic Boundary Size Normal, zero-based.
    pub nabsn: U16,
    /// Namespace Atomic Boundary Offset.
    pub nabo: U16,
    /// Namespace Atomic Boundary Size Power Fail, zero-based.
    pub nabspf: U16,
    /// Namespace Optimal I/O Boundary in logical blocks.
    pub noiob: U16,
    /// NVM Capacity in bytes, 128 bits.
    pub nvmcap: [u8; 16],
    /// Namespace Preferred Write Granularity, zero-based.
    pub npwg: U16,
    /// Namespace Preferred Write Alignment, zero-based.
    pub npwa: U16,
    /// Namespace Preferred Deallocate Granularity, zero-based.
    pub npdg: U16,
    /// Namespace Preferred Deallocate Alignment, zero-based.
    pub npda: U16,
    /// Namespace Optimal Write Size, zero-based.
    pub nows: U16,
    /// Maximum Single Source Range Length (Copy).
    pub mssrl: U16,
    /// Maximum Copy Length.
    pub mcl: U32,
    /// Maximum Source Range Count (Copy), zero-based.
    pub msrc: u8,
    /// Reserved.
    pub rsvd81: [u8; 11],
    /// ANA Group Identifier.
    pub anagrpid: U32,
    /// Reserved.
    pub rsvd96: [u8; 3],
    /// Namespace Attributes.
    pub nsattr: u8,
    /// NVM Set Identifier.
    pub nvmsetid: U16,
    /// Endurance Group Identifier.
    pub endgid: U16,
    /// Namespace Globally Unique Identifier.
    pub nguid: [u8; 16],
    /// IEEE Extended Unique Identifier.
    pub eui64: [u8; 8],
    /// LBA Formats.
    pub lbaf: [LbaFormat; 64],
    /// Vendor specific.
    pub vs: [u8; 3712],
}

const _: () = assert!(size_of::<IdentifyNamespace>() == IDENTIFY_BYTES);

/// What a modelled namespace has to say about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Size in logical blocks.
    pub blocks: u64,
    /// Blocks that hold data.
    pub used_blocks: u64,
    /// Logical block size in bytes.
    pub lba_bytes: u32,
    /// Write size and alignment the media prefer, in logical blocks; 0 where
    /// there is none.
    pub preferred_write_blocks: u16,
    /// Whether deallocated blocks read as zeroes.
    pub deallocated_reads_zeroes: bool,
}

impl IdentifyNamespace {
    /// The structure for a namespace with one LBA format and no metadata.
    ///
    /// # Errors
    ///
    /// When a fact has no form in the structure.
    pub fn of(facts: &NamespaceFacts) -> Result<Self, FactsError> {
        let lba_bytes = facts.lba_bytes;
        if !lba_bytes.is_power_of_two() || lba_bytes < 512 {
            return Err(FactsError::LbaBytes { lba_bytes });
        }
        let mut id = Self::new_zeroed();
        id.nsze = facts.blocks.into();
        id.ncap = facts.blocks.into();
        id.nuse = facts.used_blocks.into();
        id.nvmcap = (u128::from(facts.blocks) * u128::from(lba_bytes)).to_le_bytes();
        if facts.deallocated_reads_zeroes {
            id.dlfeat = READS_ZEROES | WRITE_ZEROES_DEALLOCATES;
        }
        if let Some(zero_based) = facts.preferred_write_blocks.checked_sub(1) {
            id.nsfeat |= OPTPERF;
            id.npwg = zero_based.into();
            id.npwa = zero_based.into();
        }
        id.lbaf[0].lbads = lba_bytes.trailing_zeros() as u8;
        Ok(id)
    }

    /// The LBA format in use: FLBAS bits 6:5 and 3:0.
    pub fn format(&self) -> LbaFormat {
        let index = (self.flbas & 0xf) | (self.flbas >> 5 & 0b11) << 4;
        self.lbaf[usize::from(index)]
    }

    /// Logical block size in bytes; `None` where LBADS is 0 (not in use) or
    /// larger than any data pointer.
    pub fn lba_bytes(&self) -> Option<u32> {
        match self.format().lbads {
            0 => None,
            lbads => 1u32.checked_shl(lbads.into()),
        }
    }
}
