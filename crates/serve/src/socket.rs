//! Listening sockets and connected ones, of both families.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::ServeError;

/// A bound listening socket.
pub(crate) enum Listener {
    Unix {
        socket: UnixListener,
        path: PathBuf,
        /// Device and inode of the socket file, to remove no one else's.
        file: (u64, u64),
    },
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on a Unix-domain socket. The socket file of a server that was
    /// killed is replaced; anything else in its place is an error.
    pub(crate) fn unix(path: &Path) -> Result<Self, ServeError> {
        let fail = |source| ServeError::Bind { address: format!("unix:{}", path.display()), source };
        clear_stale(path)?;
        let socket = UnixListener::bind(path).map_err(fail)?;
        let meta = fs::symlink_metadata(path).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        Ok(Self::Unix { socket, path: path.to_owned(), file: (meta.dev(), meta.ino()) })
    }

    /// Listens on a TCP address; port 0 lets the system choose.
    pub(crate) fn tcp(host: &str, port: u16) -> Result<Self, ServeError> {
        let fail = |source| ServeError::Bind { address: format!("tcp:{host}:{port}"), source };
        let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(fail)?.collect();
        let socket = TcpListener::bind(&addresses[..]).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        Ok(Self::Tcp(socket))
    }

    /// The next client, or `None` when none waits.
    pub(crate) fn accept(&self) -> io::Result<Option<(Socket, Peer)>> {
        let accepted = match self {
            Self::Unix { socket, .. } => socket.accept().map(|(socket, _)| (Socket::Unix(socket), Peer::local("unix"))),
            Self::Tcp(socket) => socket.accept().map(|(socket, peer)| (Socket::Tcp(socket), Peer::remote(peer))),
        };
        match accepted {
            Ok((socket, peer)) => {
                socket.prepare()?;
                Ok(Some((socket, peer)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The TCP address with the port the system chose; `None` on a Unix socket.
    pub(crate) fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix { .. } => None,
            Self::Tcp(socket) => socket.local_addr().ok(),
        }
    }

    /// The path of a Unix socket; `None` on TCP.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Unix { path, .. } => Some(path),
            Self::Tcp(_) => None,
        }
    }

    /// Whether other machines can reach it.
    pub(crate) fn is_remote(&self) -> bool {
        self.tcp_address().is_some_and(|address| !address.ip().is_loopback())
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix { socket, .. } => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, file, .. } = self {
            let ours = fs::symlink_metadata(&*path).is_ok_and(|meta| (meta.dev(), meta.ino()) == *file);
            if ours {
                // Nothing is left to do if it fails; the next start clears it.
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Whether somebody has to close something before another client can be accepted.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Removes the socket file of a server that was killed.
fn clear_stale(path: &Path) -> Result<(), ServeError> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(ServeError::NotASocket { path: path.to_owned() });
    }
    let cannot_bind = |source| ServeError::Bind { address: format!("unix:{}", path.display()), source };
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(cannot_bind),
        // Of another user: nobody knows whether somebody answers.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(cannot_bind(error)),
        _ => Err(ServeError::InUse { path: path.to_owned() }),
    }
}

/// Where a client comes from, as far as that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// This machine, over a Unix-domain socket.
    Local,
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The network part of an IPv6 address: its owner has all of the other 64 bits.
    V6(u64),
}

/// Who a client is before it has said so.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// What the log calls it.
    pub(crate) name: String,
    pub(crate) source: Source,
}

impl Peer {
    pub(crate) fn local(name: &str) -> Self {
        Self { name: name.to_owned(), source: Source::Local }
    }

    fn remote(address: SocketAddr) -> Self {
        let source = match address.ip().to_canonical() {
            IpAddr::V4(address) => Source::V4(address),
            IpAddr::V6(address) => Source::V6((address.to_bits() >> 64) as u64),
        };
        Self { name: address.to_string(), source }
    }
}

/// A client's end.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// Makes it fit for the event loop.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_nonblocking(true),
            Self::Tcp(socket) => {
                socket.set_nodelay(true)?;
                keep_alive(socket)?;
                socket.set_nonblocking(true)
            }
        }
    }
}

/// A client whose machine vanished is noticed by TCP, not by silence: an idle
/// client is an honest one.
fn keep_alive(socket: &TcpStream) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    // SAFETY: the option takes an int; the pointer and its length describe `on`,
    // and the descriptor is open for the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_KEEPALIVE,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => (&*socket).read(buffer),
            Socket::Tcp(socket) => (&*socket).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => (&*socket).write(bytes),
            Socket::Tcp(socket) => (&*socket).write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => (&*socket).write_vectored(slices),
            Socket::Tcp(socket) => (&*socket).write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_network_of_addresses_is_one_source() {
        let source = |address: &str| Peer::remote(address.parse().unwrap()).source;
        assert_ne!(source("192.0.2.1:7"), source("192.0.2.2:7"));
        assert_eq!(source("192.0.2.1:7"), source("[::ffff:192.0.2.1]:8"));
        assert_eq!(source("[2001:db8::1]:7"), source("[2001:db8::f00:1]:9"));
        assert_ne!(source("[2001:db8::1]:7"), source("[2001:db8:0:1::1]:7"));
    }

    #[test]
    fn stale_sockets_are_cleared_and_live_ones_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "std leaves the file of a closed socket");
        let first = Listener::unix(&path).unwrap();
        assert!(matches!(Listener::unix(&path), Err(ServeError::InUse { .. })));
        drop(first);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Listener::unix(&path), Err(ServeError::NotASocket { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
