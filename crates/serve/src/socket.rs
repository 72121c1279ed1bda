//! Listening sockets and connected ones, of both families.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
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
    pub(crate) fn accept(&self) -> io::Result<Option<(Socket, String)>> {
        let accepted = match self {
            Self::Unix { socket, .. } => socket.accept().map(|(socket, _)| (Socket::Unix(socket), "unix".to_owned())),
            Self::Tcp(socket) => socket.accept().map(|(socket, peer)| (Socket::Tcp(socket), peer.to_string())),
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

/// Removes the socket file of a server that was killed.
fn clear_stale(path: &Path) -> Result<(), ServeError> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(ServeError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|source| ServeError::Bind { address: format!("unix:{}", path.display()), source }),
        _ => Err(ServeError::InUse { path: path.to_owned() }),
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
