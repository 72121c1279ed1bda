//! The I/O class of this thread.

use std::io;

/// `IOPRIO_WHO_PROCESS`, `IOPRIO_CLASS_IDLE` (man ioprio_set).
const WHO_PROCESS: libc::c_int = 1;
const CLASS_IDLE: libc::c_int = 3;
const CLASS_SHIFT: libc::c_int = 13;

/// The class cannot be set.
#[derive(Debug, thiserror::Error)]
#[error("cannot set the I/O class `idle`: {0}; leave --io-class away")]
pub struct IoClassError(#[source] io::Error);

/// Puts this thread into the class `idle` until it is dropped.
#[derive(Debug)]
pub(super) struct Idle {
    before: libc::c_int,
}

impl Idle {
    pub fn enter() -> Result<Self, IoClassError> {
        // SAFETY: the call takes two integers; 0 is this thread.
        let before = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
        if before < 0 {
            return Err(IoClassError(io::Error::last_os_error()));
        }
        set(CLASS_IDLE << CLASS_SHIFT).map_err(IoClassError)?;
        Ok(Self { before: before as libc::c_int })
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = set(self.before);
    }
}

fn set(priority: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes three integers; 0 is this thread.
    let done = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, priority) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> libc::c_long {
        // SAFETY: the call takes two integers.
        unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) }
    }

    #[test]
    fn the_class_is_idle_for_a_time() {
        let before = now();
        let idle = Idle::enter().unwrap();
        assert_eq!(now() >> CLASS_SHIFT, libc::c_long::from(CLASS_IDLE));
        drop(idle);
        assert_eq!(now(), before);
    }
}
