//! Where all accesses are recorded: when each began, and what it was.

use core::ffi::{CStr, c_int, c_long};
use core::sync::atomic::{AtomicBool, Ordering};

use super::descriptors::{self, Known};
use super::{attach, reading, sys};
use crate::shared::{Deed, Record, Table};

#[link(name = "c")]
unsafe extern "C" {
    fn clock_gettime(clock: c_int, now: *mut Timespec) -> c_int;
}

/// `struct timespec` of 64-bit machines.
#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

const CLOCK_MONOTONIC: c_int = 1;

static RECORDS: AtomicBool = AtomicBool::new(false);

/// Accesses are recorded from now on.
pub fn start() {
    RECORDS.store(true, Ordering::Relaxed);
}

/// Whether accesses are recorded.
#[inline]
pub fn is_on() -> bool {
    RECORDS.load(Ordering::Relaxed)
}

/// When a call that may be recorded begins; 0 where nothing is recorded.
#[inline]
pub fn begin() -> u64 {
    if is_on() { now_ns() } else { 0 }
}

#[cold]
#[inline(never)]
fn now_ns() -> u64 {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: there is room for one.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut now) };
    (now.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(now.nanoseconds as u64)
}

/// A read that has ended.
pub struct Recorded {
    /// What [`begin`] said.
    pub began_ns: u64,
    /// The file's place in the table.
    pub index: usize,
    /// The place's generation.
    pub generation: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Records a read, if reads are recorded.
#[inline]
pub fn read(table: &Table, read: &Recorded) {
    if read.began_ns != 0 {
        record(table, read, Deed::Read);
    }
}

#[cold]
#[inline(never)]
fn record(table: &Table, what: &Recorded, deed: Deed) {
    if !attach::may_call() || table.header.over.load(Ordering::Relaxed) != 0 {
        return;
    }
    let Recorded { began_ns, index, generation, offset, bytes } = *what;
    let record = Record {
        index: index as u32,
        generation,
        deed,
        thread: sys::thread(),
        offset_bytes: offset,
        length_bytes: bytes,
        began_ns,
        ended_ns: now_ns(),
    };
    if table.ring.push(&record) {
        sys::wake(&table.header.asleep);
    }
}

/// Records that the program asked the kernel to load something.
pub fn advised(fd: i32, offset: u64, bytes: u64) {
    let began_ns = begin();
    let Some(table) = attach::table().filter(|_| began_ns != 0) else { return };
    if matches!(descriptors::known(fd), Known::First | Known::Unknown) {
        reading::identify(table, fd);
    }
    if let Known::Followed { index, generation } = descriptors::known(fd) {
        // Up to the end of the file, where no length is given.
        let bytes = if bytes == 0 { table.file(index).file_bytes.load(Ordering::Relaxed) } else { bytes };
        record(table, &Recorded { began_ns, index, generation, offset, bytes }, Deed::Advised);
    }
}

/// A descriptor of a file was found: what the file is called, if that is wanted.
pub fn named(table: &Table, fd: i32, index: usize, generation: u32) {
    let Some(name) = table.names.get(index).filter(|_| is_on()) else { return };
    let (mut path, mut text) = ([0; 32], [0; 512]);
    if let Some(path) = link_of(fd, &mut path) {
        let length = sys::link(path, &mut text);
        name.set(generation, text.get(..length).unwrap_or_default());
    }
}

/// `/proc/self/fd/N`.
fn link_of(fd: i32, buffer: &mut [u8; 32]) -> Option<&CStr> {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    let number = u32::try_from(fd).ok()?;
    buffer[..FOLDER.len()].copy_from_slice(FOLDER);
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut left = number;
    for place in buffer[FOLDER.len()..FOLDER.len() + digits].iter_mut().rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
    }
    CStr::from_bytes_until_nul(buffer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_has_a_path() {
        for (fd, path) in [(0, c"/proc/self/fd/0"), (10, c"/proc/self/fd/10"), (i32::MAX, c"/proc/self/fd/2147483647")]
        {
            assert_eq!(link_of(fd, &mut [0; 32]), Some(path));
        }
        assert_eq!(link_of(-1, &mut [0; 32]), None);
    }

    #[test]
    fn nothing_is_recorded_unless_asked() {
        assert_eq!(begin(), 0);
        let before = now_ns();
        assert!(before > 0 && now_ns() >= before);
    }
}
