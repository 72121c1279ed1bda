//! bpf(2) and perf_event_open(2).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::maps::MapKind;

/// Commands of `linux/bpf.h`.
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const PROG_LOAD: libc::c_int = 5;
const MAP_FREEZE: libc::c_int = 22;
const MAP_LOOKUP_AND_DELETE_BATCH: libc::c_int = 25;
/// `BPF_MAP_TYPE_HASH_OF_MAPS`.
const HASH_OF_MAPS: u32 = 13;
/// `BPF_MAP_TYPE_RINGBUF`.
const RING: u32 = 27;
/// `BPF_F_NO_PREALLOC`: memory for the entries that there are, not for all that may be.
const NO_PREALLOC: u32 = 1;
/// `BPF_F_MMAPABLE` and `BPF_F_INNER_MAP`: an array that processes can map, and that may stand in a map of arrays of any lengths.
const SHARED_ARRAY: u32 = 1 << 10 | 1 << 12;
const PROG_TYPE_TRACEPOINT: u32 = 5;
/// `PERF_TYPE_TRACEPOINT` and ioctls of `linux/perf_event.h`.
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
}

#[repr(C)]
#[derive(Default)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// `struct perf_event_attr` of its first version (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct PerfAttributes {
    kind: u32,
    size: u32,
    config: u64,
    rest: [u64; 6],
}

const _: () = assert!(size_of::<PerfAttributes>() == 64);

fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attributes` is the part of `union bpf_attr` that the command reads, all other
    // bytes of which the kernel takes for zero; the addresses in it are those of live buffers
    // of the lengths that the map or the attributes give, which each caller below sees to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(descriptor: libc::c_long) -> io::Result<File> {
    let descriptor = RawFd::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given this descriptor, and nobody else has it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

fn address<T>(of: &[T]) -> u64 {
    of.as_ptr() as u64
}

/// A map of keys and values of so many bytes each.
pub struct RawMap {
    file: File,
    key_bytes: usize,
    value_bytes: usize,
}

/// Where taking out a hash map's entries goes on.
#[derive(Clone, Copy, Default)]
pub struct Cursor([u64; 2]);

impl RawMap {
    pub fn create(kind: MapKind, key_bytes: usize, value_bytes: usize, max_entries: u32) -> io::Result<Self> {
        let mut attributes = MapCreate {
            map_type: kind as u32,
            key_size: u32::try_from(key_bytes).map_err(io::Error::other)?,
            value_size: u32::try_from(value_bytes).map_err(io::Error::other)?,
            max_entries,
            map_flags: if matches!(kind, MapKind::Hash) { NO_PREALLOC } else { 0 },
            inner_map_fd: 0,
        };
        Ok(Self { file: owned(bpf(MAP_CREATE, &mut attributes)?)?, key_bytes, value_bytes })
    }

    /// An array that processes can map.
    pub fn shared_array(value_bytes: usize, max_entries: u32) -> io::Result<Self> {
        let mut attributes = MapCreate {
            map_type: MapKind::Array as u32,
            key_size: size_of::<u32>() as u32,
            value_size: u32::try_from(value_bytes).map_err(io::Error::other)?,
            max_entries,
            map_flags: SHARED_ARRAY,
            inner_map_fd: 0,
        };
        Ok(Self { file: owned(bpf(MAP_CREATE, &mut attributes)?)?, key_bytes: size_of::<u32>(), value_bytes })
    }

    /// A hash map of arrays like this one.
    pub fn of_arrays(key_bytes: usize, max_entries: u32, like: &Self) -> io::Result<Self> {
        let mut attributes = MapCreate {
            map_type: HASH_OF_MAPS,
            key_size: u32::try_from(key_bytes).map_err(io::Error::other)?,
            value_size: size_of::<u32>() as u32,
            max_entries,
            // All its memory at once: that of one which grows is not there in time on every kernel.
            map_flags: 0,
            inner_map_fd: like.file.as_raw_fd().unsigned_abs(),
        };
        Ok(Self { file: owned(bpf(MAP_CREATE, &mut attributes)?)?, key_bytes, value_bytes: size_of::<u32>() })
    }

    /// A ring of so many bytes, a power of two of whole pages.
    pub fn ring(bytes: u32) -> io::Result<Self> {
        let mut attributes = MapCreate { map_type: RING, max_entries: bytes, ..MapCreate::default() };
        Ok(Self { file: owned(bpf(MAP_CREATE, &mut attributes)?)?, key_bytes: 0, value_bytes: 0 })
    }

    /// From now on processes cannot change it, nor map it to be written; programs in the kernel can.
    pub fn freeze(&self) -> io::Result<()> {
        let mut attributes = Element { map_fd: self.file.as_raw_fd().unsigned_abs(), ..Element::default() };
        bpf(MAP_FREEZE, &mut attributes).map(drop)
    }

    /// Takes an entry away.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        bpf(MAP_DELETE_ELEM, &mut self.element(key, 0)).map(drop)
    }

    fn element(&self, key: &[u8], value: u64) -> Element {
        assert_eq!(key.len(), self.key_bytes, "a key of this map");
        Element { map_fd: self.file.as_raw_fd().unsigned_abs(), key: address(key), value, ..Element::default() }
    }

    /// Copies the value of a key that is there.
    pub fn get(&self, key: &[u8], value: &mut [u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value_bytes, "a value of this map");
        bpf(MAP_LOOKUP_ELEM, &mut self.element(key, value.as_mut_ptr() as u64)).map(drop)
    }

    /// Sets a value.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value_bytes, "a value of this map");
        bpf(MAP_UPDATE_ELEM, &mut self.element(key, address(value))).map(drop)
    }

    /// Takes entries out of a hash map, from `place` on, which then is where the next are: their number, and whether they are the
    /// last. ENOSPC where there is no room for those of one bucket.
    pub fn take(&self, place: &mut Option<Cursor>, keys: &mut [u8], values: &mut [u8]) -> io::Result<(usize, bool)> {
        let room = (keys.len() / self.key_bytes).min(values.len() / self.value_bytes);
        let mut next = Cursor::default();
        let mut batch = Batch {
            in_batch: place.as_ref().map_or(0, |place| address(&place.0)),
            out_batch: next.0.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: u32::try_from(room).unwrap_or(u32::MAX),
            map_fd: self.file.as_raw_fd().unsigned_abs(),
            ..Batch::default()
        };
        let is_last = match bpf(MAP_LOOKUP_AND_DELETE_BATCH, &mut batch) {
            Ok(_) => false,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            Err(error) => return Err(error),
        };
        *place = Some(next);
        Ok((batch.count as usize, is_last))
    }
}

impl RawMap {
    pub fn into_descriptor(self) -> OwnedFd {
        self.file.into()
    }
}

impl AsFd for RawMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Loads a program for tracepoints, as 8-byte instructions. What the verifier says goes to `log`, if there is room.
pub fn load(instructions: &[u64], log: &mut [u8]) -> io::Result<File> {
    let mut attributes = ProgLoad {
        prog_type: PROG_TYPE_TRACEPOINT,
        insn_cnt: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        insns: address(instructions),
        license: c"Apache-2.0 OR MIT".as_ptr() as u64,
        ..ProgLoad::default()
    };
    if !log.is_empty() {
        attributes.log_level = 1;
        attributes.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
        attributes.log_buf = log.as_mut_ptr() as u64;
    }
    owned(bpf(PROG_LOAD, &mut attributes)?)
}

/// An event of the tracepoint of this number at which the program runs as long as both are open.
pub fn event(tracepoint: u32, program: &File) -> io::Result<File> {
    let attributes = PerfAttributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<PerfAttributes>() as u32,
        config: tracepoint.into(),
        rest: [0; 6],
    };
    let (everybody, processor, group) = (-1, 0, -1);
    // SAFETY: `attributes` has the size that it says and outlives the call. A program of a
    // tracepoint runs on all processors, whichever its event is opened for.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            everybody,
            processor,
            group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    let event = owned(event)?;
    for (request, argument) in [(PERF_IOC_SET_BPF, program.as_raw_fd()), (PERF_IOC_ENABLE, 0)] {
        // SAFETY: both take a number and no address.
        if unsafe { libc::ioctl(event.as_raw_fd(), request, argument) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(event)
}
