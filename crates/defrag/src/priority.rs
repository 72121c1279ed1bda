//! How urgent this thread is to the kernel: its I/O class, its scheduling policy and its nice value.

use std::io;

/// `IOPRIO_WHO_PROCESS` and the classes of include/uapi/linux/ioprio.h.
const WHO_PROCESS: libc::c_int = 1;
const CLASS_BEST_EFFORT: libc::c_int = 2;
const CLASS_IDLE: libc::c_int = 3;
const CLASS_SHIFT: libc::c_int = 13;
/// The middle one of eight.
const LEVEL: libc::c_int = 4;
/// May be set beside a policy.
const RESET_ON_FORK: libc::c_int = 0x4000_0000;

/// Puts this thread into the I/O class `idle` until it is dropped.
#[derive(Debug)]
pub(crate) struct IdleIo {
    before: libc::c_int,
}

impl IdleIo {
    pub fn enter() -> io::Result<Self> {
        let before = io_priority()?;
        set_io_priority(CLASS_IDLE << CLASS_SHIFT)?;
        Ok(Self { before })
    }

    /// Whether this thread's requests are of that class.
    #[cfg(test)]
    pub fn is_in_force() -> bool {
        io_priority().is_ok_and(|priority| priority >> CLASS_SHIFT == CLASS_IDLE)
    }
}

impl Drop for IdleIo {
    fn drop(&mut self) {
        let _ = set_io_priority(self.before);
    }
}

/// As urgent as a program is by default, until it is dropped, for as long as others wait for this thread.
///
/// What may not be raised, as a nice value without the right to, stays as it is.
#[derive(Debug, Default)]
pub(crate) struct Urgent {
    io_before: Option<libc::c_int>,
    policy_before: Option<libc::c_int>,
    nice_before: Option<libc::c_int>,
}

impl Urgent {
    pub fn now() -> Self {
        let mut raised = Self::default();
        // SAFETY: the call takes an integer; 0 is this thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        let is_idle = policy >= 0 && policy & !RESET_ON_FORK == libc::SCHED_IDLE;
        if is_idle && set_policy(libc::SCHED_OTHER | policy & RESET_ON_FORK) {
            raised.policy_before = Some(policy);
        }
        let io = io_priority().unwrap_or_default();
        // A thread without a class has that of its policy (`task_nice_ioclass`, include/linux/ioprio.h).
        let class = io >> CLASS_SHIFT;
        if (class == CLASS_IDLE || class == 0 && is_idle)
            && set_io_priority(CLASS_BEST_EFFORT << CLASS_SHIFT | LEVEL).is_ok()
        {
            raised.io_before = Some(io);
        }
        // SAFETY: the call takes integers; 0 is this thread.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        if nice > 0 && set_nice(0) {
            raised.nice_before = Some(nice);
        }
        raised
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(nice) = self.nice_before {
            set_nice(nice);
        }
        if let Some(io) = self.io_before {
            let _ = set_io_priority(io);
        }
        if let Some(policy) = self.policy_before {
            set_policy(policy);
        }
    }
}

fn io_priority() -> io::Result<libc::c_int> {
    // SAFETY: the call takes two integers; 0 is this thread.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
    if priority < 0 { Err(io::Error::last_os_error()) } else { Ok(priority as libc::c_int) }
}

fn set_io_priority(priority: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes three integers; 0 is this thread.
    let done = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, priority) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set_policy(policy: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure outlives the call; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

fn set_nice(nice: libc::c_int) -> bool {
    // SAFETY: the call takes integers; 0 is this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> (libc::c_int, libc::c_int, libc::c_int) {
        // SAFETY: the calls take integers; 0 is this thread.
        unsafe { (io_priority().unwrap(), libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) }
    }

    #[test]
    fn the_class_is_idle_for_a_time() {
        let before = now();
        let idle = IdleIo::enter().unwrap();
        assert_eq!(now().0 >> CLASS_SHIFT, CLASS_IDLE);
        drop(idle);
        assert_eq!(now(), before);
    }

    /// Whatever makes a thread's requests idle, they are not while it is urgent, and are again afterwards.
    #[test]
    fn an_idle_thread_is_urgent_for_a_time() {
        let threads = [false, true].map(|by_policy| {
            std::thread::spawn(move || {
                let _idle = (!by_policy).then(|| IdleIo::enter().unwrap());
                if by_policy {
                    assert!(set_policy(libc::SCHED_IDLE));
                }
                set_nice(19);
                let before = now();
                let urgent = Urgent::now();
                assert_eq!(now().0 >> CLASS_SHIFT, CLASS_BEST_EFFORT);
                // SAFETY: the call takes no argument.
                if unsafe { libc::geteuid() } == 0 {
                    assert_eq!((now().1, now().2), (libc::SCHED_OTHER, 0));
                }
                drop(urgent);
                assert_eq!(now(), before);
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn what_is_not_idle_stays_as_it_is() {
        let before = now();
        let urgent = Urgent::now();
        assert!(before.2 > 0 || now() == before);
        drop(urgent);
        assert_eq!(now(), before);
    }
}
