//! A file system of one file, as far as it needs no device: names, attributes,
//! and the terms of the connection.

use zerocopy::IntoBytes;

use super::abi::{
    Attr, AttrOut, EntryOut, InitFlags, InitFlags2, InitOut, MAJOR, MINOR, OLDEST_MINOR, OpenFlags, OpenOut, ROOT_NODE,
    StatfsOut,
};
use super::request::Operation;

/// Node of the file.
const DISK_NODE: u64 = 2;
/// How long the kernel may keep names and attributes, which never change: a year.
const VALID_SECS: u64 = 365 * 24 * 3600;

/// Pages of one request: 1 MiB, which kernels since 4.20 take without a system-wide setting.
const MAX_PAGES: u16 = 256;
/// Largest read or write in bytes.
pub(crate) const MAX_TRANSFER_BYTES: u32 = MAX_PAGES as u32 * 4096;
/// Asynchronous requests the kernel keeps with the server at a time. The loop
/// driver has 128 tags; its largest request becomes two of FUSE. The kernel's
/// default is 12.
const MAX_BACKGROUND: u16 = 256;

const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// An answer that needs no device: a body, or an error number.
pub(crate) type Answer = Result<Body, i32>;

/// The body of a reply, at most the longest of them.
pub(crate) struct Body {
    bytes: [u8; size_of::<EntryOut>()],
    length: usize,
}

impl Body {
    pub(crate) const EMPTY: Self = Self { bytes: [0; size_of::<EntryOut>()], length: 0 };

    pub(crate) fn of(value: &(impl IntoBytes + zerocopy::Immutable)) -> Self {
        let source = value.as_bytes();
        let mut body = Self { length: source.len(), ..Self::EMPTY };
        // Holds for every reply here; `bodies_fit` tries them.
        if let Some(room) = body.bytes.get_mut(..source.len()) {
            room.copy_from_slice(source);
        }
        body
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// The file and what is around it.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    /// The file's name; what `losetup` shows as the backing file.
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) block_bytes: u32,
    pub(crate) read_only: bool,
    /// Whether requests may come through an io_uring.
    pub(crate) has_ring: bool,
}

impl Disk {
    /// Answers what needs no device; `None` for what does, and for requests
    /// that take no answer.
    pub(crate) fn answer(&self, node: u64, operation: &Operation<'_>) -> Option<Answer> {
        Some(match *operation {
            Operation::Init { major, minor, max_readahead, flags, flags2 } => {
                self.init(major, minor, max_readahead, (flags, flags2))
            }
            Operation::Lookup { name } => self.lookup(node, name),
            Operation::GetAttr => {
                self.attr(node).map(|attr| Body::of(&AttrOut { attr_valid: VALID_SECS, attr, ..AttrOut::default() }))
            }
            Operation::Open if node == DISK_NODE => {
                // Without the page cache between: the loop driver does direct I/O,
                // and parallel writes do not wait for the inode's lock.
                let flags = OpenFlags::DIRECT_IO | OpenFlags::PARALLEL_DIRECT_WRITES;
                Ok(Body::of(&OpenOut { fh: 1, open_flags: flags.bits(), backing_id: 0 }))
            }
            Operation::Open => Err(libc::EISDIR),
            Operation::StatFs => Ok(Body::of(&self.statfs())),
            Operation::Seek { offset, whence } => self.seek(offset, whence),
            Operation::Nothing | Operation::Release | Operation::Destroy => Ok(Body::EMPTY),
            // ENOSYS makes the kernel stop asking (GETXATTR before each write, among others).
            Operation::Unsupported => Err(libc::ENOSYS),
            Operation::Unanswered
            | Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Fsync
            | Operation::Fallocate { .. } => return None,
        })
    }

    fn init(&self, major: u32, minor: u32, max_readahead: u32, (flags, flags2): (u32, u32)) -> Answer {
        if major > MAJOR {
            // The kernel sends INIT again with the version that is offered.
            return Ok(Body::of(&InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() }));
        }
        let wanted = InitFlags::ASYNC_READ | InitFlags::BIG_WRITES | InitFlags::ASYNC_DIO | InitFlags::MAX_PAGES;
        let through_ring = self.takes_ring(flags, flags2);
        let flags = InitFlags::from_bits_truncate(flags) & wanted;
        if major < MAJOR || minor < OLDEST_MINOR || flags != wanted {
            return Err(libc::EPROTO);
        }
        Ok(Body::of(&InitOut {
            major: MAJOR,
            minor: MINOR.min(minor),
            max_readahead,
            flags: (if through_ring { flags | InitFlags::EXTENDED } else { flags }).bits(),
            flags2: if through_ring { InitFlags2::OVER_IO_URING.bits() } else { 0 },
            max_background: MAX_BACKGROUND,
            congestion_threshold: MAX_BACKGROUND / 4 * 3,
            max_write: MAX_TRANSFER_BYTES,
            time_gran: 1,
            max_pages: MAX_PAGES,
            ..InitOut::default()
        }))
    }

    /// Whether an INIT with these flags makes requests come through a ring: the
    /// kernel offers it, and there is one.
    pub(crate) fn takes_ring(&self, flags: u32, flags2: u32) -> bool {
        self.has_ring
            && InitFlags::from_bits_truncate(flags).contains(InitFlags::EXTENDED)
            && InitFlags2::from_bits_truncate(flags2).contains(InitFlags2::OVER_IO_URING)
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer {
        if parent != ROOT_NODE || name != self.name.as_bytes() {
            return Err(libc::ENOENT);
        }
        let attr = self.attr(DISK_NODE)?;
        Ok(Body::of(&EntryOut {
            nodeid: DISK_NODE,
            generation: 1,
            entry_valid: VALID_SECS,
            attr_valid: VALID_SECS,
            attr,
            ..EntryOut::default()
        }))
    }

    fn attr(&self, node: u64) -> Result<Attr, i32> {
        match node {
            ROOT_NODE => Ok(Attr {
                ino: ROOT_NODE,
                mode: libc::S_IFDIR | 0o500,
                nlink: 2,
                blksize: self.block_bytes,
                ..Attr::default()
            }),
            DISK_NODE => Ok(Attr {
                ino: DISK_NODE,
                size: self.size_bytes,
                blocks: self.size_bytes / 512,
                mode: libc::S_IFREG | if self.read_only { 0o400 } else { 0o600 },
                nlink: 1,
                blksize: self.block_bytes,
                ..Attr::default()
            }),
            _ => Err(libc::ENOENT),
        }
    }

    /// The loop driver takes the block size for its discard granularity.
    fn statfs(&self) -> StatfsOut {
        let bsize = self.block_bytes.max(1);
        StatfsOut {
            blocks: self.size_bytes / u64::from(bsize),
            files: 1,
            bsize,
            frsize: bsize,
            namelen: 255,
            ..StatfsOut::default()
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

    fn disk() -> Disk {
        Disk { name: "disk".to_owned(), size_bytes: 1 << 30, block_bytes: 4096, read_only: false, has_ring: true }
    }

    fn init(major: u32, minor: u32, flags: u32) -> Result<InitOut, i32> {
        init2(major, minor, flags, 0)
    }

    fn init2(major: u32, minor: u32, flags: u32, flags2: u32) -> Result<InitOut, i32> {
        let operation = Operation::Init { major, minor, max_readahead: 131_072, flags, flags2 };
        disk().answer(0, &operation).unwrap().map(|body| InitOut::read_from_bytes(body.as_bytes()).unwrap())
    }

    #[test]
    fn negotiates() {
        let out = init(7, 45, !0).unwrap();
        assert_eq!((out.major, out.minor, out.max_pages, out.max_background), (7, 36, 256, 256));
        assert_eq!(out.max_write, 1 << 20);
        // No flag that was not offered, and no second word of flags.
        assert_eq!(out.flags & !(1 | 1 << 5 | 1 << 15 | 1 << 22), 0);
        assert_eq!(out.flags2, 0);
        // The ring, where both have it.
        let out = init2(7, 45, !0, !0).unwrap();
        assert_eq!((out.flags & 1 << 30, out.flags2), (1 << 30, 1 << 9));
        assert_eq!(init2(7, 45, !(1 << 30), !0).unwrap().flags2, 0);
        assert_eq!(init2(7, 45, !0, !(1 << 9)).unwrap().flags2, 0);
        // The kernel speaks an older minor version: no newer one is claimed.
        assert_eq!(init(7, 31, !0).unwrap().minor, 31);
        // A newer major version is answered with ours, an older one refused.
        assert_eq!(init(8, 0, 0).unwrap().major, 7);
        assert_eq!(init(6, 0, !0).unwrap_err(), libc::EPROTO);
        // Without asynchronous direct I/O every queue would be one deep.
        assert_eq!(init(7, 45, !(1 << 15)).unwrap_err(), libc::EPROTO);
    }

    #[test]
    fn has_one_name() {
        let disk = disk();
        let lookup = |node, name| disk.answer(node, &Operation::Lookup { name }).unwrap();
        let found =
            lookup(ROOT_NODE, b"disk".as_slice()).map(|body| EntryOut::read_from_bytes(body.as_bytes()).unwrap());
        assert_eq!(found.map(|entry| (entry.nodeid, entry.attr.size)).unwrap(), (DISK_NODE, 1 << 30));
        assert_eq!(lookup(ROOT_NODE, b"disc").err(), Some(libc::ENOENT));
        assert_eq!(lookup(DISK_NODE, b"disk").err(), Some(libc::ENOENT));
        assert_eq!(disk.answer(3, &Operation::GetAttr).unwrap().err(), Some(libc::ENOENT));
    }

    #[test]
    fn bodies_fit() {
        let disk = disk();
        let operations = [
            (Operation::Lookup { name: b"disk" }, size_of::<EntryOut>()),
            (Operation::GetAttr, size_of::<AttrOut>()),
            (Operation::Open, size_of::<OpenOut>()),
            (Operation::StatFs, size_of::<StatfsOut>()),
            (Operation::Seek { offset: 5, whence: SEEK_HOLE }, 8),
        ];
        for (operation, length) in operations {
            let node = if matches!(operation, Operation::Lookup { .. }) { ROOT_NODE } else { DISK_NODE };
            let body = disk.answer(node, &operation).unwrap().unwrap();
            assert_eq!(body.as_bytes().len(), length, "{operation:?}");
        }
    }

    #[test]
    fn is_all_data() {
        let disk = disk();
        let seek = |offset, whence| {
            let body = disk.answer(DISK_NODE, &Operation::Seek { offset, whence }).unwrap()?;
            Ok::<_, i32>(u64::read_from_bytes(body.as_bytes()).unwrap())
        };
        assert_eq!(seek(4096, SEEK_DATA), Ok(4096));
        assert_eq!(seek(4096, SEEK_HOLE), Ok(1 << 30));
        assert_eq!(seek(1 << 30, SEEK_DATA), Err(libc::ENXIO));
        assert_eq!(seek(0, 0), Err(libc::EINVAL));
    }
}
