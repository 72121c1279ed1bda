//! The functions that stand before those of the C library.
//!
//! Each passes the call on with the arguments it was given, and looks at what came of it. Only system calls made directly are
//! made after that, so that `errno` is the C library's. Functions with optional arguments (`open`, `fcntl`, `syscall`) are
//! declared with all of them: in the calling conventions of x86-64 and aarch64 they are where they would be, and what nobody
//! passed nobody looks at.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::Ordering;

use super::reading::WHATEVER;
use super::recording::{self, begin};
use super::{attach, descriptors, reading, sys};

/// A hook: its name, arguments and result, and what it does with `real`, the function that it stands before.
macro_rules! hooks {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?, |$real:ident| $body:expr;)*) => { $(
        #[doc = concat!("Stands before `", stringify!($name), "`.\n\n# Safety\nAs the function that it stands before.")]
        #[cfg_attr(plumb_preload, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($argument: $kind),*) $(-> $result)? {
            static REAL: $crate::preload::real::Real =
                // SAFETY: one zero, at the end.
                $crate::preload::real::Real::named(unsafe {
                    core::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes())
                });
            let $real = |$($argument: $kind),*| {
                let address = REAL.address();
                if address.is_null() {
                    return $crate::preload::real::missing();
                }
                // SAFETY: the function of this name has these arguments and this result.
                let function: unsafe extern "C" fn($($kind),*) $(-> $result)? = unsafe { core::mem::transmute(address) };
                // SAFETY: the arguments are the program's, and meant for this function.
                unsafe { function($($argument),*) }
            };
            $body
        }
    )* };
}
pub(super) use hooks;

/// What `open` and its kin return.
#[inline]
fn opened(fd: c_int) -> c_int {
    reading::opened(fd);
    fd
}

/// Reads with an offset by `call`. What it begins at is in a register until it is over: kept for a second way, of calls that are
/// recorded, all arguments would go through memory.
#[inline(always)]
fn read_at(fd: c_int, offset: i64, asked: usize, call: impl FnOnce() -> isize) -> isize {
    let began_ns = begin();
    let result = call();
    reading::at(began_ns, fd, offset, asked, result);
    result
}

/// Reads by `call` where the descriptor stands.
#[inline(always)]
fn read_next(fd: c_int, asked: usize, call: impl FnOnce() -> isize) -> isize {
    let began_ns = begin();
    let result = call();
    reading::next(began_ns, fd, asked, result);
    result
}

hooks! {
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, |real| opened(real(path, flags, mode));
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, |real| opened(real(path, flags, mode));
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        |real| opened(real(at, path, flags, mode));
    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        |real| opened(real(at, path, flags, mode));
    fn creat(path: *const c_char, mode: c_uint) -> c_int, |real| opened(real(path, mode));
    fn creat64(path: *const c_char, mode: c_uint) -> c_int, |real| opened(real(path, mode));
    fn __open_2(path: *const c_char, flags: c_int) -> c_int, |real| opened(real(path, flags));
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int, |real| opened(real(path, flags));
    fn __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int, |real| opened(real(at, path, flags));
    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int, |real| opened(real(at, path, flags));

    // Before the call: after it the number may be another thread's.
    fn close(fd: c_int) -> c_int, |real| { descriptors::forget(fd); real(fd) };
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, |real| {
        if flags & CLOSE_RANGE_CLOEXEC == 0 {
            descriptors::forget_range(first, last);
        }
        real(first, last, flags)
    };
    fn closefrom(first: c_int), |real| { descriptors::forget_range(first.max(0) as u32, u32::MAX); real(first) };
    fn dup(fd: c_int) -> c_int, |real| forgotten(real(fd));
    fn dup2(from: c_int, to: c_int) -> c_int, |real| { if from != to { descriptors::forget(to); } real(from, to) };
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int, |real| { descriptors::forget(to); real(from, to, flags) };
    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int,
        |real| controlled(fd, command, real(fd, command, argument));
    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int,
        |real| controlled(fd, command, real(fd, command, argument));
    fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64, |real| sought(fd, real(fd, offset, whence));
    fn lseek64(fd: c_int, offset: i64, whence: c_int) -> i64, |real| sought(fd, real(fd, offset, whence));

    fn read(fd: c_int, buffer: *mut c_void, count: usize) -> isize,
        |real| read_next(fd, count, || real(fd, buffer, count));
    fn __read_chk(fd: c_int, buffer: *mut c_void, count: usize, room: usize) -> isize,
        |real| read_next(fd, count, || real(fd, buffer, count, room));
    fn pread(fd: c_int, buffer: *mut c_void, count: usize, offset: i64) -> isize,
        |real| read_at(fd, offset, count, || real(fd, buffer, count, offset));
    fn pread64(fd: c_int, buffer: *mut c_void, count: usize, offset: i64) -> isize,
        |real| read_at(fd, offset, count, || real(fd, buffer, count, offset));
    fn __pread_chk(fd: c_int, buffer: *mut c_void, count: usize, offset: i64, room: usize) -> isize,
        |real| read_at(fd, offset, count, || real(fd, buffer, count, offset, room));
    fn __pread64_chk(fd: c_int, buffer: *mut c_void, count: usize, offset: i64, room: usize) -> isize,
        |real| read_at(fd, offset, count, || real(fd, buffer, count, offset, room));
    fn readv(fd: c_int, vector: *const c_void, count: c_int) -> isize,
        |real| read_next(fd, WHATEVER, || real(fd, vector, count));
    fn preadv(fd: c_int, vector: *const c_void, count: c_int, offset: i64) -> isize,
        |real| read_at(fd, offset, WHATEVER, || real(fd, vector, count, offset));
    fn preadv64(fd: c_int, vector: *const c_void, count: c_int, offset: i64) -> isize,
        |real| read_at(fd, offset, WHATEVER, || real(fd, vector, count, offset));
    fn preadv2(fd: c_int, vector: *const c_void, count: c_int, offset: i64, flags: c_int) -> isize,
        |real| read_vector(fd, offset, || real(fd, vector, count, offset, flags));
    fn preadv64v2(fd: c_int, vector: *const c_void, count: c_int, offset: i64, flags: c_int) -> isize,
        |real| read_vector(fd, offset, || real(fd, vector, count, offset, flags));

    fn sendfile(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize,
        |real| { let at = place(offset); copied(from, at, count, || real(to, from, offset, count)) };
    fn sendfile64(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize,
        |real| { let at = place(offset); copied(from, at, count, || real(to, from, offset, count)) };
    fn copy_file_range(from: c_int, offset: *mut i64, to: c_int, to_at: *mut i64, count: usize, flags: c_uint) -> isize,
        |real| { let at = place(offset); copied(from, at, count, || real(from, offset, to, to_at, count, flags)) };
    fn splice(from: c_int, offset: *mut i64, to: c_int, to_at: *mut i64, count: usize, flags: c_uint) -> isize,
        |real| { let at = place(offset); copied(from, at, count, || real(from, offset, to, to_at, count, flags)) };

    fn mmap(at: *mut c_void, bytes: usize, access: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void,
        |real| { mapped(access, flags, fd, offset, bytes); real(at, bytes, access, flags, fd, offset) };
    fn mmap64(at: *mut c_void, bytes: usize, access: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void,
        |real| { mapped(access, flags, fd, offset, bytes); real(at, bytes, access, flags, fd, offset) };

    fn posix_fadvise(fd: c_int, offset: i64, bytes: i64, advice: c_int) -> c_int,
        |real| if drops(advice) { 0 } else { advised(fd, offset, bytes, advice); real(fd, offset, bytes, advice) };
    fn posix_fadvise64(fd: c_int, offset: i64, bytes: i64, advice: c_int) -> c_int,
        |real| if drops(advice) { 0 } else { advised(fd, offset, bytes, advice); real(fd, offset, bytes, advice) };
    fn readahead(fd: c_int, offset: i64, count: usize) -> isize,
        |real| {
            if drops(POSIX_FADV_WILLNEED) {
                return 0;
            }
            advised(fd, offset, i64::try_from(count).unwrap_or(i64::MAX), POSIX_FADV_WILLNEED);
            real(fd, offset, count)
        };

    // A filter of system calls that is installed now may end the program for one of ours.
    fn prctl(option: c_int, a: c_long, b: c_long, c: c_long, d: c_long) -> c_int,
        |real| { if option == PR_SET_SECCOMP { attach::be_quiet(); } real(option, a, b, c, d) };
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long,
        |real| { if number as usize == sys::SECCOMP { attach::be_quiet(); } real(number, a, b, c, d, e, f) };
}

const CLOSE_RANGE_CLOEXEC: c_int = 4;
const F_DUPFD: c_int = 0;
const F_SETFL: c_int = 4;
const F_DUPFD_CLOEXEC: c_int = 1030;
const PROT_READ: c_int = 1;
const PROT_WRITE_OR_EXEC: c_int = 6;
const MAP_ANONYMOUS: c_int = 0x20;
const POSIX_FADV_RANDOM: c_int = 1;
const POSIX_FADV_WILLNEED: c_int = 3;
const POSIX_FADV_DONTNEED: c_int = 4;
const PR_SET_SECCOMP: c_int = 22;

#[inline]
fn forgotten(fd: c_int) -> c_int {
    descriptors::forget(fd);
    fd
}

#[inline]
fn controlled(fd: c_int, command: c_int, result: c_int) -> c_int {
    match command {
        F_DUPFD | F_DUPFD_CLOEXEC => descriptors::forget(result),
        // O_DIRECT comes and goes by this.
        F_SETFL => descriptors::forget(fd),
        _ => {}
    }
    result
}

#[inline]
fn sought(fd: c_int, result: i64) -> i64 {
    if result >= 0 {
        descriptors::moved(fd, result as u64);
    }
    result
}

/// As of `preadv2`, which reads where the descriptor stands at an offset of -1.
#[inline]
fn read_vector(fd: c_int, offset: i64, call: impl FnOnce() -> isize) -> isize {
    if offset == -1 { read_next(fd, WHATEVER, call) } else { read_at(fd, offset, WHATEVER, call) }
}

/// The offset that the kernel is given, before it goes on.
#[inline]
fn place(offset: *const i64) -> Option<i64> {
    // A pointer that leads nowhere is the kernel's to refuse; a small one is no pointer.
    // SAFETY: the program gives it to the kernel to be read and written.
    (offset as usize >= 4096).then(|| unsafe { offset.read_unaligned() })
}

/// Copies out of a file inside the kernel.
#[inline]
fn copied(from: c_int, offset: Option<i64>, asked: usize, call: impl FnOnce() -> isize) -> isize {
    match offset {
        Some(offset) => read_at(from, offset, asked, call),
        None => read_next(from, asked, call),
    }
}

/// A mapping that is about to be made: before, so that its loading has begun when the first page is touched.
#[inline]
fn mapped(access: c_int, flags: c_int, fd: c_int, offset: i64, bytes: usize) {
    let read_only = access & (PROT_READ | PROT_WRITE_OR_EXEC) == PROT_READ;
    if fd >= 0 && flags & MAP_ANONYMOUS == 0 && read_only {
        reading::mapped(fd, offset, bytes);
    }
}

/// The program asks the kernel to load something.
#[inline]
fn advised(fd: c_int, offset: i64, bytes: i64, advice: c_int) {
    if advice == POSIX_FADV_WILLNEED && offset >= 0 && bytes >= 0 {
        recording::advised(fd, offset as u64, bytes as u64);
    }
}

/// Whether this advice of the program is kept from the kernel.
#[inline]
fn drops(advice: c_int) -> bool {
    matches!(advice, POSIX_FADV_RANDOM | POSIX_FADV_WILLNEED | POSIX_FADV_DONTNEED)
        && attach::table().is_some_and(|table| table.header.drop_advice.load(Ordering::Relaxed) != 0)
}
