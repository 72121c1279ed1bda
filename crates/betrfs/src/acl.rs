//! POSIX access lists in the form of Linux' extended attributes (`include/uapi/linux/posix_acl_xattr.h`).

use crate::operations::{Attributes, Error, Kind, Permissions, Result};

/// The list that decides.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The list that what is made in a directory gets.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: [u8; 4] = 2u32.to_le_bytes();
const ENTRY_BYTES: usize = 8;
const USER_OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OWNER: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Whether an extended attribute is an access list.
pub(crate) fn is_list(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// What of a list the permission bits stand for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    owner: u16,
    /// Of the mask where there is one.
    group: u16,
    other: u16,
    has_more: bool,
}

/// Tag and permissions of each entry.
fn entries(value: &[u8]) -> impl Iterator<Item = (u16, u16)> {
    value
        .get(4..)
        .unwrap_or_default()
        .chunks_exact(ENTRY_BYTES)
        .map(|entry| (u16::from_le_bytes([entry[0], entry[1]]), u16::from_le_bytes([entry[2], entry[3]])))
}

/// Checks a list.
pub(crate) fn parse(value: &[u8]) -> Result<List> {
    if !value.starts_with(&VERSION) || !(value.len() - 4).is_multiple_of(ENTRY_BYTES) {
        return Err(Error::Invalid);
    }
    let (mut owner, mut group, mut mask, mut other, mut has_more) = (None, None, None, None, false);
    for (tag, permissions) in entries(value) {
        let slot = match tag {
            USER_OWNER => &mut owner,
            GROUP_OWNER => &mut group,
            MASK => &mut mask,
            OTHER => &mut other,
            USER | GROUP => {
                has_more = true;
                continue;
            }
            _ => return Err(Error::Invalid),
        };
        if permissions > 7 || slot.replace(permissions).is_some() {
            return Err(Error::Invalid);
        }
    }
    let (Some(owner), Some(group), Some(other)) = (owner, group, other) else { return Err(Error::Invalid) };
    if has_more && mask.is_none() {
        return Err(Error::Invalid);
    }
    Ok(List { owner, group: mask.unwrap_or(group), other, has_more: has_more || mask.is_some() })
}

impl List {
    /// The permission bits of what has it; the set-ID and sticky bits stay.
    pub fn permissions(self, before: Permissions) -> Permissions {
        before.without(0o777).with(self.owner << 6 | self.group << 3 | self.other)
    }

    /// Whether permission bits say all of it.
    pub fn is_minimal(self) -> bool {
        !self.has_more
    }
}

/// Gives the entries that permission bits stand for a new value.
fn change(value: &mut [u8], new: impl Fn(u16, u16) -> u16) {
    let has_mask = entries(value).any(|(tag, _)| tag == MASK);
    for entry in value.get_mut(4..).unwrap_or_default().chunks_exact_mut(ENTRY_BYTES) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let shift = match tag {
            USER_OWNER => 6,
            GROUP_OWNER if !has_mask => 3,
            MASK => 3,
            OTHER => 0,
            _ => continue,
        };
        let permissions = new(u16::from_le_bytes([entry[2], entry[3]]), shift);
        entry[2..4].copy_from_slice(&permissions.to_le_bytes());
    }
}

/// What `chmod` does to an access list.
pub(crate) fn set_permissions(value: &mut [u8], permissions: Permissions) {
    change(value, |_, shift| permissions.bits() >> shift & 7);
}

/// What an inode gets from its directory's default list: the extended attributes, and permission bits.
pub(crate) fn inherit(default: &[u8], attributes: &mut Attributes) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut access = default.to_vec();
    let wanted = attributes.permissions.bits();
    change(&mut access, |has, shift| has & (wanted >> shift & 7));
    let list = parse(&access).map_err(|_| Error::Corrupt("a default access list".to_owned()))?;
    attributes.permissions = list.permissions(attributes.permissions);
    let mut xattrs = Vec::new();
    if !list.is_minimal() {
        xattrs.push((ACCESS.to_vec(), access));
    }
    if attributes.kind == Kind::Directory {
        xattrs.push((DEFAULT.to_vec(), default.to_vec()));
    }
    Ok(xattrs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut value = VERSION.to_vec();
        for (tag, permissions) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(permissions.to_le_bytes());
            value.extend(u32::MAX.to_le_bytes());
        }
        value
    }

    #[test]
    fn permission_bits_and_lists_say_the_same() {
        let minimal = list(&[(USER_OWNER, 6), (GROUP_OWNER, 4), (OTHER, 0)]);
        let parsed = parse(&minimal).unwrap();
        assert!(parsed.is_minimal());
        assert_eq!(parsed.permissions(Permissions::of_mode(0o4777)).bits(), 0o4640);
        let mut more = list(&[(USER_OWNER, 7), (USER, 7), (GROUP_OWNER, 5), (MASK, 7), (OTHER, 0)]);
        set_permissions(&mut more, Permissions::of_mode(0o641));
        let parsed = parse(&more).unwrap();
        assert_eq!(parsed.permissions(Permissions::of_mode(0)).bits(), 0o641);
        assert!(entries(&more).any(|entry| entry == (GROUP_OWNER, 5)), "with a mask the owning group keeps its own");
        assert_eq!(
            parse(&list(&[(USER_OWNER, 6), (USER, 4), (GROUP_OWNER, 4), (OTHER, 0)])).err(),
            Some(Error::Invalid)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_list_or_an_error(mut bytes: Vec<u8>, prefixed: bool) {
            if prefixed {
                bytes.splice(0..0, VERSION);
            }
            let _ = parse(&bytes);
            set_permissions(&mut bytes, Permissions::of_mode(0o755));
        }
    }
}
