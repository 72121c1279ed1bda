//! Bounds on what clients can make the server hold.

use units::Nanos;

/// Bounds on what clients can make the server hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at a time; more are turned away.
    pub connections: usize,
    /// Requests of one client in the device; more are not read from its socket.
    pub outstanding: u32,
    /// Largest read or write in bytes, advertised as the maximum block size.
    pub request_bytes: u32,
    /// How long a client may take to finish the handshake. Afterwards it may be
    /// silent for as long as it likes.
    pub handshake: Nanos,
}

impl Limits {
    /// Data held for one client, in the device and on its way out; a client
    /// that reaches it is not read from. So the server's memory is at most
    /// `connections * (held_bytes + request_bytes)`, whatever clients do.
    pub(crate) fn held_bytes(&self) -> usize {
        2 * self.request_bytes as usize
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 32, outstanding: 256, request_bytes: 32 << 20, handshake: Nanos::from_secs(10) }
    }
}
