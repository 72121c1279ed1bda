//! bpf(2) and perf_event_open(2): maps, programs, and their tracepoints.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Commands of `linux/bpf.h`.
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const MAP_LOOKUP_AND_DELETE_BATCH: libc::c_int = 25;
/// `BPF_F_NO_PREALLOC`: memory for the entries that there are, not for all that may be.
const NO_PREALLOC: u32 = 1;
const PROG_TYPE_TRACEPOINT: u32 = 5;
/// `PERF_TYPE_TRACEPOINT` and ioctls of `linux/perf_event.h`.
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const LOG_BYTES: usize = 64 << 10;

/// A kind of map.
#[derive(Clone, Copy)]
pub enum MapKind {
    /// Keys of any bytes.
    Hash = 1,
    /// Keys are 32-bit numbers from 0 on.
    Array = 2,
    /// Keys of any bytes; once it is full, those go that were not used for the longest time.
    LruHash = 9,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
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

/// A map whose keys and values have these sizes.
pub struct Map<const KEY: usize, const VALUE: usize>(File);

impl<const KEY: usize, const VALUE: usize> Map<KEY, VALUE> {
    /// An empty one.
    pub fn create(kind: MapKind, max_entries: u32) -> io::Result<Self> {
        let mut attributes = MapCreate {
            map_type: kind as u32,
            key_size: KEY as u32,
            value_size: VALUE as u32,
            max_entries,
            map_flags: if matches!(kind, MapKind::Hash) { NO_PREALLOC } else { 0 },
        };
        Ok(Self(owned(bpf(MAP_CREATE, &mut attributes)?)?))
    }

    /// For instructions that name it.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn element(&self, key: &[u8; KEY], value: u64) -> Element {
        Element { map_fd: self.0.as_raw_fd().unsigned_abs(), key: address(key), value, ..Element::default() }
    }

    /// The value of a key that is there.
    pub fn get(&self, key: &[u8; KEY]) -> io::Result<[u8; VALUE]> {
        let mut value = [0; VALUE];
        let mut element = self.element(key, value.as_mut_ptr() as u64);
        bpf(MAP_LOOKUP_ELEM, &mut element)?;
        Ok(value)
    }

    /// Sets a value.
    pub fn set(&self, key: &[u8; KEY], value: &[u8; VALUE]) -> io::Result<()> {
        bpf(MAP_UPDATE_ELEM, &mut self.element(key, address(value))).map(drop)
    }

    /// Takes all entries out of a hash map, in no order. One that is added meanwhile may be
    /// taken or not; what is counted in one between its copy and its end is lost.
    pub fn take(&self, each: &mut dyn FnMut(&[u8; KEY], &[u8; VALUE])) -> io::Result<()> {
        // A bucket's entries have to fit: hash chains are short, and ENOSPC asks for more room.
        let mut room = 4096_usize;
        let mut place = [0_u64; 2];
        let mut next = [0_u64; 2];
        let mut is_first = true;
        loop {
            let mut keys = vec![[0_u8; KEY]; room];
            let mut values = vec![[0_u8; VALUE]; room];
            let mut batch = Batch {
                in_batch: if is_first { 0 } else { address(&place) },
                out_batch: next.as_mut_ptr() as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: room as u32,
                map_fd: self.0.as_raw_fd().unsigned_abs(),
                ..Batch::default()
            };
            let result = bpf(MAP_LOOKUP_AND_DELETE_BATCH, &mut batch);
            let is_last = match result {
                Ok(_) => false,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && room < 1 << 22 => {
                    room *= 4;
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (key, value) in keys.iter().zip(&values).take(batch.count as usize) {
                each(key, value);
            }
            if is_last {
                return Ok(());
            }
            (place, is_first) = (next, false);
        }
    }
}

/// A program that is attached to a tracepoint as long as it lives.
pub struct Attached {
    _program: File,
    _event: File,
}

/// Loads a program, as 8-byte instructions, and attaches it to the tracepoint of this number.
/// An error has the verifier's last words, if it had any.
pub fn attach(instructions: &[u64], tracepoint: u32) -> io::Result<Attached> {
    let mut attributes = ProgLoad {
        prog_type: PROG_TYPE_TRACEPOINT,
        insn_cnt: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        insns: address(instructions),
        license: c"Apache-2.0 OR MIT".as_ptr() as u64,
        ..ProgLoad::default()
    };
    let program = match bpf(PROG_LOAD, &mut attributes) {
        Ok(program) => owned(program)?,
        Err(error) => {
            let mut log = vec![0_u8; LOG_BYTES];
            attributes.log_level = 1;
            attributes.log_size = LOG_BYTES as u32;
            attributes.log_buf = log.as_mut_ptr() as u64;
            // Once more, to hear why; a program that now is taken is closed at once.
            if let Ok(program) = bpf(PROG_LOAD, &mut attributes) {
                drop(owned(program)?);
            }
            let text = String::from_utf8_lossy(&log);
            let words = text.trim_end_matches('\0').trim_end().lines().rev().take(3).collect::<Vec<_>>();
            let words = words.into_iter().rev().collect::<Vec<_>>().join("; ");
            return Err(io::Error::new(error.kind(), format!("{error} {words}")));
        }
    };
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
    Ok(Attached { _program: program, _event: event })
}
