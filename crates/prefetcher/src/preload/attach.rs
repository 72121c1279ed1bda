//! How a program finds the table: once, before `main`, by the path in its environment.
//!
//! No descriptor is inherited: what a program's descriptors are is its own business, and `closefrom` would take ours away.
//! Where the path leads nowhere (another user, no /proc, the launcher is gone) the hooks only pass calls through.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::sys;
use crate::shared::{MAGIC, TABLE_BYTES, Table};

#[link(name = "c")]
unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(core::ptr::null_mut());

/// No system call of the library's own is made: a filter might end the program for it.
static QUIET: AtomicBool = AtomicBool::new(false);

/// [`crate::shared::ENVIRONMENT`], as C has it.
const NAME: &CStr = c"PLUMB_PREFETCH";

const MAX_PATH: usize = 64;

/// The table, where there is one and somebody carries requests out.
#[inline]
pub fn table() -> Option<&'static Table> {
    // SAFETY: null, or a mapping that stays for as long as the program runs; all in it is atomic or behind a lock.
    unsafe { TABLE.load(Ordering::Relaxed).as_ref() }
}

/// Whether the library may make system calls of its own.
#[inline]
pub fn may_call() -> bool {
    !QUIET.load(Ordering::Relaxed)
}

/// The program is about to have its system calls filtered: it is left alone from now on.
pub fn be_quiet() {
    let Some(table) = table() else { return };
    if !QUIET.swap(true, Ordering::Relaxed) {
        table.header.filters.store(1, Ordering::Relaxed);
    }
}

/// Finds the table; called before `main`.
#[cfg_attr(not(plumb_preload), allow(dead_code))]
pub extern "C" fn attach() {
    // SAFETY: before `main` nobody changes the environment.
    let value = unsafe { getenv(NAME.as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: the environment's strings end with a zero.
    let value = unsafe { CStr::from_ptr(value) };
    let Some((path, key)) = parse(value.to_bytes()) else { return };
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return };
    let Some(fd) = sys::open(path, true) else { return };
    let has_size = sys::status(fd).is_some_and(|status| status.is_regular && status.size == TABLE_BYTES as u64);
    let found = if has_size { sys::map(fd, TABLE_BYTES) } else { None };
    sys::close(fd);
    let Some(found) = found else { return };
    let found = found.cast::<Table>();
    // SAFETY: the mapping has the table's size and begins on a page; any bits are a table.
    let table = unsafe { &*found };
    let is_ours = |number: &core::sync::atomic::AtomicU64, expected| number.load(Ordering::Acquire) == expected;
    let header = &table.header;
    if !is_ours(&header.magic, MAGIC) || !is_ours(&header.bytes, TABLE_BYTES as u64) || !is_ours(&header.key, key) {
        return;
    }
    header.programs.fetch_add(1, Ordering::Relaxed);
    TABLE.store(found, Ordering::Release);
    if header.records.load(Ordering::Relaxed) != 0 {
        super::recording::start();
    }
    if header.filters.load(Ordering::Relaxed) != 0 && is_filtered() {
        be_quiet();
    }
}

/// `PATH:KEY`, the key in hexadecimal digits: the path as C has it.
fn parse(value: &[u8]) -> Option<([u8; MAX_PATH], u64)> {
    let colon = value.iter().position(|byte| *byte == b':')?;
    let (name, key) = value.split_at(colon);
    let mut path = [0; MAX_PATH];
    if name.len() >= MAX_PATH {
        return None;
    }
    path.get_mut(..name.len())?.copy_from_slice(name);
    let digits = key.get(1..).filter(|digits| (1..=16).contains(&digits.len()))?;
    let mut number = 0;
    for digit in digits {
        number = number << 4 | u64::from((*digit as char).to_digit(16)?);
    }
    Some((path, number))
}

/// Whether this program has inherited a system call filter: `Seccomp` of proc_pid_status(5). The calls that this takes are
/// those by which the dynamic linker has just read the program's libraries.
fn is_filtered() -> bool {
    let Some(fd) = sys::open(c"/proc/self/status", false) else { return true };
    let mut text = [0; 4096];
    let count = sys::read(fd, &mut text);
    sys::close(fd);
    let text = text.get(..count).unwrap_or_default();
    !text.windows(11).any(|window| window == b"\nSeccomp:\t0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_key_are_told_apart() {
        let (path, key) = parse(b"/proc/12/fd/3:00ffab").unwrap();
        assert_eq!((CStr::from_bytes_until_nul(&path).unwrap(), key), (c"/proc/12/fd/3", 0xffab));
        let long = [b'/'; MAX_PATH];
        for wrong in
            [&b""[..], b"/proc", b"/proc:", b"/proc:xyz", b"/proc:00112233445566778", &[&long[..], b":1"].concat()]
        {
            assert!(parse(wrong).is_none(), "{}", String::from_utf8_lossy(wrong));
        }
        assert_eq!(NAME.to_str().unwrap(), crate::shared::ENVIRONMENT);
    }

    #[test]
    fn this_test_is_under_no_filter() {
        let expected = std::fs::read_to_string("/proc/self/status").unwrap().contains("\nSeccomp:\t0");
        assert_eq!(is_filtered(), !expected);
    }
}
