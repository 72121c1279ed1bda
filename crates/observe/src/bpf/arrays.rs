//! Arrays that programs in the kernel fill and processes read as their own memory, without a call.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::sys::RawMap;

/// What /proc calls the descriptor of a map.
const MAP: &str = "anon_inode:bpf-map";

/// An array of so many entries of `WORDS` words of eight bytes, all zero at first. A process that has its descriptor can map it.
pub struct Array<const WORDS: usize> {
    raw: RawMap,
}

impl<const WORDS: usize> Array<WORDS> {
    /// A new one. Only programs in the kernel write to it: it is frozen.
    ///
    /// # Errors
    /// What bpf(2) refuses; `EPERM` without `CAP_BPF`.
    pub fn create(entries: u32) -> io::Result<Self> {
        let raw = RawMap::shared_array(WORDS * size_of::<u64>(), entries)?;
        raw.freeze()?;
        Ok(Self { raw })
    }

    /// Its descriptor, as it is given to others.
    pub fn into_descriptor(self) -> OwnedFd {
        self.raw.into_descriptor()
    }
}

impl<const WORDS: usize> AsFd for Array<WORDS> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }
}

/// Arrays by key, for programs in the kernel that look for one.
pub struct Arrays<K, const WORDS: usize> {
    raw: RawMap,
    keys: PhantomData<K>,
}

impl<K, const WORDS: usize> Arrays<K, WORDS>
where
    K: Copy + FromBytes + IntoBytes + Immutable,
{
    /// An empty one, with room for so many arrays.
    ///
    /// # Errors
    /// What bpf(2) refuses; `EPERM` without `CAP_BPF`.
    pub fn create(max_entries: u32) -> io::Result<Self> {
        let like = Array::<WORDS>::create(1)?;
        Ok(Self { raw: RawMap::of_arrays(size_of::<K>(), max_entries, &like.raw)?, keys: PhantomData })
    }

    /// Puts an array there, in place of another one.
    ///
    /// # Errors
    /// `E2BIG` if there is no room.
    pub fn set(&self, key: &K, array: &Array<WORDS>) -> io::Result<()> {
        self.raw.set(key.as_bytes(), &array.as_fd().as_raw_fd().to_ne_bytes())
    }

    /// Takes one away.
    ///
    /// # Errors
    /// `ENOENT` if it is not there.
    pub fn remove(&self, key: &K) -> io::Result<()> {
        self.raw.remove(key.as_bytes())
    }
}

/// For instructions that name it.
impl<K, const WORDS: usize> AsFd for Arrays<K, WORDS> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }
}

/// An array as memory, to be read.
pub struct Mapped<const WORDS: usize> {
    entries: &'static [[AtomicU64; WORDS]],
}

impl<const WORDS: usize> Mapped<WORDS> {
    /// Maps the first entries of the array of this descriptor, which somebody else may have made.
    ///
    /// # Errors
    /// `EINVAL` or the like where it is no array of so many entries.
    pub fn new(array: BorrowedFd<'_>, entries: usize) -> io::Result<Self> {
        let bytes = entries.checked_mul(size_of::<[AtomicU64; WORDS]>()).filter(|bytes| *bytes > 0);
        let is_map =
            fs::read_link(format!("/proc/self/fd/{}", array.as_raw_fd())).is_ok_and(|name| name == Path::new(MAP));
        let bytes = bytes.filter(|_| is_map).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, array, 0)? };
        // SAFETY: of that size, on a page, until it is dropped; any bits are numbers, and they are read only as atomic ones. An
        // array of the kernel does not shrink, and a map longer than its array is refused.
        Ok(Self { entries: unsafe { std::slice::from_raw_parts(at.cast(), entries) } })
    }

    /// The entries.
    #[inline]
    pub fn entries(&self) -> &[[AtomicU64; WORDS]] {
        self.entries
    }
}

impl<const WORDS: usize> Drop for Mapped<WORDS> {
    fn drop(&mut self) {
        let bytes = size_of_val(self.entries);
        // SAFETY: the mapping is this value's own, and no reference to it outlives the value.
        let _ = unsafe { rustix::mm::munmap(self.entries.as_ptr().cast_mut().cast(), bytes) };
    }
}
