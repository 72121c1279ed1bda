//! The functions that the hooks stand before.
//!
//! They are asked of the dynamic linker, and not done as system calls: other libraries may stand before them as well, and `read` is a
//! point where a thread can be cancelled, which is the C library's business.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

#[link(name = "c")]
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

/// `RTLD_NEXT`: the next object after the one that asks.
const NEXT: *mut c_void = usize::MAX as *mut c_void;

const ENOSYS: c_int = 38;

/// A function's address, asked for when it is first needed: most programs use few.
pub struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    /// The function of this name.
    pub const fn named(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Its address, or null where the C library has no such function.
    #[inline(always)]
    pub fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero. No lock of ours is held, and no memory is allocated where the name is found.
        let found = unsafe { dlsym(NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// What a hook returns for a function that is not there.
pub trait Missing {
    /// The value that says that it failed.
    const FAILED: Self;
}

impl Missing for c_int {
    const FAILED: Self = -1;
}
impl Missing for isize {
    const FAILED: Self = -1;
}
impl Missing for usize {
    const FAILED: Self = 0;
}
impl Missing for i64 {
    const FAILED: Self = -1;
}
impl Missing for *mut c_char {
    const FAILED: Self = core::ptr::null_mut();
}
impl Missing for *mut c_void {
    const FAILED: Self = core::ptr::null_mut();
}
impl Missing for () {
    const FAILED: Self = ();
}

/// As a function that the kernel does not have.
#[cold]
pub fn missing<T: Missing>() -> T {
    // SAFETY: the calling thread's own.
    unsafe { *__errno_location() = ENOSYS };
    T::FAILED
}
