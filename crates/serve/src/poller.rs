//! Waiting for sockets and for a point in time at once: epoll(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
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

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Descriptors taken from one wait; more are reported by the next.
const EVENTS_PER_WAIT: usize = 64;

/// The timer's token; nobody else's.
const TIMER: u64 = u64::MAX;

/// A level-triggered epoll instance, and a timer.
///
/// The timer is a timerfd(2) set to a point in time. A timeout of epoll(7) counts
/// from when the kernel looks at the clock, and is rounded up by a thousandth of
/// itself (`select_estimate_accuracy` of `fs/select.c`): 14 us on a zone reset.
pub(crate) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// What the timer is set to, if it has not gone off yet.
    set_to: Option<Nanos>,
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
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_PER_WAIT];
        let poller = Self { epoll, timer, set_to: None, events };
        // Reported once each time it goes off: it need be neither read nor stopped.
        poller.control(libc::EPOLL_CTL_ADD, &poller.timer, TIMER, (libc::EPOLLIN | libc::EPOLLET) as u32)?;
        Ok(poller)
    }

    pub(crate) fn add(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest.bits())
    }

    pub(crate) fn modify(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest.bits())
    }

    fn control(&self, operation: i32, fd: &impl AsFd, token: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: both descriptors are open for the call and `event` outlives it.
        let result =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd.as_fd().as_raw_fd(), &raw mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits until CLOCK_MONOTONIC shows `deadline` (`None`: for ever) and appends
    /// what became ready. A signal ends the wait early, and so may a deadline of
    /// before.
    pub(crate) fn wait_until(&mut self, deadline: Option<Nanos>, ready: &mut Vec<Ready>) -> io::Result<()> {
        // A timer that goes off too early costs one turn of the loop; setting it
        // again would cost a system call in each.
        if let Some(Nanos(at)) = deadline.filter(|at| self.set_to.is_none_or(|set_to| *at < set_to)) {
            // All zeroes stop a timer, so the earliest deadline is one nanosecond.
            let at = at.max(1);
            let it_value = Timespec { tv_sec: (at / NANOS_PER_SEC) as i64, tv_nsec: (at % NANOS_PER_SEC) as i64 };
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value })?;
            self.set_to = deadline;
        }
        self.wait(None, ready)
    }

    /// Waits at most `timeout` (`None`: for ever) and appends what became ready.
    /// A signal ends the wait early.
    pub(crate) fn wait(&mut self, timeout: Option<Nanos>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let span = timeout.map(|timeout| libc::timespec {
            tv_sec: (timeout.0 / NANOS_PER_SEC).min(1 << 30) as libc::time_t,
            tv_nsec: (timeout.0 % NANOS_PER_SEC) as libc::c_long,
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
            if event.u64 == TIMER {
                self.set_to = None;
                continue;
            }
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    fn now() -> Nanos {
        let time = clock_gettime(ClockId::Monotonic);
        Nanos::from_secs(time.tv_sec as u64) + Nanos(time.tv_nsec as u64)
    }

    /// Never early, at every change between deadlines, none and those that passed.
    #[test]
    fn deadlines_are_points_in_time() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        for _ in 0..3 {
            let deadline = now() + Nanos::from_millis(2);
            poller.wait_until(Some(deadline), &mut ready).unwrap();
            assert!(now() >= deadline);
            // Past: at once, as often as asked for.
            poller.wait_until(Some(deadline), &mut ready).unwrap();
            poller.wait_until(Some(Nanos::ZERO), &mut ready).unwrap();
        }
        assert!(ready.is_empty(), "the timer is nobody's descriptor");
        let (waits, mut writes) = UnixStream::pair().unwrap();
        poller.add(&waits, 7, Interest::READABLE).unwrap();
        writes.write_all(&[1]).unwrap();
        poller.wait_until(None, &mut ready).unwrap();
        assert!(matches!(ready[..], [Ready { token: 7, readable: true, hung_up: false }]));
    }
}
