//! Which system calls matter.

use libc::c_long;

/// A system call that is looked at.
pub(super) struct Syscall {
    pub(super) number: c_long,
    pub(super) name: &'static str,
    /// Only calls with such arguments.
    pub(super) when: &'static [When],
}

/// A condition on the lower 32 bits of an argument; all of a call's conditions hold.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// Any of these bits is set in the argument of this number.
    Bits(u32, u32),
    /// The argument of this number is one of these.
    Is(u32, &'static [u32]),
}

/// asm/unistd_64.h; libc does not have it everywhere.
const SYS_IO_PGETEVENTS: c_long = 333;

/// `ioctl` commands, linux/fs.h.
pub(super) const FICLONE: u32 = 0x4004_9409;
pub(super) const FICLONERANGE: u32 = 0x4020_940d;

/// Opens that may change something.
const CHANGES: u32 = (libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;
const WRITABLE: u32 = libc::PROT_WRITE as u32;
/// Both forms of a shared mapping.
const SHARED: u32 = libc::MAP_SHARED as u32;

const fn always(number: c_long, name: &'static str) -> Syscall {
    Syscall { number, name, when: &[] }
}

/// All of them. `close`, `dup` and `chdir` are not among them: what a descriptor or a folder is, is looked up at the moment of the
/// call that uses it.
pub(super) const SYSCALLS: &[Syscall] = &[
    always(libc::SYS_write, "write"),
    always(libc::SYS_pwrite64, "pwrite64"),
    always(libc::SYS_writev, "writev"),
    always(libc::SYS_pwritev, "pwritev"),
    always(libc::SYS_pwritev2, "pwritev2"),
    Syscall { number: libc::SYS_open, name: "open", when: &[When::Bits(1, CHANGES)] },
    Syscall { number: libc::SYS_openat, name: "openat", when: &[When::Bits(2, CHANGES)] },
    always(libc::SYS_openat2, "openat2"),
    always(libc::SYS_creat, "creat"),
    always(libc::SYS_fsync, "fsync"),
    always(libc::SYS_fdatasync, "fdatasync"),
    always(libc::SYS_sync, "sync"),
    always(libc::SYS_syncfs, "syncfs"),
    always(libc::SYS_sync_file_range, "sync_file_range"),
    Syscall { number: libc::SYS_msync, name: "msync", when: &[When::Bits(2, libc::MS_SYNC as u32)] },
    always(libc::SYS_truncate, "truncate"),
    always(libc::SYS_ftruncate, "ftruncate"),
    always(libc::SYS_fallocate, "fallocate"),
    always(libc::SYS_rename, "rename"),
    always(libc::SYS_renameat, "renameat"),
    always(libc::SYS_renameat2, "renameat2"),
    always(libc::SYS_link, "link"),
    always(libc::SYS_linkat, "linkat"),
    always(libc::SYS_symlink, "symlink"),
    always(libc::SYS_symlinkat, "symlinkat"),
    always(libc::SYS_unlink, "unlink"),
    always(libc::SYS_unlinkat, "unlinkat"),
    always(libc::SYS_mkdir, "mkdir"),
    always(libc::SYS_mkdirat, "mkdirat"),
    always(libc::SYS_rmdir, "rmdir"),
    always(libc::SYS_mknod, "mknod"),
    always(libc::SYS_mknodat, "mknodat"),
    Syscall { number: libc::SYS_mmap, name: "mmap", when: &[When::Bits(2, WRITABLE), When::Bits(3, SHARED)] },
    Syscall { number: libc::SYS_mprotect, name: "mprotect", when: &[When::Bits(2, WRITABLE)] },
    always(libc::SYS_mremap, "mremap"),
    always(libc::SYS_copy_file_range, "copy_file_range"),
    always(libc::SYS_sendfile, "sendfile"),
    always(libc::SYS_splice, "splice"),
    Syscall { number: libc::SYS_ioctl, name: "ioctl", when: &[When::Is(1, &[FICLONE, FICLONERANGE])] },
    always(libc::SYS_io_uring_setup, "io_uring_setup"),
    always(libc::SYS_io_submit, "io_submit"),
    always(libc::SYS_io_getevents, "io_getevents"),
    always(SYS_IO_PGETEVENTS, "io_pgetevents"),
];

/// Its place in [`SYSCALLS`].
pub(super) fn by_number(number: u64) -> Option<&'static Syscall> {
    SYSCALLS.iter().find(|syscall| u64::try_from(syscall.number) == Ok(number))
}
