//! The files of a state as files of this machine, for programs that look at them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::disk::{Disk, Id};
use crate::inode::Attributes;
use crate::view::{Chunk, Kind, Named, Tree};

/// Why files are not there.
#[derive(Debug)]
pub(crate) enum NotLaidOut {
    /// It names something that is neither a file, nor a folder, nor a symbolic link.
    Special(String),
    /// In making this.
    System(PathBuf, io::Error),
}

impl Tree {
    /// Makes the files of the state that is on `disk` in an empty folder, with their owners where `owners` says that this may be
    /// done. Extended attributes, times of symbolic links and sizes of folders are left out.
    pub(crate) fn lay_out(&self, disk: &Disk, folder: &Path, owners: bool) -> Result<(), NotLaidOut> {
        let mut made: BTreeMap<u32, PathBuf> = BTreeMap::new();
        for named in &self.entries {
            let path = folder.join(OsStr::from_bytes(&named.path));
            self.lay_out_one(named, disk, &path, &mut made)
                .map_err(|error| NotLaidOut::System(path.clone(), error))?
                .then_some(())
                .ok_or_else(|| NotLaidOut::Special(String::from_utf8_lossy(&named.path).into_owned()))?;
        }
        // Last, and from below: writing changes times, and a folder may be closed to who writes.
        let rest = self.root.as_ref().map(|root| (folder.to_owned(), root, false));
        let all = self.entries.iter().rev().map(|named| {
            let is_link = matches!(named.kind, Kind::Symlink(_));
            (folder.join(OsStr::from_bytes(&named.path)), &named.attributes, is_link)
        });
        for (path, attributes, is_link) in all.chain(rest) {
            give(&path, attributes, is_link, owners).map_err(|error| NotLaidOut::System(path, error))?;
        }
        Ok(())
    }

    /// Whether it is of a kind that can be made.
    fn lay_out_one(
        &self,
        named: &Named,
        disk: &Disk,
        path: &Path,
        made: &mut BTreeMap<u32, PathBuf>,
    ) -> io::Result<bool> {
        match &named.kind {
            Kind::Folder => fs::create_dir(path)?,
            Kind::Symlink(to) => symlink(OsStr::from_bytes(to), path)?,
            Kind::Other => return Ok(false),
            Kind::File { size_bytes, chunks } => match made.get(&named.inode) {
                Some(first) => fs::hard_link(first, path)?,
                None => {
                    self.write(&File::create_new(path)?, *size_bytes, chunks, disk)?;
                    made.insert(named.inode, path.to_owned());
                }
            },
        }
        Ok(true)
    }

    fn write(&self, file: &File, size_bytes: u64, chunks: &[(u64, Chunk)], disk: &Disk) -> io::Result<()> {
        file.set_len(size_bytes)?;
        for (at, chunk) in chunks {
            let at_bytes = at * self.block_bytes as u64;
            let bytes: &[u8] = match chunk {
                Chunk::At(block) if disk.id(*block) == Id::ZEROES => continue,
                Chunk::At(block) => disk.bytes(disk.id(*block)),
                Chunk::Bytes(bytes) => bytes,
            };
            let within = size_bytes.saturating_sub(at_bytes).min(bytes.len() as u64) as usize;
            file.write_all_at(bytes.get(..within).unwrap_or_default(), at_bytes)?;
        }
        Ok(())
    }
}

fn give(path: &Path, attributes: &Attributes, is_link: bool, owners: bool) -> io::Result<()> {
    if owners {
        lchown(path, Some(attributes.user), Some(attributes.group))?;
    }
    if is_link {
        return Ok(());
    }
    // A device clock before 1970 or so late that this machine cannot say it is left out.
    if let Some(modified) = SystemTime::UNIX_EPOCH.checked_add(attributes.modified) {
        File::open(path)?.set_times(FileTimes::new().set_modified(modified))?;
    }
    // After the owner, which takes some of it away.
    fs::set_permissions(path, Permissions::from_mode(attributes.mode))
}
