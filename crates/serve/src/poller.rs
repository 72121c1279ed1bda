//! Waiting for sockets and for a point in time at once: epoll(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use units::Nanos;

/// What a descriptor is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Interest {
    pub(crate) const READABLE: Self = Self { readable: true, writable: false };

    fn bits(self) -> u32 {
        let mut bits = 0;
        if self.readable {
            bits |= libc::EPOLLIN as u32;
        }
        if self.writable {
            bits |= libc::EPOLLOUT as u32;
        }
        bits
    }
}

/// A descriptor became ready; one with room for output is reported with no flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    /// There is input, an end of file, or an error to read.
    pub(crate) readable: bool,
    /// Both directions are gone; reported whether waited for or not.
    pub(crate) hung_up: bool,
}

/// Descriptors taken from one wait; more are reported by the next.
const EVENTS_PER_WAIT: usize = 64;

/// A level-triggered epoll instance.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes no pointer; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor just created, owned by nobody else.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_PER_WAIT] })
    }

    pub(crate) fn add(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    pub(crate) fn modify(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    pub(crate) fn remove(&self, fd: &impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest { readable: false, writable: false })
    }

    fn control(&self, operation: i32, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token };
        // SAFETY: both descriptors are open for the call and `event` outlives it.
        let result =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd.as_fd().as_raw_fd(), &raw mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits at most `timeout` (`None`: for ever) and appends what became ready.
    /// A signal ends the wait early.
    pub(crate) fn wait(&mut self, timeout: Option<Nanos>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let span = timeout.map(|timeout| libc::timespec {
            tv_sec: (timeout.0 / 1_000_000_000).min(1 << 30) as libc::time_t,
            tv_nsec: (timeout.0 % 1_000_000_000) as libc::c_long,
        });
        let span_ptr = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // By number: the libc crate has no wrapper for epoll_pwait2 (Linux 5.11),
        // and epoll_wait counts in milliseconds.
        // SAFETY: `events` holds EVENTS_PER_WAIT entries, `span_ptr` is null or
        // points at `span`, and a null signal mask leaves the mask as it is.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS_PER_WAIT as libc::c_int,
                span_ptr,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        for event in &self.events[..count as usize] {
            let bits = event.events as i32;
            ready.push(Ready {
                token: event.u64,
                readable: bits & (libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP) != 0,
                hung_up: bits & (libc::EPOLLERR | libc::EPOLLHUP) != 0,
            });
        }
        Ok(())
    }
}

/// Asks the kernel not to round this thread's timers: the default slack of
/// 50 us would be most of a flash read (prctl(2), PR_SET_TIMERSLACK).
pub(crate) fn use_exact_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes plain integers and touches only the
    // calling thread. A kernel that refuses keeps its slack, which calibration
    // then measures like any other delay.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}
