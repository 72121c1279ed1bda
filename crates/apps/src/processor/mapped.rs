//! Pages that are mapped when they are touched.

use std::time::Duration;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::{Fixture, Job, PAGE_BYTES, time};

pub(super) const TOUCH_PAGE: Job = Job {
    name: "touch-page",
    operation: "the first write to a page of anonymous memory",
    operations: 512,
    round: touch_page,
};

fn touch_page(_: &Fixture, operations: u32) -> std::io::Result<Duration> {
    let len = operations as usize * PAGE_BYTES;
    // SAFETY: a new mapping of anonymous memory at a place of the kernel's choice overlaps nothing.
    let first =
        unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
    // SAFETY: of the mapping alone; a kernel without huge pages says so, and does not need to be told.
    let _ = unsafe { madvise(first, len, Advice::LinuxNoHugepage) };
    let elapsed = time(|| {
        for page in 0..operations as usize {
            // SAFETY: within the mapping, which nobody else knows and which stays until below.
            unsafe { first.cast::<u8>().add(page * PAGE_BYTES).write_volatile(1) };
        }
        Ok(())
    });
    // SAFETY: the mapping of above, whole; no reference to it is left.
    unsafe { munmap(first, len)? };
    elapsed
}
