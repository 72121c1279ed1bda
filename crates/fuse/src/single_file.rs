//! A file system of one file, beside the file's contents: names and attributes.

use crate::abi::ROOT_NODE;
use crate::abi::output::{AttrOut, Attributes, EntryOut, FileSystemSize, OpenFlags, OpenOut};
use crate::reply::Body;
use crate::request::Operation;

/// Node of the file.
const FILE_NODE: u64 = 2;
/// How long the kernel may keep names and attributes, which never change: a year.
const VALID_SECS: u64 = 365 * 24 * 3600;

const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

type Answer = Result<Body, i32>;

/// A file of a size that does not change, and the root folder in which it lies. It is opened past the page cache.
#[derive(Clone, Debug)]
pub struct SingleFile {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Best unit of reads, writes and holes: a loop device over it takes this for its discard granularity.
    pub block_bytes: u32,
    /// Whether it says that it cannot be written. Writes come all the same, from whoever may do everything.
    pub read_only: bool,
}

impl SingleFile {
    /// Answers what is not about contents, with a body or an error number; `None` for what is, and for requests
    /// that take no answer.
    pub fn answer(&self, node: u64, operation: &Operation<'_>) -> Option<Result<Body, i32>> {
        Some(match *operation {
            Operation::Lookup { name } => self.lookup(node, name),
            Operation::GetAttr { .. } => {
                self.attr(node).map(|attr| Body::of(&AttrOut { attr_valid: VALID_SECS, attr, ..AttrOut::default() }))
            }
            Operation::Open { .. } if node == FILE_NODE => {
                // Without the page cache between: the loop driver does direct I/O,
                // and parallel writes do not wait for the inode's lock.
                let flags = OpenFlags::DIRECT_IO | OpenFlags::PARALLEL_DIRECT_WRITES;
                Ok(Body::of(&OpenOut { fh: 1, open_flags: flags.bits(), backing_id: 0 }))
            }
            Operation::Open { .. } => Err(libc::EISDIR),
            Operation::StatFs => Ok(Body::of(&self.statfs())),
            Operation::Seek { offset, whence, .. } => self.seek(offset, whence),
            Operation::Access { .. } | Operation::Flush { .. } | Operation::Release { .. } | Operation::Destroy => {
                Ok(Body::EMPTY)
            }
            // The nodes are permanent, and what is under way is finished.
            Operation::Forget(_)
            | Operation::Interrupt { .. }
            | Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Fsync { .. }
            | Operation::Fallocate { .. } => return None,
            // ENOSYS makes the kernel stop asking (GETXATTR before each write, among others).
            _ => Err(libc::ENOSYS),
        })
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer {
        if parent != ROOT_NODE || name != self.name.as_bytes() {
            return Err(libc::ENOENT);
        }
        let attr = self.attr(FILE_NODE)?;
        Ok(Body::of(&EntryOut {
            nodeid: FILE_NODE,
            generation: 1,
            entry_valid: VALID_SECS,
            attr_valid: VALID_SECS,
            attr,
            ..EntryOut::default()
        }))
    }

    fn attr(&self, node: u64) -> Result<Attributes, i32> {
        match node {
            ROOT_NODE => Ok(Attributes {
                ino: ROOT_NODE,
                mode: libc::S_IFDIR | 0o500,
                nlink: 2,
                blksize: self.block_bytes,
                ..Attributes::default()
            }),
            FILE_NODE => Ok(Attributes {
                ino: FILE_NODE,
                size: self.size_bytes,
                blocks: self.size_bytes / 512,
                mode: libc::S_IFREG | if self.read_only { 0o400 } else { 0o600 },
                nlink: 1,
                blksize: self.block_bytes,
                ..Attributes::default()
            }),
            _ => Err(libc::ENOENT),
        }
    }

    /// The loop driver takes the block size for its discard granularity.
    fn statfs(&self) -> FileSystemSize {
        let bsize = self.block_bytes.max(1);
        FileSystemSize {
            blocks: self.size_bytes / u64::from(bsize),
            files: 1,
            bsize,
            frsize: bsize,
            namelen: 255,
            ..FileSystemSize::default()
        }
    }

    /// The whole file is data, as a disk is.
    fn seek(&self, offset: u64, whence: u32) -> Answer {
        match whence {
            SEEK_DATA | SEEK_HOLE if offset >= self.size_bytes => Err(libc::ENXIO),
            SEEK_DATA => Ok(Body::of(&offset)),
            SEEK_HOLE => Ok(Body::of(&self.size_bytes)),
            _ => Err(libc::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromBytes;

    use super::*;

    fn disk() -> SingleFile {
        SingleFile { name: "disk".to_owned(), size_bytes: 1 << 30, block_bytes: 4096, read_only: false }
    }

    #[test]
    fn has_one_name() {
        let disk = disk();
        let lookup = |node, name| disk.answer(node, &Operation::Lookup { name }).unwrap();
        let found =
            lookup(ROOT_NODE, b"disk".as_slice()).map(|body| EntryOut::read_from_bytes(body.as_bytes()).unwrap());
        assert_eq!(found.map(|entry| (entry.nodeid, entry.attr.size)).unwrap(), (FILE_NODE, 1 << 30));
        assert_eq!(lookup(ROOT_NODE, b"disc").err(), Some(libc::ENOENT));
        assert_eq!(lookup(FILE_NODE, b"disk").err(), Some(libc::ENOENT));
        assert_eq!(disk.answer(3, &Operation::GetAttr { handle: None }).unwrap().err(), Some(libc::ENOENT));
    }

    #[test]
    fn bodies_fit() {
        let disk = disk();
        let operations = [
            (Operation::Lookup { name: b"disk" }, size_of::<EntryOut>()),
            (Operation::GetAttr { handle: None }, size_of::<AttrOut>()),
            (Operation::Open { flags: 2, kill_privileges: false }, size_of::<OpenOut>()),
            (Operation::StatFs, size_of::<FileSystemSize>()),
            (Operation::Seek { handle: 1, offset: 5, whence: SEEK_HOLE }, 8),
        ];
        for (operation, length) in operations {
            let node = if matches!(operation, Operation::Lookup { .. }) { ROOT_NODE } else { FILE_NODE };
            let body = disk.answer(node, &operation).unwrap().unwrap();
            assert_eq!(body.as_bytes().len(), length, "{operation:?}");
        }
    }

    #[test]
    fn is_all_data() {
        let disk = disk();
        let seek = |offset, whence| {
            let body = disk.answer(FILE_NODE, &Operation::Seek { handle: 1, offset, whence }).unwrap()?;
            Ok::<_, i32>(u64::read_from_bytes(body.as_bytes()).unwrap())
        };
        assert_eq!(seek(4096, SEEK_DATA), Ok(4096));
        assert_eq!(seek(4096, SEEK_HOLE), Ok(1 << 30));
        assert_eq!(seek(1 << 30, SEEK_DATA), Err(libc::ENXIO));
        assert_eq!(seek(0, 0), Err(libc::EINVAL));
    }
}
