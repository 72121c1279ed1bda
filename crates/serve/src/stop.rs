//! Asking a running server to stop, from another thread or a signal handler.

use std::io;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// A request to stop that wakes the server's loop.
///
/// A socket pair rather than a flag: the loop sleeps in `epoll_pwait2` without
/// a timeout when nothing is due, so the request must be an event.
pub struct Stop {
    waits: UnixStream,
    asks: UnixStream,
}

impl Stop {
    /// A handle nobody has asked through yet.
    ///
    /// # Errors
    ///
    /// When the process is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        let (waits, asks) = UnixStream::pair()?;
        waits.set_nonblocking(true)?;
        asks.set_nonblocking(true)?;
        Ok(Self { waits, asks })
    }

    /// A handle that asks when one of `signals` (such as SIGTERM) arrives.
    ///
    /// # Errors
    ///
    /// When a handler cannot be installed.
    pub fn on_signals(signals: &[i32]) -> io::Result<Self> {
        let stop = Self::new()?;
        for &signal in signals {
            signal_hook::low_level::pipe::register(signal, stop.asks.try_clone()?)?;
        }
        Ok(stop)
    }

    /// A second end of the same handle, for another thread.
    ///
    /// # Errors
    ///
    /// When the process is out of file descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { waits: self.waits.try_clone()?, asks: self.asks.try_clone()? })
    }

    /// Asks the server to stop: no new requests, outstanding ones finished,
    /// the device flushed.
    pub fn ask(&self) {
        // A full socket means that it has been asked many times already.
        let _ = (&self.asks).write(&[1]);
    }

    /// Whether somebody has asked since the last call.
    pub(crate) fn take(&self) -> bool {
        let mut bytes = [0; 64];
        matches!((&self.waits).read(&mut bytes), Ok(1..))
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waits.as_fd()
    }
}
