//! The agent, as a source of what is in memory.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prefetch::Range;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::wire;
use crate::residency::bits::Bits;
use crate::residency::{Residency, cachestat};

/// How often it is looked whether the agent is there: bitmaps of one that has gone say nothing any more.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Files that are remembered, refused ones among them.
const FILES: usize = 256;

/// A connection, and the bitmaps that came through it.
pub struct Agent {
    inner: Mutex<Inner>,
}

struct Inner {
    socket: Option<OwnedFd>,
    looked: Instant,
    files: BTreeMap<(u64, u64), Option<Bits>>,
}

impl Agent {
    /// Connects to the agent at this path.
    ///
    /// # Errors
    /// Where there is none, or it takes no more.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let kind = SocketType::SEQPACKET;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        let patience = Some(Duration::from_secs(1));
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, patience)?;
        let inner = Inner { socket: Some(socket), looked: Instant::now(), files: BTreeMap::new() };
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// The agent's counts, as JSON.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn status(&self) -> io::Result<String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = inner.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        wire::send(socket.as_fd(), wire::STATUS, None)?;
        let answer = wire::receive(socket.as_fd(), RecvFlags::empty())?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(String::from_utf8_lossy(&answer.text).into_owned())
    }

    /// Asks for the bits of a file.
    ///
    /// # Errors
    /// Why they are refused, or that nobody answers.
    pub fn ask(&self, file: BorrowedFd<'_>) -> io::Result<Bits> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.ask(file)
    }
}

impl Inner {
    fn ask(&self, file: BorrowedFd<'_>) -> io::Result<Bits> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?.as_fd();
        wire::send(socket, wire::FOLLOW, Some(file))?;
        let answer = wire::receive(socket, RecvFlags::empty())?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let entries =
            answer.text.strip_prefix(wire::ARRAY).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let (Some(entries), [array]) = (entries, &answer.descriptors[..]) else {
            let reason = answer.text.strip_prefix(wire::REFUSED).unwrap_or(b"no answer that is known");
            return Err(io::Error::other(String::from_utf8_lossy(reason).into_owned()));
        };
        Bits::new(array.as_fd(), entries, file)
    }

    /// Forgets everything where the agent has ended, or taken something back.
    fn look(&mut self) {
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        let Some(socket) = &self.socket else { return };
        let quiet = wire::receive(socket.as_fd(), RecvFlags::PEEK | RecvFlags::DONTWAIT);
        if quiet.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return;
        }
        self.socket = None;
        self.files.clear();
    }
}

impl Residency for Agent {
    fn resident_pages(&self, file: BorrowedFd<'_>, range: Range) -> Option<u64> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.look();
        let about = rustix::fs::fstat(file).ok()?;
        let name = (about.st_dev, about.st_ino);
        if inner.socket.is_some() && !inner.files.contains_key(&name) {
            if inner.files.len() >= FILES {
                inner.files.clear();
            }
            let bits = inner.ask(file).ok();
            inner.files.insert(name, bits);
        }
        let bits = inner.files.get(&name).and_then(Option::as_ref);
        // Where it has no bits, the kernel may still answer.
        bits.and_then(|bits| bits.resident_pages(range)).or_else(|| cachestat::resident_pages(file, range))
    }
}
