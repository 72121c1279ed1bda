//! The Namespace Identification Descriptor list (CNS 03h; Base 5.17.2.3, figure 281).

use crate::CommandSet;
use crate::identify::IDENTIFY_BYTES;

/// A Namespace Identification Descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamespaceIdentifier {
    /// NIDT 01h: IEEE Extended Unique Identifier (EUI64), big-endian.
    Eui64([u8; 8]),
    /// NIDT 02h: Namespace Globally Unique Identifier (NGUID), big-endian.
    Nguid([u8; 16]),
    /// NIDT 03h: Namespace UUID, big-endian.
    Uuid([u8; 16]),
    /// NIDT 04h: I/O Command Set Identifier (CSI).
    CommandSet(CommandSet),
}

impl NamespaceIdentifier {
    /// The list of these descriptors: each a type, a length, two reserved bytes
    /// and the identifier; a length of 0 ends the list. Descriptors that do not
    /// fit are left out.
    pub fn list(descriptors: &[Self]) -> [u8; IDENTIFY_BYTES] {
        let mut list = [0; IDENTIFY_BYTES];
        let mut at = 0;
        for descriptor in descriptors {
            let set;
            let (kind, identifier): (u8, &[u8]) = match descriptor {
                Self::Eui64(bytes) => (1, bytes),
                Self::Nguid(bytes) => (2, bytes),
                Self::Uuid(bytes) => (3, bytes),
                Self::CommandSet(value) => {
                    set = [*value as u8];
                    (4, &set)
                }
            };
            let Some(target) = list.get_mut(at..at + 4 + identifier.len()) else { break };
            target[0] = kind;
            target[1] = identifier.len() as u8;
            target[4..].copy_from_slice(identifier);
            at += 4 + identifier.len();
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_follow_each_other() {
        let list = NamespaceIdentifier::list(&[
            NamespaceIdentifier::Uuid([7; 16]),
            NamespaceIdentifier::CommandSet(CommandSet::Zoned),
        ]);
        assert_eq!(list[..4], [3, 16, 0, 0]);
        assert_eq!(list[4..20], [7; 16]);
        assert_eq!(list[20..26], [4, 1, 0, 0, 2, 0]);
        assert!(list[26..].iter().all(|byte| *byte == 0));
        let crowded = NamespaceIdentifier::list(&[NamespaceIdentifier::Nguid([1; 16]); 300]);
        assert_eq!(crowded[204 * 20..], [0; 16]);
    }
}
