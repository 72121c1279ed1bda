//! What POSIX and Linux say of attributes, whatever keeps them.

use crate::mutant::{Mutant, mutated};
use crate::operations::{Attributes, Caller, Error, InodeNumber, Kind, Permissions, Result, SetAttributes, Timestamp};

/// The unit of holes, of `st_blksize`, and of the ranges that move.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Largest file: 8 EiB less one block.
pub(crate) const FILE_BYTES_MAX: u64 = (1 << 63) - BLOCK_BYTES;
/// Longest target of a symbolic link.
pub(crate) const TARGET_BYTES_MAX: usize = 4095;
/// Longest value of an extended attribute.
pub(crate) const XATTR_BYTES_MAX: usize = 65_536;
/// Most links of an inode, and most directories in one.
pub(crate) const LINKS_MAX: u32 = u32::MAX - 1;

const GROUP_EXECUTE: u16 = 0o010;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewNode {
    pub kind: Kind,
    pub permissions: Permissions,
    pub device: u32,
    /// Bytes of a symbolic link's target.
    pub size_bytes: u64,
}

/// Attributes of what is made in a directory. The umask does not count where a default access list takes its place.
pub(crate) fn new_attributes(
    caller: &Caller<'_>,
    parent: &Attributes,
    inode: InodeNumber,
    new: NewNode,
    masked: bool,
) -> Attributes {
    let umask = if masked { caller.umask & 0o777 } else { 0 };
    let mut permissions = new.permissions.without(umask);
    let mut gid = caller.gid;
    if parent.permissions.bits() & Permissions::SET_GROUP_ID != 0 {
        gid = parent.gid;
        let both = Permissions::SET_GROUP_ID | GROUP_EXECUTE;
        if new.kind == Kind::Directory {
            permissions = permissions.with(Permissions::SET_GROUP_ID);
        } else if permissions.bits() & both == both && caller.uid != 0 && !caller.is_in(gid) {
            permissions = permissions.without(Permissions::SET_GROUP_ID);
        }
    }
    Attributes {
        inode,
        kind: new.kind,
        permissions,
        links: if new.kind == Kind::Directory { 2 } else { 1 },
        uid: caller.uid,
        gid,
        device: if matches!(new.kind, Kind::CharacterDevice | Kind::BlockDevice) { new.device } else { 0 },
        size_bytes: new.size_bytes,
        blocks: 0,
        accessed: caller.now,
        modified: caller.now,
        changed: caller.now,
        created: caller.now,
    }
}

/// Attributes of a file system's root when it is made.
pub(crate) fn root_attributes(now: Timestamp) -> Attributes {
    Attributes {
        inode: InodeNumber::ROOT,
        kind: Kind::Directory,
        permissions: Permissions::of_mode(0o755),
        links: 2,
        uid: 0,
        gid: 0,
        device: 0,
        size_bytes: 0,
        blocks: 0,
        accessed: now,
        modified: now,
        changed: now,
        created: now,
    }
}

/// Clears what lets a file run as somebody else.
pub(crate) fn kill_privileges(attributes: &mut Attributes) {
    if attributes.kind == Kind::Directory {
        return;
    }
    let bits = attributes.permissions.bits();
    let group = if bits & GROUP_EXECUTE != 0 { Permissions::SET_GROUP_ID } else { 0 };
    attributes.permissions = attributes.permissions.without(Permissions::SET_USER_ID | group);
}

/// Carries out `setattr`, but for what a change of size does to the contents.
pub(crate) fn set_attributes(attributes: &mut Attributes, caller: &Caller<'_>, changes: &SetAttributes) -> Result<()> {
    if let Some(size_bytes) = changes.size_bytes {
        regular(attributes)?;
        if size_bytes > FILE_BYTES_MAX {
            return Err(Error::FileTooBig);
        }
        attributes.size_bytes = size_bytes;
        attributes.modified = caller.now;
        if changes.kill_privileges {
            kill_privileges(attributes);
        }
    }
    if changes.uid.is_some() || changes.gid.is_some() {
        kill_privileges(attributes);
        attributes.uid = changes.uid.unwrap_or(attributes.uid);
        attributes.gid = changes.gid.unwrap_or(attributes.gid);
    }
    attributes.permissions = changes.permissions.unwrap_or(attributes.permissions);
    attributes.accessed = changes.accessed.unwrap_or(attributes.accessed);
    attributes.modified = changes.modified.unwrap_or(attributes.modified);
    attributes.changed = changes.changed.unwrap_or(caller.now);
    Ok(())
}

/// Refuses what has no data.
pub(crate) fn regular(attributes: &Attributes) -> Result<()> {
    match attributes.kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(Error::IsDirectory),
        _ => Err(Error::Invalid),
    }
}

/// The end of a range that a file can have.
pub(crate) fn range_end(offset_bytes: u64, length_bytes: u64) -> Result<u64> {
    match offset_bytes.checked_add(length_bytes) {
        Some(end) if end <= FILE_BYTES_MAX => Ok(end),
        _ => Err(Error::FileTooBig),
    }
}

/// Refuses a range that cannot be taken out of a file or put into it.
pub(crate) fn whole_blocks(offset_bytes: u64, length_bytes: u64) -> Result<()> {
    let whole = offset_bytes.is_multiple_of(BLOCK_BYTES) && length_bytes.is_multiple_of(BLOCK_BYTES);
    if whole { Ok(()) } else { Err(Error::Invalid) }
}

/// Whether a read is noted: by `relatime`'s rule, and never back in time.
pub(crate) fn notes_access(attributes: &Attributes, now: Timestamp) -> bool {
    let Attributes { accessed, modified, changed, .. } = *attributes;
    let is_old =
        accessed <= modified || accessed <= changed || now.seconds.saturating_sub(accessed.seconds) >= DAY_SECONDS;
    is_old && now > accessed
}

/// Whether an inode may take the place of another in a rename; of directories also that it is empty.
pub(crate) fn may_replace(moved: Kind, replaced: Kind, replaced_is_empty: bool) -> Result<()> {
    match (moved == Kind::Directory, replaced == Kind::Directory) {
        (true, false) => Err(Error::NotDirectory),
        (false, true) => Err(Error::IsDirectory),
        (true, true) if !replaced_is_empty => Err(Error::NotEmpty),
        _ => Ok(()),
    }
}

const WRITE_AND_SEARCH: u16 = 0o3;
const SEARCH: u16 = 0o1;

/// Whether a caller has these rights on a directory: for calls that the kernel does not check. With an access list only the
/// directory's owner has any, by the owner's bits.
fn has_rights(caller: &Caller<'_>, directory: &Attributes, has_list: bool, rights: u16) -> Result<()> {
    let bits = directory.permissions.bits();
    let allowed = match caller.uid == directory.uid {
        _ if caller.uid == 0 => return Ok(()),
        true => bits >> 6,
        false if has_list => 0,
        false if caller.is_in(directory.gid) => bits >> 3,
        false => bits,
    };
    if allowed & rights == rights { Ok(()) } else { Err(Error::Access) }
}

/// Whether a caller may make an entry in a directory.
pub(crate) fn may_add(caller: &Caller<'_>, directory: &Attributes, has_list: bool) -> Result<()> {
    has_rights(caller, directory, has_list, WRITE_AND_SEARCH)
}

/// Whether a caller may go through a directory.
pub(crate) fn may_search(caller: &Caller<'_>, directory: &Attributes, has_list: bool) -> Result<()> {
    has_rights(caller, directory, has_list, SEARCH)
}

/// Attributes of a copy of an inode with its first name: root keeps everything as it is, others copy only what is theirs and no device.
pub(crate) fn cloned_attributes(caller: &Caller<'_>, of: &Attributes, inode: InodeNumber) -> Result<Attributes> {
    let mut attributes = Attributes {
        inode,
        links: if of.kind == Kind::Directory { 2 } else { 1 },
        changed: caller.now,
        created: caller.now,
        ..*of
    };
    if caller.uid == 0 || mutated(Mutant::CloneForEverybody) {
        return Ok(attributes);
    }
    if caller.uid != of.uid || matches!(of.kind, Kind::CharacterDevice | Kind::BlockDevice) {
        return Err(Error::Access);
    }
    if !caller.is_in(of.gid) {
        attributes.gid = caller.gid;
        attributes.permissions = of.permissions.without(Permissions::SET_GROUP_ID);
    }
    Ok(attributes)
}

/// Whether a copy of an inode has this extended attribute of it, too.
pub(crate) fn clones_xattr(caller: &Caller<'_>, name: &[u8]) -> bool {
    caller.uid == 0 || !(name.starts_with(b"security.") || name.starts_with(b"trusted."))
}

/// Whether a caller may take an entry of `owner` out of a directory.
pub(crate) fn may_remove(caller: &Caller<'_>, directory: &Attributes, has_list: bool, owner: u32) -> Result<()> {
    const STICKY: u16 = 0o1000;
    may_add(caller, directory, has_list)?;
    let bits = directory.permissions.bits();
    if caller.uid != 0 && bits & STICKY != 0 && caller.uid != directory.uid && caller.uid != owner {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

/// Refuses the target of a symbolic link that is too short or too long.
pub(crate) fn target(target: &[u8]) -> Result<()> {
    match target.len() {
        0 => Err(Error::NotFound),
        1..=TARGET_BYTES_MAX if target.contains(&0) => Err(Error::Invalid),
        1..=TARGET_BYTES_MAX => Ok(()),
        _ => Err(Error::NameTooLong),
    }
}
