//! The Identify command's selector and lists (Base 5.17).

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::NamespaceId;

/// Size of every Identify data structure in bytes (Base 5.17).
pub(crate) const IDENTIFY_BYTES: usize = 4096;

/// Facts that the Identify data structures cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactsError {
    /// MDTS counts 4 KiB pages as a power of two, and 0 means "no limit".
    #[error(
        "a transfer limit of {max_transfer_bytes} bytes cannot be expressed as MDTS; give a power of two of at least 8 KiB"
    )]
    MaxTransfer {
        /// The limit.
        max_transfer_bytes: u32,
    },
    /// ZASL counts 4 KiB pages as a power of two, and 0 means "as MDTS".
    #[error(
        "a Zone Append limit of {append_limit_bytes} bytes cannot be expressed as ZASL; give a power of two of at least 8 KiB"
    )]
    AppendLimit {
        /// The limit.
        append_limit_bytes: u32,
    },
    /// MAR and MOR are zero-based, and the active zones include the open ones.
    #[error(
        "at most {max_open:?} open and {max_active:?} active zones cannot be expressed as MOR and MAR; give at least 1 of each, no fewer active than open, or none for no limit"
    )]
    ZoneLimits {
        /// Open zones.
        max_open: Option<u32>,
        /// Active zones.
        max_active: Option<u32>,
    },
    /// ZDES counts 64-byte units in 8 bits.
    #[error(
        "Zone Descriptor Extensions of {bytes} bytes cannot be expressed as ZDES; give a multiple of 64 of at most 16320"
    )]
    DescriptorExtension {
        /// Size of one.
        bytes: u32,
    },
    /// LBADS is a power of two of at least 512 bytes.
    #[error("logical blocks of {lba_bytes} bytes cannot be expressed as LBADS; give a power of two of at least 512")]
    LbaBytes {
        /// The logical block size.
        lba_bytes: u32,
    },
    /// Identify strings are printable ASCII of a fixed length.
    #[error("{field} `{text}` is not printable ASCII of at most {limit} characters")]
    Text {
        /// The field's name.
        field: &'static str,
        /// What was given.
        text: String,
        /// Its length on the wire.
        limit: usize,
    },
}

/// Controller or Namespace Structure (CNS) values (Base figure 274).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Cns {
    /// Identify Namespace data structure.
    Namespace = 0x00,
    /// Identify Controller data structure.
    Controller = 0x01,
    /// Active Namespace ID list.
    ActiveNamespaceList = 0x02,
    /// Namespace Identification Descriptor list.
    NamespaceIdentificationDescriptors = 0x03,
    /// I/O Command Set specific Identify Namespace data structure.
    CommandSetNamespace = 0x05,
    /// I/O Command Set specific Identify Controller data structure.
    CommandSetController = 0x06,
    /// Active Namespace ID list of one I/O Command Set.
    CommandSetActiveNamespaceList = 0x07,
    /// I/O Command Set Independent Identify Namespace data structure.
    IndependentNamespace = 0x08,
    /// Identify I/O Command Set data structure.
    CommandSet = 0x1c,
}

impl Cns {
    /// The selector in CDW10 bits 7:0, where it is one of these.
    pub fn from_cdw10(cdw10: u32) -> Option<Self> {
        Some(match cdw10 & 0xff {
            0x00 => Self::Namespace,
            0x01 => Self::Controller,
            0x02 => Self::ActiveNamespaceList,
            0x03 => Self::NamespaceIdentificationDescriptors,
            0x05 => Self::CommandSetNamespace,
            0x06 => Self::CommandSetController,
            0x07 => Self::CommandSetActiveNamespaceList,
            0x08 => Self::IndependentNamespace,
            0x1c => Self::CommandSet,
            _ => return None,
        })
    }
}

/// A Namespace List: up to 1024 identifiers, ascending, padded with zeroes
/// (Base 4.4.2).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct NamespaceList {
    /// The identifiers; 0 marks an unused entry.
    pub identifiers: [U32; 1024],
}

const _: () = assert!(size_of::<NamespaceList>() == IDENTIFY_BYTES);

impl NamespaceList {
    /// The list for CNS 02h: of `active` (ascending), those greater than `after`.
    pub fn after(after: NamespaceId, active: impl IntoIterator<Item = NamespaceId>) -> Self {
        let mut identifiers = [U32::new(0); 1024];
        let greater = active.into_iter().filter(|nsid| nsid.0 > after.0);
        for (entry, nsid) in identifiers.iter_mut().zip(greater) {
            *entry = nsid.0.into();
        }
        debug_assert!(identifiers.windows(2).all(|pair| pair[1] == 0 || pair[0].get() < pair[1].get()));
        Self { identifiers }
    }

    /// The identifiers in use.
    pub fn iter(&self) -> impl Iterator<Item = NamespaceId> {
        self.identifiers.iter().map(|nsid| NamespaceId(nsid.get())).take_while(|nsid| nsid.0 != 0)
    }
}

/// Writes `text` into a fixed field, padded with spaces (Base 1.4.1, ASCII).
pub(crate) fn write_text(field: &'static str, bytes: &mut [u8], text: &str) -> Result<(), FactsError> {
    let printable = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if !printable || text.len() > bytes.len() {
        return Err(FactsError::Text { field, text: text.to_owned(), limit: bytes.len() });
    }
    bytes.fill(b' ');
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_lists_continue() {
        let active = || (1..=1500).step_by(1).map(NamespaceId);
        let first = NamespaceList::after(NamespaceId(0), active());
        assert_eq!(first.iter().count(), 1024);
        let last = first.iter().last().unwrap();
        let rest = NamespaceList::after(last, active());
        assert!(rest.iter().eq((1025..=1500).map(NamespaceId)));
        assert_eq!(rest.as_bytes()[476 * 4..][..4], [0; 4]);
        assert_eq!(NamespaceList::after(NamespaceId(1500), active()).iter().count(), 0);
    }

    #[test]
    fn selector() {
        for cdw10 in 0..256 {
            assert!(Cns::from_cdw10(cdw10).is_none_or(|cns| cns as u32 == cdw10));
        }
        assert_eq!(Cns::from_cdw10(0xffff_ff02), Some(Cns::ActiveNamespaceList));
    }
}
