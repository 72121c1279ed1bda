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
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use units::Nanos;

/// What the server says; a number of four bytes follows [`HOLDS`].
pub(crate) const BEAT: u8 = b'.';
pub(crate) const HOLDS: u8 = b'+';
pub(crate) const HOLDS_NOTHING: u8 = b'-';
pub(crate) const END: u8 = b'q';

/// The program that runs a [`Watch`](crate::Watch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchdogProgram {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments; those of the watch follow.
    pub arguments: Vec<OsString>,
}

/// The server's side.
pub struct Watchdog {
    child: Child,
    to: UnixStream,
}

impl Watchdog {
    /// Starts the watchdog of connection `number`, which aborts it when requests
    /// have waited for `stall` without a heartbeat. The arguments of the program are those of
    /// [`Watch::open`](crate::Watch::open), and then `label`; the connection's other end is its standard input.
    ///
    /// # Errors
    ///
    /// When the program does not start.
    pub fn start(program: &WatchdogProgram, number: u32, stall: Nanos, label: &str) -> io::Result<Self> {
        let (to, from) = UnixStream::pair()?;
        to.set_nonblocking(true)?;
        let child = Command::new(&program.program)
            .args(&program.arguments)
            .args([number.to_string(), (stall.0 / 1_000_000).to_string(), label.to_owned()])
            .stdin(Stdio::from(OwnedFd::from(from)))
            .stdout(Stdio::null())
            // Ctrl-C is for the server, which says goodbye.
            .process_group(0)
            .spawn()?;
        Ok(Self { child, to })
    }

    fn tell(&mut self, message: &[u8]) {
        // A watchdog that is gone, or so far behind that the socket is full,
        // cannot be helped from here.
        let _ = (&self.to).write(message);
    }

    /// The server is alive; to be said at least once a second while it has something to do.
    pub fn beat(&mut self) {
        self.tell(&[BEAT]);
    }

    /// What the server holds from now on and would leave behind if it died, by a number.
    pub fn holds(&mut self, what: Option<u32>) {
        match what.map(u32::to_le_bytes) {
            Some([a, b, c, d]) => self.tell(&[HOLDS, a, b, c, d]),
            None => self.tell(&[HOLDS_NOTHING]),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.tell(&[END]);
        let _ = self.to.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}
