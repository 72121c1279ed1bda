//! Tells processes what of their files is in memory, exactly and without a call: a service with two capabilities.
//!
//! A process connects to a socket and sends the descriptor of a file. If the kernel would tell it, too (`permission`), it gets the
//! descriptor of a frozen array that programs in the kernel keep ([`bpf`](crate::residency::bpf)), and maps it. Ends the connection, the
//! array is not kept any more.

pub mod client;
mod followed;
mod permission;
mod serving;
mod wire;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use serde::Serialize;

use crate::PrefetcherError;
use crate::residency::bpf::{Tracker, key_of};
use followed::{Caller, Files};
#[cfg(test)]
pub(crate) use permission::tests as permission_tests;
pub use serving::{Served, Serving};

/// Where the socket is, if nothing else is said.
pub const SOCKET: &str = "/run/plumb-prefetch/agent.sock";

/// Callers at once, and of one user.
const CALLERS: usize = 1024;
const CALLERS_OF_USER: usize = 128;

/// How often it is looked what became of the files.
const TICK: Duration = Duration::from_millis(500);

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Callers now.
    pub callers: u64,
    /// Files that are followed now.
    pub files: u64,
    /// Arrays that were handed out.
    pub handed_out: u64,
    /// Requests of files that the caller may not know of.
    pub not_permitted: u64,
    /// Requests of files that cannot be followed.
    pub not_possible: u64,
    /// Messages that are none, and callers beyond the number that there may be.
    pub turned_away: u64,
    /// Times that files were let go since their owner or last name had changed.
    pub taken_back: u64,
}

/// What is said to who asks for it: the counts, and what was done for control groups, if anything is.
#[derive(Serialize)]
struct Status {
    #[serde(flatten)]
    counts: Counts,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Served>,
}

/// Why there is no array.
enum Answer {
    NotPermitted(permission::Refusal),
    NotPossible(io::Error),
}

struct Connection {
    socket: OwnedFd,
    user: u32,
}

/// The service.
pub struct Agent {
    listener: OwnedFd,
    path: PathBuf,
    files: Files,
    connections: BTreeMap<Caller, Connection>,
    next: Caller,
    counts: Counts,
}

impl Agent {
    /// Attaches its programs and listens at this path, which everybody may connect to.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_PERFMON, or where another one listens there.
    pub fn start(path: &Path) -> Result<Self, PrefetcherError> {
        let tracker = Tracker::attach().map_err(PrefetcherError::kernel("attach programs to the page cache"))?;
        let failed = || PrefetcherError::file("cannot listen at", path);
        let listener = listen(path).map_err(failed())?;
        // Who may know what is asked for each file.
        std::fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(failed())?;
        let (files, connections) = (Files::new(tracker), BTreeMap::new());
        Ok(Self { listener, path: path.to_owned(), files, connections, next: 0, counts: Counts::default() })
    }

    /// Serves until it is told to stop. Who asks for its counts learns what was done for control groups, too.
    ///
    /// # Errors
    /// Where it cannot wait for callers.
    pub fn serve(&mut self, stop: &Arc<AtomicBool>, groups: Option<&Serving>) -> Result<Counts, PrefetcherError> {
        let mut looked = Instant::now();
        while !stop.load(Ordering::SeqCst) {
            for caller in self.wait().map_err(PrefetcherError::kernel("wait for callers"))? {
                match caller {
                    None => self.accept(),
                    Some(caller) => self.hear(caller, groups),
                }
            }
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                for caller in self.files.look() {
                    self.counts.taken_back += 1;
                    self.leave(caller);
                }
            }
        }
        Ok(self.counts())
    }

    fn counts(&self) -> Counts {
        let (callers, files) = (self.connections.len() as u64, self.files.len() as u64);
        Counts { callers, files, ..self.counts.clone() }
    }

    /// Who has something to say; none is a new one.
    fn wait(&self) -> io::Result<Vec<Option<Caller>>> {
        let mut waiting = vec![PollFd::new(&self.listener, PollFlags::IN)];
        waiting.extend(self.connections.values().map(|one| PollFd::new(&one.socket, PollFlags::IN)));
        let timeout = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
        match poll(&mut waiting, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let callers = std::iter::once(None).chain(self.connections.keys().copied().map(Some));
        Ok(waiting.iter().zip(callers).filter(|(one, _)| !one.revents().is_empty()).map(|(_, caller)| caller).collect())
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // One that has gone by now is no loss.
        let Ok(socket) = rustix::net::accept_with(&self.listener, flags) else { return };
        let Ok(peer) = sockopt::socket_peercred(&socket) else { return };
        let user = peer.uid.as_raw();
        let of_user = self.connections.values().filter(|one| one.user == user).count();
        if self.connections.len() >= CALLERS || of_user >= CALLERS_OF_USER {
            self.counts.turned_away += 1;
            return;
        }
        self.next += 1;
        self.connections.insert(self.next, Connection { socket, user });
    }

    fn hear(&mut self, caller: Caller, groups: Option<&Serving>) {
        let Some(connection) = self.connections.get(&caller) else { return };
        let message = match wire::receive(connection.socket.as_fd(), RecvFlags::DONTWAIT) {
            Ok(Some(message)) => message,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(None) => return self.leave(caller),
            Err(_) => {
                self.counts.turned_away += 1;
                return self.leave(caller);
            }
        };
        let socket = connection.socket.as_fd();
        let answered = match (&message.text[..], &message.descriptors[..]) {
            (wire::STATUS, []) => {
                let status = Status { counts: self.counts(), groups: groups.map(Serving::so_far) };
                let text = serde_json::to_vec(&status).unwrap_or_default();
                wire::send(socket, &text, None)
            }
            (wire::FOLLOW, [file]) => {
                let user = connection.user;
                // What it is a file of comes first: a file system in user space is not asked who owns it. And who may know it is
                // asked again when it is followed, since from then on a change is seen.
                let permitted = || permission::check(user, file.as_fd()).map_err(Answer::NotPermitted);
                let found = key_of(file.as_fd()).map_err(Answer::NotPossible).and_then(|_| permitted());
                let files = &mut self.files;
                let array = found.and_then(|()| files.follow(caller, user, file.as_fd()).map_err(Answer::NotPossible));
                match array.and_then(|array| permitted().map(|()| array)) {
                    Ok((array, entries)) => {
                        self.counts.handed_out += 1;
                        wire::send(socket, &[wire::ARRAY, entries.to_string().as_bytes()].concat(), Some(array))
                    }
                    Err(answer) => {
                        let (count, words) = match answer {
                            Answer::NotPermitted(refusal) => {
                                (&mut self.counts.not_permitted, refusal.words().to_owned())
                            }
                            Answer::NotPossible(error) => (&mut self.counts.not_possible, error.to_string()),
                        };
                        *count += 1;
                        wire::send(socket, &[wire::REFUSED, words.as_bytes()].concat(), None)
                    }
                }
            }
            _ => {
                self.counts.turned_away += 1;
                Err(io::ErrorKind::InvalidData.into())
            }
        };
        // Who does not take answers is not waited for.
        if answered.is_err() {
            self.leave(caller);
        }
    }

    fn leave(&mut self, caller: Caller) {
        self.connections.remove(&caller);
        self.files.gone(caller);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The folder is the system's affair.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A socket at this path; one that nobody listens at gives way.
fn listen(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    if let Err(error) = rustix::net::connect(socket()?, &address)
        && error == rustix::io::Errno::CONNREFUSED
    {
        std::fs::remove_file(path)?;
    }
    let listener = socket()?;
    rustix::net::bind(&listener, &address)?;
    rustix::net::listen(&listener, 64)?;
    Ok(listener)
}
