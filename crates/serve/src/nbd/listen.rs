//! Where clients find the server.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

use super::proto::NBD_PORT;
use crate::error::ServeError;
use crate::socket::Listener;

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

impl Listen {
    pub(crate) fn bind(&self) -> Result<Listener, ServeError> {
        match self {
            Self::Unix(path) => Listener::unix(path),
            Self::Tcp { host, port } => Listener::tcp(host, *port),
        }
    }
}

/// A listener's address as an NBD URI, with the port the system chose.
pub(crate) fn uri(listener: &Listener) -> String {
    match (listener.path(), listener.tcp_address()) {
        (Some(path), _) => format!("nbd+unix:///?socket={}", path.display()),
        (None, Some(address)) => format!("nbd://{address}"),
        (None, None) => "nbd://".to_owned(),
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
}
