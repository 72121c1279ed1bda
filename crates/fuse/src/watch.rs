//! The watchdog process: what it hears and does.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};

use crate::connection::ConnectionControl;
use crate::watchdog::{END, HOLDS, HOLDS_NOTHING};

/// How often the watchdog looks.
const TICK: Duration = Duration::from_secs(1);

/// The watchdog process's watch over the server at the other end of its standard input.
pub struct Watch {
    control: ConnectionControl,
    process: OwnedFd,
    server: UnixStream,
    stall: Duration,
}

/// How a watch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The server has said goodbye.
    Goodbye,
    /// The server died, and held this.
    Death(Option<u32>),
}

impl Watch {
    /// Gets what is needed later. `connection` is its number in fusectl, `stall_ms` the time without a heartbeat that
    /// counts as a stall, as [`Watchdog::start`](crate::Watchdog::start) gave them.
    ///
    /// # Errors
    ///
    /// When these are no numbers, or the connection or the server cannot be found.
    pub fn open(connection: &str, stall_ms: &str) -> io::Result<Self> {
        let connection: u32 = connection.parse().map_err(io::Error::other)?;
        let stall = Duration::from_millis(stall_ms.parse().map_err(io::Error::other)?);
        let control = ConnectionControl::open(connection)?;
        let process = parent()?;
        let server = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        server.set_read_timeout(Some(TICK))?;
        Ok(Self { control, process, server, stall })
    }

    /// Watches until the server says goodbye or dies, and says what it does.
    ///
    /// When requests wait and no heartbeat comes for the time of a stall, or the server
    /// dies, the connection is aborted: everybody who waits gets an I/O error. Where
    /// that is not enough the server is killed.
    ///
    /// # Errors
    ///
    /// When the connection cannot be aborted.
    pub fn run(mut self, say: &dyn Fn(&str)) -> io::Result<End> {
        let mut heard = Heard::default();
        let mut suspicion = Suspicion::new(self.stall, Instant::now());
        loop {
            match heard.listen(&self.server) {
                News::Nothing => {}
                News::Beat => suspicion.beat(Instant::now()),
                News::Goodbye => return Ok(End::Goodbye),
                News::Death => break,
            }
            match suspicion.check(Instant::now(), || self.control.waiting().unwrap_or(0)) {
                Verdict::Silent => {}
                // Nobody waits: the time to open files.
                Verdict::Idle => self.control.refill().unwrap_or(()),
                Verdict::Stalled => self.stalled(say)?,
            }
        }
        // The kernel ends the connection itself when its last descriptor is closed;
        // a thread that cannot die keeps one open. There may be nothing left to abort.
        let _ = self.control.abort();
        Ok(End::Death(heard.holds))
    }

    fn stalled(&mut self, say: &dyn Fn(&str)) -> io::Result<()> {
        self.control.abort()?;
        say(&format!(
            "the server has not moved for {} s with requests waiting; they fail now, and so does every later one",
            self.stall.as_secs_f64()
        ));
        thread::sleep(TICK);
        // It fails only if the server is gone already, which is heard next.
        if self.control.waiting().unwrap_or(0) > 0 && pidfd_send_signal(&self.process, Signal::KILL).is_ok() {
            say("some still wait for the server itself; it is killed");
        }
        Ok(())
    }
}

/// The process that started this one.
fn parent() -> io::Result<OwnedFd> {
    let gone = || io::Error::new(ErrorKind::NotFound, "the server is gone");
    let number = getppid().ok_or_else(gone)?;
    let process = pidfd_open(number, PidfdFlags::empty())?;
    // The number is another process's only if the parent is gone.
    if getppid() == Some(number) { Ok(process) } else { Err(gone()) }
}

/// What the watchdog makes of a silence.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Too short to mean anything.
    Silent,
    /// There is nothing to do.
    Idle,
    /// Requests wait, and nothing moves.
    Stalled,
}

/// When a server that says nothing counts as stalled. One with something to do
/// says so every second; an idle one says nothing, and may have got its first
/// request just now. So two silences in a row, each half as long as the stall and
/// each ending with requests that wait, are needed.
struct Suspicion {
    stall: Duration,
    since: Instant,
    suspected: bool,
}

impl Suspicion {
    fn new(stall: Duration, now: Instant) -> Self {
        Self { stall: stall / 2, since: now, suspected: false }
    }

    fn beat(&mut self, now: Instant) {
        (self.since, self.suspected) = (now, false);
    }

    fn check(&mut self, now: Instant, waiting: impl FnOnce() -> u64) -> Verdict {
        if now.saturating_duration_since(self.since) < self.stall {
            return Verdict::Silent;
        }
        self.since = now;
        if waiting() == 0 {
            self.suspected = false;
            return Verdict::Idle;
        }
        if std::mem::replace(&mut self.suspected, true) { Verdict::Stalled } else { Verdict::Silent }
    }
}

enum News {
    Nothing,
    Beat,
    Goodbye,
    Death,
}

/// What the server has said so far.
#[derive(Default)]
struct Heard {
    holds: Option<u32>,
    /// The bytes of a number that have come.
    number: Option<Vec<u8>>,
}

impl Heard {
    /// Takes what there is, waiting a tick at most.
    fn listen(&mut self, mut server: &UnixStream) -> News {
        let mut bytes = [0; 64];
        match server.read(&mut bytes) {
            Ok(0) => News::Death,
            Ok(length) => self.take(bytes.get(..length).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => News::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => News::Nothing,
            Err(_) => News::Death,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> News {
        for &byte in bytes {
            if let Some(number) = &mut self.number {
                number.push(byte);
                if let Ok(bytes) = <[u8; 4]>::try_from(number.as_slice()) {
                    self.holds = Some(u32::from_le_bytes(bytes));
                    self.number = None;
                }
                continue;
            }
            match byte {
                HOLDS => self.number = Some(Vec::with_capacity(4)),
                HOLDS_NOTHING => self.holds = None,
                END => return News::Goodbye,
                _ => {}
            }
        }
        News::Beat
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watchdog::BEAT;

    #[test]
    fn hears_numbers_in_pieces() {
        let mut heard = Heard::default();
        assert!(matches!(heard.take(&[BEAT, HOLDS, END]), News::Beat));
        assert!(matches!(heard.take(&[1, 0]), News::Beat));
        assert_eq!(heard.holds, None);
        assert!(matches!(heard.take(&[0, BEAT, BEAT]), News::Beat));
        assert_eq!(heard.holds, Some(u32::from_le_bytes([END, 1, 0, 0])));
        assert!(matches!(heard.take(&[HOLDS_NOTHING, END]), News::Goodbye));
        assert_eq!(heard.holds, None);
    }

    #[test]
    fn suspects_twice() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut suspicion = Suspicion::new(Duration::from_secs(20), start);
        let looked = |suspicion: &mut Suspicion, seconds, waiting| suspicion.check(at(seconds), || waiting);
        // Too early to look at all.
        assert_eq!(suspicion.check(at(9), || unreachable!()), Verdict::Silent);
        assert_eq!(looked(&mut suspicion, 10, 0), Verdict::Idle);
        // A first request after a long idle time.
        assert_eq!(looked(&mut suspicion, 20, 1), Verdict::Silent);
        suspicion.beat(at(21));
        assert_eq!(looked(&mut suspicion, 31, 1), Verdict::Silent);
        // The silence went on.
        assert_eq!(looked(&mut suspicion, 35, 1), Verdict::Silent);
        assert_eq!(looked(&mut suspicion, 41, 1), Verdict::Stalled);
        // Answered meanwhile: the suspicion is gone.
        assert_eq!(looked(&mut suspicion, 51, 0), Verdict::Idle);
        assert_eq!(looked(&mut suspicion, 61, 1), Verdict::Silent);
    }

    #[test]
    fn wants_numbers() {
        assert!(Watch::open("x", "1").is_err());
        assert!(Watch::open("1", "").is_err());
    }
}
