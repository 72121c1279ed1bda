//! Which I/O Command Sets there are, and which one a namespace belongs to (Base
//! 5.17.2.3 and 5.17.2.21).

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identify::IDENTIFY_BYTES;

/// Command Set Identifier (CSI; Base figure 274).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum CommandSet {
    /// NVM Command Set.
    Nvm = 0x00,
    /// Key Value Command Set.
    KeyValue = 0x01,
    /// Zoned Namespace Command Set.
    Zoned = 0x02,
}

/// The Identify I/O Command Set data structure (CNS 1Ch): combinations of command
/// sets that a controller can be told to support at once.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IdentifyCommandSet {
    /// I/O Command Set Vectors: bit n is the command set with CSI n.
    pub iocsc: [U64; 512],
}

const _: () = assert!(size_of::<IdentifyCommandSet>() == IDENTIFY_BYTES);

impl IdentifyCommandSet {
    /// The structure of a controller with one combination.
    pub fn of(sets: &[CommandSet]) -> Self {
        let mut id = Self::new_zeroed();
        id.iocsc[0] = sets.iter().fold(0, |vector, set| vector | 1 << *set as u64).into();
        id
    }
}

impl CommandSet {
    /// The command set with this identifier.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Nvm,
            0x01 => Self::KeyValue,
            0x02 => Self::Zoned,
            _ => return None,
        })
    }
}

/// Namespace Identifier Type: I/O Command Set Identifier (Base figure 281).
const NIDT_CSI: u8 = 0x04;

/// The Namespace Identification Descriptor list (CNS 03h) with the one descriptor
/// that every namespace with a command set of its own needs: the CSI.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct NamespaceDescriptors {
    /// Namespace Identifier Type.
    pub nidt: u8,
    /// Namespace Identifier Length in bytes.
    pub nidl: u8,
    /// Reserved.
    pub rsvd2: [u8; 2],
    /// Namespace Identifier: the CSI.
    pub nid: u8,
    /// The end of the list: a descriptor of length 0.
    pub end: [u8; 4091],
}

const _: () = assert!(size_of::<NamespaceDescriptors>() == IDENTIFY_BYTES);

impl NamespaceDescriptors {
    /// The list of a namespace of `set`.
    pub fn of(set: CommandSet) -> Self {
        Self { nidt: NIDT_CSI, nidl: 1, rsvd2: [0; 2], nid: set as u8, end: [0; 4091] }
    }
}
