//! Maps: what programs in the kernel and this one both see.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::sys::RawMap;

/// Entries that are taken out at once, at first and at most: those of a bucket have to fit.
const ROOM: usize = 4096;
const ROOM_MAX: usize = 1 << 22;

/// A kind of map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// Keys of any bytes. Memory is there for the entries that there are.
    Hash = 1,
    /// Keys are 32-bit numbers from 0 on.
    Array = 2,
    /// Keys of any bytes; once it is full, those go that were not used for the longest time.
    LruHash = 9,
}

/// A map of keys and values of these types, which a program has to lay out as Rust does (`repr(C)`, without padding). It lives as
/// long as this, or a program that names it.
pub struct Map<K, V> {
    raw: RawMap,
    entries: PhantomData<(K, V)>,
}

impl<K, V> Map<K, V>
where
    K: Copy + FromBytes + IntoBytes + Immutable,
    V: Copy + FromBytes + IntoBytes + Immutable,
{
    /// An empty one, with room for so many entries.
    ///
    /// # Errors
    /// What bpf(2) refuses; `EPERM` without `CAP_BPF`.
    pub fn create(kind: MapKind, max_entries: u32) -> io::Result<Self> {
        let raw = RawMap::create(kind, size_of::<K>(), size_of::<V>(), max_entries)?;
        Ok(Self { raw, entries: PhantomData })
    }

    /// The value of a key that is there.
    ///
    /// # Errors
    /// `ENOENT` for one that is not.
    pub fn get(&self, key: &K) -> io::Result<V> {
        let mut value = V::new_zeroed();
        self.raw.get(key.as_bytes(), value.as_mut_bytes())?;
        Ok(value)
    }

    /// Sets a value.
    ///
    /// # Errors
    /// `E2BIG` if the map is full.
    pub fn set(&self, key: &K, value: &V) -> io::Result<()> {
        self.raw.set(key.as_bytes(), value.as_bytes())
    }

    /// Takes all entries out of a hash map, in no order. One that is added meanwhile may be
    /// taken or not; what is counted in one between its copy and its end is lost.
    ///
    /// # Errors
    /// What bpf(2) refuses.
    pub fn take(&self, each: &mut dyn FnMut(&K, &V)) -> io::Result<()> {
        let mut room = ROOM;
        let mut place = None;
        loop {
            let mut keys = vec![K::new_zeroed(); room];
            let mut values = vec![V::new_zeroed(); room];
            let (taken, is_last) = match self.raw.take(&mut place, keys.as_mut_bytes(), values.as_mut_bytes()) {
                Ok(taken) => taken,
                // Hash chains are short, but a bucket's entries did not fit.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && room < ROOM_MAX => {
                    room *= 4;
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (key, value) in keys.iter().zip(&values).take(taken) {
                each(key, value);
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

/// For instructions that name it.
impl<K, V> AsFd for Map<K, V> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }
}

/// Whether hash maps of this kernel get room as they grow. Those of User-Mode Linux get no more until the next interrupt (the
/// work of `kernel/bpf/memalloc.c` waits for one), and nearly all that a program puts there is lost.
pub fn maps_grow() -> bool {
    !fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux"))
}
