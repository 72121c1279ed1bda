//! File handles and the ioctls about inodes and subvolumes: open_by_handle_at(2), ioctl_xfs_bulkstat(2), btrfs-ioctl(2).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::ioctl::{self, Updater, opcode};

/// Longest handle (`MAX_HANDLE_SZ` of `linux/exportfs.h`).
const MAX_HANDLE_BYTES: usize = 128;

/// `struct file_handle` with the longest handle behind it.
#[repr(C, align(8))]
#[derive(Clone)]
pub struct Handle {
    handle_bytes: u32,
    handle_type: i32,
    bytes: [u8; MAX_HANDLE_BYTES],
}

impl Handle {
    /// Of the folder itself.
    pub fn of(folder: &File) -> io::Result<Self> {
        let mut handle = Self { handle_bytes: MAX_HANDLE_BYTES as u32, handle_type: 0, bytes: [0; MAX_HANDLE_BYTES] };
        let mut mount_id = 0;
        // SAFETY: the path is a string with its end; `handle` has the layout of `struct
        // file_handle` with `handle_bytes` bytes behind the two numbers, and the kernel
        // writes no more than these.
        let result = unsafe {
            libc::name_to_handle_at(
                folder.as_raw_fd(),
                c"".as_ptr(),
                (&raw mut handle).cast(),
                &raw mut mount_id,
                libc::AT_EMPTY_PATH,
            )
        };
        if result == 0 { Ok(handle) } else { Err(io::Error::last_os_error()) }
    }

    /// Its type (`enum fid_type` of `linux/exportfs.h`).
    pub fn kind(&self) -> i32 {
        self.handle_type
    }

    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let length = (self.handle_bytes as usize).min(MAX_HANDLE_BYTES);
        self.bytes.get_mut(..length).unwrap_or_default()
    }

    /// The file that it stands for, without access to its contents (`O_PATH`).
    pub fn open(&mut self, mount: &File) -> io::Result<File> {
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        // SAFETY: as in `of`; the kernel only reads the handle.
        let result = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut *self).cast(), flags) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor, and nobody else has it.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(result) }))
    }
}

/// `struct xfs_bulkstat_req` of `xfs/xfs_fs.h` for one inode: the header and as much of
/// `struct xfs_bulkstat` as is there.
#[repr(C, align(8))]
struct Bulkstat {
    ino: u64,
    flags: u32,
    icount: u32,
    ocount: u32,
    agno: u32,
    reserved: [u64; 5],
    found_ino: u64,
    skipped: [u64; 7],
    found_generation: u32,
    rest: [u8; 124],
}

const _: () = assert!(size_of::<Bulkstat>() == 64 + 192);

/// The generation of an inode of XFS by its number, without opening it; `None` if there
/// is no such inode (`XFS_IOC_BULKSTAT`).
pub fn xfs_generation(mount: &File, inode: u64) -> io::Result<Option<u32>> {
    // The number counts the header alone.
    const BULKSTAT: ioctl::Opcode = opcode::read::<[u64; 8]>(b'X', 127);
    let mut request = Bulkstat {
        ino: inode,
        flags: 0,
        icount: 1,
        ocount: 0,
        agno: 0,
        reserved: [0; 5],
        found_ino: 0,
        skipped: [0; 7],
        found_generation: 0,
        rest: [0; 124],
    };
    // SAFETY: the structure has room for the one record asked for (its size is asserted
    // above), and any bits are valid in it.
    unsafe { ioctl::ioctl(mount, Updater::<BULKSTAT, Bulkstat>::new(&mut request))? };
    Ok((request.ocount == 1 && request.found_ino == inode).then_some(request.found_generation))
}

/// Most subvolumes that are looked through.
const MAX_SUBVOLUMES: usize = 1 << 12;
/// `BTRFS_FS_TREE_OBJECTID`: the subvolume that every file system has.
const TOP_SUBVOLUME: u64 = 5;
/// `BTRFS_ROOT_BACKREF_KEY`: a subvolume's place in its parent; each of the others has one.
const ROOT_BACKREF: u32 = 144;
/// Bytes of `struct btrfs_ioctl_search_header` before each item.
const ITEM_HEADER_BYTES: usize = 32;

/// `struct btrfs_ioctl_search_args` of `linux/btrfs.h`: what is searched for, and what was found.
#[repr(C, align(8))]
struct TreeSearch {
    tree: u64,
    min_objectid: u64,
    max_objectid: u64,
    min_offset: u64,
    max_offset: u64,
    min_transid: u64,
    max_transid: u64,
    min_type: u32,
    max_type: u32,
    items: u32,
    unused: u32,
    reserved: [u64; 4],
    found: [u8; 3992],
}

const _: () = assert!(size_of::<TreeSearch>() == 4096);

/// The numbers of all subvolumes of a Btrfs file system, snapshots among them (`BTRFS_IOC_TREE_SEARCH`; root).
pub fn btrfs_subvolumes(mount: &File) -> io::Result<Vec<u64>> {
    const TREE_SEARCH: ioctl::Opcode = opcode::read_write::<TreeSearch>(0x94, 17);
    /// The tree of tree roots.
    const ROOT_TREE: u64 = 1;
    /// `BTRFS_FIRST_FREE_OBJECTID`.
    const FIRST: u64 = 256;
    let mut subvolumes = vec![TOP_SUBVOLUME];
    let mut next = (FIRST, 0_u32, 0_u64);
    loop {
        let mut search = TreeSearch {
            tree: ROOT_TREE,
            min_objectid: next.0,
            // `BTRFS_LAST_FREE_OBJECTID`.
            max_objectid: u64::MAX - 255,
            min_offset: next.2,
            max_offset: u64::MAX,
            min_transid: 0,
            max_transid: u64::MAX,
            min_type: next.1,
            max_type: u32::from(u8::MAX),
            items: u32::MAX,
            unused: 0,
            reserved: [0; 4],
            found: [0; 3992],
        };
        // SAFETY: the structure is the kernel's, of the size that the number of the call says (asserted above), and any
        // bits are valid in it.
        unsafe { ioctl::ioctl(mount, Updater::<TREE_SEARCH, TreeSearch>::new(&mut search))? };
        let mut rest = search.found.as_slice();
        for _ in 0..search.items {
            let word = |at: usize| Some(u64::from_ne_bytes(rest.get(at..at + 8)?.try_into().ok()?));
            let half = |at: usize| Some(u32::from_ne_bytes(rest.get(at..at + 4)?.try_into().ok()?));
            let (Some(objectid), Some(offset), Some(kind), Some(length)) = (word(8), word(16), half(24), half(28))
            else {
                break;
            };
            if kind == ROOT_BACKREF {
                subvolumes.push(objectid);
            }
            next = match offset.checked_add(1) {
                Some(offset) => (objectid, kind, offset),
                None => (objectid, kind.saturating_add(1), 0),
            };
            rest = rest.get(ITEM_HEADER_BYTES + length as usize..).unwrap_or_default();
        }
        if subvolumes.len() > MAX_SUBVOLUMES {
            return Err(io::Error::other("too many subvolumes"));
        }
        if search.items == 0 {
            subvolumes.dedup();
            return Ok(subvolumes);
        }
    }
}
