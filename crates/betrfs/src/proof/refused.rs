//! An operation that the store refuses does nothing, neither there nor in memory.

use storage::Memory;

use super::compare::{difference, tree};
use super::traces::{at, tiny};
use crate::operations::{Caller, Error, InodeNumber, Name, Operations, Permissions};
use crate::{Volume, VolumeOptions};

/// Writes that no batch of the store has room for.
pub(super) fn too_large() -> Result<(), String> {
    let words = |error: Error| error.to_string();
    let options = VolumeOptions { write_bytes_max: 8 << 20, ..tiny(2) };
    let fs = Volume::create(Memory::new(16 << 20), options, 1, at(0)).map_err(words)?;
    let caller = Caller { uid: 1, gid: 1, groups: &[], umask: 0, now: at(1) };
    let name = Name::new(b"file").map_err(words)?;
    let file = fs.create(&caller, InodeNumber::ROOT, name, Permissions::of_mode(0o600)).map_err(words)?.inode;
    fs.write(&caller, file, 0, b"before", false).map_err(words)?;
    let before = tree(&fs).map_err(words)?;
    let known = fs.getattr(file).map_err(words)?;
    let caller = Caller { now: at(2), ..caller };
    if fs.write(&caller, file, 3, &vec![1; 1 << 20], false).is_ok() {
        return Err("a megabyte went into a quarter of a log of one".to_owned());
    }
    if fs.getattr(file).map_err(words)? != known {
        return Err("memory has what the store refused".to_owned());
    }
    let after = tree(&fs).map_err(words)?;
    difference(&before, &after).map_or(Ok(()), Err)
}

#[test]
fn it_does_nothing() {
    too_large().unwrap_or_else(|what| panic!("{what}"));
}
