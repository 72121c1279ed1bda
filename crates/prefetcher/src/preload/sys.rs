//! The system calls of the library itself, made directly: they leave `errno` alone, and are not seen by its own hooks.

/// A system call's result: what it returned, or minus the error number.
type Returned = isize;

/// Numbers that differ by architecture.
#[cfg(target_arch = "x86_64")]
mod number {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const LSEEK: usize = 8;
    pub const MMAP: usize = 9;
    pub const GETPID: usize = 39;
    pub const FUTEX: usize = 202;
    pub const OPENAT: usize = 257;
    pub const NEWFSTATAT: usize = 262;
    pub const FCNTL: usize = 72;
    pub const GETTID: usize = 186;
    pub const READLINKAT: usize = 267;
    pub const SECCOMP: usize = 317;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub const READ: usize = 63;
    pub const CLOSE: usize = 57;
    pub const LSEEK: usize = 62;
    pub const MMAP: usize = 222;
    pub const GETPID: usize = 172;
    pub const FUTEX: usize = 98;
    pub const OPENAT: usize = 56;
    pub const NEWFSTATAT: usize = 79;
    pub const FCNTL: usize = 25;
    pub const GETTID: usize = 178;
    pub const READLINKAT: usize = 78;
    pub const SECCOMP: usize = 277;
}

/// `seccomp(2)`, which has no wrapper in glibc.
pub const SECCOMP: usize = number::SECCOMP;

const AT_FDCWD: isize = -100;
const AT_EMPTY_PATH: usize = 0x1000;
const O_CLOEXEC: usize = 0o2_000_000;
const PROT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const FUTEX_WAKE: usize = 1;
const SEEK_CUR: usize = 1;
const F_GETFL: usize = 3;

/// # Safety
/// The arguments are those of the call of this number, and what they point to is the caller's.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn call(number: usize, arguments: [usize; 6]) -> Returned {
    let result;
    // SAFETY: the kernel's calling convention; the caller answers for the arguments.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") arguments[0], in("rsi") arguments[1],
            in("rdx") arguments[2], in("r10") arguments[3], in("r8") arguments[4], in("r9") arguments[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// # Safety
/// The arguments are those of the call of this number, and what they point to is the caller's.
#[cfg(target_arch = "aarch64")]
#[inline]
unsafe fn call(number: usize, arguments: [usize; 6]) -> Returned {
    let result;
    // SAFETY: the kernel's calling convention; the caller answers for the arguments.
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") arguments[0] => result, in("x1") arguments[1],
            in("x2") arguments[2], in("x3") arguments[3], in("x4") arguments[4], in("x5") arguments[5], options(nostack));
    }
    result
}

/// What `fstat` says, as far as it is asked for.
#[derive(Clone, Copy)]
pub struct Status {
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    pub is_regular: bool,
}

/// `struct stat`: 144 bytes on x86-64, 128 on aarch64.
#[repr(C, align(8))]
struct Stat([u8; 144]);

const S_IFMT: u32 = 0o170_000;
const S_IFREG: u32 = 0o100_000;

/// Where `st_mode` lies in a `struct stat`; the other fields lie alike.
const MODE_AT: usize = if cfg!(target_arch = "x86_64") { 24 } else { 16 };

/// The status of an open file.
pub fn status(fd: i32) -> Option<Status> {
    let mut stat = Stat([0; 144]);
    let arguments = [fd as usize, c"".as_ptr() as usize, (&raw mut stat) as usize, AT_EMPTY_PATH, 0, 0];
    // SAFETY: `newfstatat` of a descriptor with an empty path writes one `struct stat`, for which there is room.
    if unsafe { call(number::NEWFSTATAT, arguments) } != 0 {
        return None;
    }
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&stat.0[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    let mode = word(MODE_AT) as u32;
    Some(Status { dev: word(0), ino: word(8), size: word(48), is_regular: mode & S_IFMT == S_IFREG })
}

/// Where the next `read` of a descriptor begins.
pub fn position(fd: i32) -> Option<u64> {
    // SAFETY: `lseek` takes numbers only.
    let place = unsafe { call(number::LSEEK, [fd as usize, 0, SEEK_CUR, 0, 0, 0]) };
    u64::try_from(place).ok()
}

/// The flags that a descriptor was opened with.
pub fn flags(fd: i32) -> i32 {
    // SAFETY: `F_GETFL` takes numbers only.
    unsafe { call(number::FCNTL, [fd as usize, F_GETFL, 0, 0, 0, 0]) as i32 }
}

/// The number of this process, asked anew: a child of `fork` has its parent's memory.
pub fn process() -> i32 {
    // SAFETY: takes nothing.
    unsafe { call(number::GETPID, [0; 6]) as i32 }
}

/// The number of this thread.
pub fn thread() -> u32 {
    // SAFETY: takes nothing.
    unsafe { call(number::GETTID, [0; 6]) as u32 }
}

/// Where a symbolic link leads: how many bytes of it.
pub fn link(path: &core::ffi::CStr, buffer: &mut [u8]) -> usize {
    let (at, room) = (path.as_ptr() as usize, buffer.len());
    // SAFETY: the path ends with a zero, and the buffer has the room.
    let count = unsafe { call(number::READLINKAT, [AT_FDCWD as usize, at, buffer.as_mut_ptr() as usize, room, 0, 0]) };
    usize::try_from(count).unwrap_or(0)
}

/// Opens a file, for reading and writing with `write`.
pub fn open(path: &core::ffi::CStr, write: bool) -> Option<i32> {
    let flags = O_CLOEXEC | if write { 2 } else { 0 };
    // SAFETY: the path ends with a zero.
    let fd = unsafe { call(number::OPENAT, [AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]) };
    i32::try_from(fd).ok().filter(|fd| *fd >= 0)
}

/// Reads from a descriptor that [`open`] gave: how many bytes.
pub fn read(fd: i32, buffer: &mut [u8]) -> usize {
    // SAFETY: the buffer has room for as many bytes.
    let count = unsafe { call(number::READ, [fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) };
    usize::try_from(count).unwrap_or(0)
}

/// Closes a descriptor that [`open`] gave.
pub fn close(fd: i32) {
    // SAFETY: nobody else knows it.
    unsafe { call(number::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Maps a file of `bytes` bytes, shared and writable.
pub fn map(fd: i32, bytes: usize) -> Option<*mut u8> {
    let arguments = [0, bytes, PROT_READ_WRITE, MAP_SHARED, fd as usize, 0];
    // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
    let at = unsafe { call(number::MMAP, arguments) };
    (at > 0).then_some(at as *mut u8)
}

/// Wakes one who waits for this word, in whichever process.
pub fn wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: the kernel only takes the word's address.
    unsafe { call(number::FUTEX, [word.as_ptr() as usize, FUTEX_WAKE, 1, 0, 0, 0]) };
}
