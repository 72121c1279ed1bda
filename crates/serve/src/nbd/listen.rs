//! Where clients find the server.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::ServeError;
use super::proto::NBD_PORT;

/// An address to listen on: `unix:PATH`, `tcp:PORT`, `tcp:HOST` or
/// `tcp:HOST:PORT`. Without a host it is the loopback address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix-domain socket.
    Unix(PathBuf),
    /// A TCP address; the host may be a name.
    Tcp {
        /// Host name or address.
        host: String,
        /// Port; 0 lets the system choose.
        port: u16,
    },
}

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an NBD address; write unix:PATH, tcp:PORT or tcp:HOST:PORT")]
pub struct ParseListenError {
    text: String,
}

impl FromStr for Listen {
    type Err = ParseListenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseListenError { text: text.to_owned() };
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) if !address.is_empty() => {
                let loopback = || Ipv4Addr::LOCALHOST.to_string();
                if let Ok(port) = address.parse() {
                    return Ok(Self::Tcp { host: loopback(), port });
                }
                let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let (host, port) = match address.rsplit_once(':') {
                    // `::1` and `[::1]` are hosts, not host and port.
                    Some((host, _)) if host.contains(':') && !host.ends_with(']') => (bare(address), NBD_PORT),
                    Some((_, port)) if port.ends_with(']') => (bare(address), NBD_PORT),
                    Some((host, port)) => (bare(host), port.parse().map_err(|_| fail())?),
                    None => (bare(address), NBD_PORT),
                };
                let host = if host.is_empty() { loopback() } else { host };
                Ok(Self::Tcp { host, port })
            }
            _ => Err(fail()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

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
    pub(crate) fn bind(listen: &Listen) -> Result<Self, ServeError> {
        let fail = |source| ServeError::Bind { address: listen.to_string(), source };
        let listener = match listen {
            Listen::Unix(path) => {
                clear_stale(path)?;
                let socket = UnixListener::bind(path).map_err(fail)?;
                let meta = fs::symlink_metadata(path).map_err(fail)?;
                Self::Unix { socket, path: path.clone(), file: (meta.dev(), meta.ino()) }
            }
            Listen::Tcp { host, port } => {
                let addresses: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs().map_err(fail)?.collect();
                Self::Tcp(TcpListener::bind(&addresses[..]).map_err(fail)?)
            }
        };
        match &listener {
            Self::Unix { socket, .. } => socket.set_nonblocking(true),
            Self::Tcp(socket) => socket.set_nonblocking(true),
        }
        .map_err(fail)?;
        Ok(listener)
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

    /// The address as an NBD URI, with the port the system chose.
    pub(crate) fn uri(&self) -> String {
        match self {
            Self::Unix { path, .. } => format!("nbd+unix:///?socket={}", path.display()),
            Self::Tcp(socket) => match socket.local_addr() {
                Ok(address) => format!("nbd://{address}"),
                Err(_) => "nbd://".to_owned(),
            },
        }
    }

    /// Whether other machines can reach it.
    pub(crate) fn is_remote(&self) -> bool {
        let ip: Option<IpAddr> = match self {
            Self::Unix { .. } => None,
            Self::Tcp(socket) => socket.local_addr().ok().map(|address| address.ip()),
        };
        ip.is_some_and(|ip| !ip.is_loopback())
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
    fn addresses() {
        let tcp = |host: &str, port| Ok(Listen::Tcp { host: host.to_owned(), port });
        for (text, expected) in [
            ("unix:/run/a b:c.sock", Ok(Listen::Unix("/run/a b:c.sock".into()))),
            ("tcp:10810", tcp("127.0.0.1", 10810)),
            ("tcp::10810", tcp("127.0.0.1", 10810)),
            ("tcp:0", tcp("127.0.0.1", 0)),
            ("tcp:example.org", tcp("example.org", 10809)),
            ("tcp:0.0.0.0:1", tcp("0.0.0.0", 1)),
            ("tcp:::1", tcp("::1", 10809)),
            ("tcp:[::1]:7", tcp("::1", 7)),
            ("tcp:[::1]", tcp("::1", 10809)),
        ] {
            assert_eq!(text.parse::<Listen>(), expected, "{text}");
            if let Ok(listen) = expected {
                assert_eq!(listen.to_string().parse(), Ok(listen));
            }
        }
        for bad in ["", "unix:", "tcp:", "/run/x", "tcp:host:port", "tcp:host:99999", "udp:1"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn stale_sockets_are_cleared_and_live_ones_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listen = Listen::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "std leaves the file of a closed socket");
        let first = Listener::bind(&listen).unwrap();
        assert!(matches!(Listener::bind(&listen), Err(ServeError::InUse { .. })));
        drop(first);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Listener::bind(&listen), Err(ServeError::NotASocket { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
