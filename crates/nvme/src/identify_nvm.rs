//! The Identify data structures that 2.0 added beside the old ones: those of the
//! NVM Command Set (CSI 00h, CNS 05h and 06h; NVM 4.1.5.3 and 4.1.5.4) and the one
//! that is the same for every command set (CNS 08h; Base 5.17.2.8).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identify::IDENTIFY_BYTES;

/// The I/O Command Set specific Identify Namespace data structure of the NVM
/// Command Set (NVM figure 100). All zero without protection information.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IdentifyNvmNamespace {
    /// Logical Block Storage Tag Mask.
    pub lbstm: U64,
    /// Protection Information Capabilities.
    pub pic: u8,
    /// Reserved.
    pub rsvd9: [u8; 3],
    /// Extended LBA Formats.
    pub elbaf: [U32; 64],
    /// Reserved.
    pub rsvd268: [u8; 3828],
}

const _: () = assert!(size_of::<IdentifyNvmNamespace>() == IDENTIFY_BYTES);

/// The I/O Command Set specific Identify Controller data structure of the NVM
/// Command Set (NVM figure 102).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IdentifyNvmController {
    /// Verify Size Limit as a power of two of pages; 0: not limited.
    pub vsl: u8,
    /// Write Zeroes Size Limit, likewise.
    pub wzsl: u8,
    /// Write Uncorrectable Size Limit, likewise.
    pub wusl: u8,
    /// Dataset Management Ranges Limit; 0: not limited.
    pub dmrl: u8,
    /// Dataset Management Range Size Limit in logical blocks; 0: not limited.
    pub dmrsl: U32,
    /// Dataset Management Size Limit in logical blocks; 0: not limited.
    pub dmsl: U64,
    /// Reserved.
    pub rsvd16: [u8; 4080],
}

const _: () = assert!(size_of::<IdentifyNvmController>() == IDENTIFY_BYTES);

impl IdentifyNvmController {
    /// The structure of a controller that takes every size of Write Zeroes and
    /// Dataset Management.
    pub fn unlimited() -> Self {
        Self::new_zeroed()
    }
}

/// NSTAT bit 0: Namespace Ready (NRDY).
const READY: u8 = 1 << 0;

/// NSFEAT bit 4: the namespace is rotational (TP 4088).
const ROTATIONAL: u8 = 1 << 4;

/// The I/O Command Set Independent Identify Namespace data structure (Base figure 280).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IdentifyIndependentNamespace {
    /// Common Namespace Features.
    pub nsfeat: u8,
    /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
    pub nmic: u8,
    /// Reservation Capabilities.
    pub rescap: u8,
    /// Format Progress Indicator.
    pub fpi: u8,
    /// ANA Group Identifier.
    pub anagrpid: U32,
    /// Namespace Attributes; bit 0: write protected.
    pub nsattr: u8,
    /// Reserved.
    pub rsvd9: u8,
    /// NVM Set Identifier.
    pub nvmsetid: U16,
    /// Endurance Group Identifier.
    pub endgid: U16,
    /// Namespace Status.
    pub nstat: u8,
    /// Reserved.
    pub rsvd15: [u8; 4081],
}

const _: () = assert!(size_of::<IdentifyIndependentNamespace>() == IDENTIFY_BYTES);

impl IdentifyIndependentNamespace {
    /// The structure beside `namespace`, of a namespace that is ready.
    pub fn of(namespace: &crate::IdentifyNamespace, rotational: bool) -> Self {
        let mut id = Self::new_zeroed();
        id.nsfeat = if rotational { ROTATIONAL } else { 0 };
        id.nmic = namespace.nmic;
        id.rescap = namespace.rescap;
        id.fpi = namespace.fpi;
        id.anagrpid = namespace.anagrpid;
        id.nsattr = namespace.nsattr;
        id.nvmsetid = namespace.nvmsetid;
        id.endgid = namespace.endgid;
        id.nstat = READY;
        id
    }
}
