//! A second process that ends the connection when the server cannot.
//!
//! Whoever waits for an answer of a FUSE server waits uninterruptibly. Where the
//! server itself hangs (in reclaim that waits for its own device, say) or is
//! killed with a thread that cannot die, nobody is ever released; only the
//! `abort` file of fusectl does that. So a process that needs no memory and
//! holds no descriptor of the connection listens to the server's heartbeat.
//!
//! An abort does not free a request that waits for the server itself to do
//! something: one that the kernel hands over in the server's own time, as it does
//! with those in an io_uring (`fuse_uring_send_in_task`, fs/fuse/dev_uring.c), or
//! whose pages a thread of it is in. If some still wait after the abort, the server
//! is killed; on its way out the kernel does what was left to do.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};
use units::Nanos;

use super::error::LoopError;
use super::loop_device::LoopNumber;
use super::memory;
use super::mount::ConnectionControl;
use super::users::users;

/// How often the watchdog looks.
const TICK: Duration = Duration::from_secs(1);

const BEAT: u8 = b'.';
const ATTACHED: u8 = b'+';
const DETACHED: u8 = b'-';
const END: u8 = b'q';

/// The program that runs [`watchdog_main`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchdogProgram {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments; those of [`watchdog_main`] follow.
    pub arguments: Vec<OsString>,
}

/// The server's side.
pub(crate) struct Watchdog {
    child: Child,
    to: UnixStream,
}

impl Watchdog {
    /// Starts the watchdog of connection `number`, which aborts it when requests
    /// have waited for `stall` without a heartbeat. `label` is the loop device's.
    pub(crate) fn start(program: &WatchdogProgram, number: u32, stall: Nanos, label: &str) -> Result<Self, LoopError> {
        let fail = |source| LoopError::Watchdog { program: program.program.clone(), source };
        let (to, from) = UnixStream::pair().map_err(fail)?;
        to.set_nonblocking(true).map_err(fail)?;
        let child = Command::new(&program.program)
            .args(&program.arguments)
            .args([number.to_string(), (stall.0 / 1_000_000).to_string(), label.to_owned()])
            .stdin(Stdio::from(OwnedFd::from(from)))
            .stdout(Stdio::null())
            // Ctrl-C is for the server, which says goodbye.
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        Ok(Self { child, to })
    }

    fn tell(&mut self, message: &[u8]) {
        // A watchdog that is gone, or so far behind that the socket is full,
        // cannot be helped from here.
        let _ = (&self.to).write(message);
    }

    pub(crate) fn beat(&mut self) {
        self.tell(&[BEAT]);
    }

    pub(crate) fn attached(&mut self, number: LoopNumber) {
        let [a, b, c, d] = number.0.to_le_bytes();
        self.tell(&[ATTACHED, a, b, c, d]);
    }

    pub(crate) fn detached(&mut self) {
        self.tell(&[DETACHED]);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.tell(&[END]);
        let _ = self.to.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// The watchdog process: watches over the server at the other end of standard
/// input until it says goodbye. `arguments` are the connection's number in
/// fusectl, the time without a heartbeat that counts as a stall in
/// milliseconds, and the loop device's label.
///
/// When requests wait and no heartbeat comes for that time, or the server
/// dies, the connection is aborted: everybody who waits gets an I/O error. Where
/// that is not enough the server is killed. Of a server that died the loop device
/// is detached as well.
///
/// # Errors
///
/// When the arguments are not these three, or the connection or the server cannot be found.
pub fn watchdog_main(arguments: &[String]) -> io::Result<()> {
    let [connection, stall_ms, label] = arguments else {
        return Err(io::Error::other("the watchdog is started by `plumb serve --loop`, not by hand"));
    };
    let connection: u32 = connection.parse().map_err(io::Error::other)?;
    let stall = Duration::from_millis(stall_ms.parse().map_err(io::Error::other)?);
    let mut control = ConnectionControl::open(connection)?;
    let process = parent()?;
    let server = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    server.set_read_timeout(Some(TICK))?;
    // Must not itself wait for memory when it is needed.
    // What it cannot have the server could not have either, and has said so.
    memory::protect();
    let mut heard = Heard::default();
    let mut suspicion = Suspicion::new(stall, Instant::now());
    loop {
        match heard.listen(&server) {
            News::Nothing => {}
            News::Beat => suspicion.beat(Instant::now()),
            News::Goodbye => return Ok(()),
            News::Death => break,
        }
        match suspicion.check(Instant::now(), || control.waiting().unwrap_or(0)) {
            Verdict::Silent => {}
            // Nobody waits: the time to open files.
            Verdict::Idle => control.refill().unwrap_or(()),
            Verdict::Stalled => {
                control.abort()?;
                say(&format!(
                    "the server has not moved for {} s with requests waiting; they fail now, and so does every later one",
                    stall.as_secs_f64()
                ));
                thread::sleep(TICK);
                // It fails only if the server is gone already, which is heard next.
                if control.waiting().unwrap_or(0) > 0 && pidfd_send_signal(&process, Signal::KILL).is_ok() {
                    say("some still wait for the server itself; it is killed");
                }
            }
        }
    }
    // The kernel ends the connection itself when its last descriptor is closed;
    // a thread that cannot die keeps one open. There may be nothing left to abort.
    let _ = control.abort();
    if let Some(number) = heard.attached
        && number.label().is_ok_and(|found| found == *label)
    {
        let users = users(number);
        number.detach()?;
        let device = number.path();
        if users.is_empty() {
            say(&format!("the server died; {} is detached", device.display()));
        } else {
            let users = users.join(", ");
            say(&format!("the server died; {} fails until it is released ({users})", device.display()));
        }
    }
    Ok(())
}

/// The process that started this one.
fn parent() -> io::Result<OwnedFd> {
    let gone = || io::Error::new(ErrorKind::NotFound, "the server is gone");
    let number = getppid().ok_or_else(gone)?;
    let process = pidfd_open(number, PidfdFlags::empty())?;
    // The number is another process's only if the parent is gone.
    if getppid() == Some(number) { Ok(process) } else { Err(gone()) }
}

/// Says something in one write, so that it is a line also where the server speaks.
fn say(what: &str) {
    let _ = io::stderr().write_all(format!("watchdog: {what}\n").as_bytes());
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
    attached: Option<LoopNumber>,
    /// The bytes of a device number that have come.
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
                    self.attached = Some(LoopNumber(u32::from_le_bytes(bytes)));
                    self.number = None;
                }
                continue;
            }
            match byte {
                ATTACHED => self.number = Some(Vec::with_capacity(4)),
                DETACHED => self.attached = None,
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

    #[test]
    fn hears_numbers_in_pieces() {
        let mut heard = Heard::default();
        assert!(matches!(heard.take(&[BEAT, ATTACHED, END]), News::Beat));
        assert!(matches!(heard.take(&[1, 0]), News::Beat));
        assert_eq!(heard.attached, None);
        assert!(matches!(heard.take(&[0, BEAT, BEAT]), News::Beat));
        assert_eq!(heard.attached, Some(LoopNumber(u32::from_le_bytes([END, 1, 0, 0]))));
        assert!(matches!(heard.take(&[DETACHED, END]), News::Goodbye));
        assert_eq!(heard.attached, None);
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
    fn wants_its_three_arguments() {
        assert!(watchdog_main(&[]).is_err());
        assert!(watchdog_main(&["x".to_owned(), "1".to_owned(), String::new()]).is_err());
    }
}
