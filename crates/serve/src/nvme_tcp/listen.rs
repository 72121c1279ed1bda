//! Where hosts find the subsystem.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use nvme::tcp::NVME_TCP_PORT;

/// An address to listen on: `tcp:PORT`, `HOST`, `HOST:PORT` or `tcp:HOST:PORT`.
/// Without a host it is the loopback address, without a port 4420.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Host name or address.
    pub host: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
}

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an NVMe/TCP address; write tcp:PORT, HOST:PORT or [IPV6]:PORT")]
pub struct ParseListenError {
    text: String,
}

impl Default for Listen {
    fn default() -> Self {
        Self { host: Ipv4Addr::LOCALHOST.to_string(), port: NVME_TCP_PORT }
    }
}

impl FromStr for Listen {
    type Err = ParseListenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseListenError { text: text.to_owned() };
        let address = match text.split_once(':') {
            Some(("unix" | "udp", _)) => return Err(fail()),
            Some(("tcp", address)) => address,
            _ => text,
        };
        if address.is_empty() {
            return Err(fail());
        }
        let default = Self::default();
        if let Ok(port) = address.parse() {
            return Ok(Self { port, ..default });
        }
        let (host, port) = match address.rsplit_once(':') {
            // `::1` and `[::1]` are hosts, not host and port.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => (address, default.port),
            Some((_, port)) if port.ends_with(']') => (address, default.port),
            Some((host, port)) => (host, port.parse().map_err(|_| fail())?),
            None => (address, default.port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.contains(['/', ' ']) {
            return Err(fail());
        }
        Ok(Self { host: if host.is_empty() { default.host } else { host.to_owned() }, port })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "tcp:[{host}]:{port}") } else { write!(f, "tcp:{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, host, port) in [
            ("tcp:4421", "127.0.0.1", 4421),
            ("tcp:0", "127.0.0.1", 0),
            ("4421", "127.0.0.1", 4421),
            (":4421", "127.0.0.1", 4421),
            ("localhost", "localhost", 4420),
            ("0.0.0.0:1", "0.0.0.0", 1),
            ("tcp:example.org:7", "example.org", 7),
            ("::1", "::1", 4420),
            ("[::1]:7", "::1", 7),
            ("tcp:[::1]", "::1", 4420),
        ] {
            let expected = Listen { host: host.to_owned(), port };
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
            assert_eq!(expected.to_string().parse(), Ok(expected));
        }
        for bad in ["", "tcp:", "unix:/run/x", "/run/x", "host:port", "host:99999"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad:?} was accepted");
        }
    }
}
