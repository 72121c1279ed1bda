//! Bounds on what clients can make the server hold.

use units::Nanos;

/// Bounds on what clients can make the server hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at a time. For another one the place is taken of the client that does the
    /// least with it: one that has not finished the handshake, that stands still in the
    /// middle of a message, that has never asked for anything, that has asked for nothing
    /// in the last minute. Where there is none of these, the other one is turned away.
    pub connections: usize,
    /// Requests of one client in the device; more are not read from its socket.
    pub outstanding: u32,
    /// Largest read or write in bytes, advertised as the maximum block size.
    pub request_bytes: u32,
    /// How long a client may take to finish the handshake. Afterwards it may be
    /// silent for as long as it likes.
    pub handshake: Nanos,
    /// How long a client may leave a request unfinished or replies unread without
    /// making progress. One that moves a few bytes a second is slow, and stays.
    pub stall: Nanos,
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
        Self {
            connections: 32,
            outstanding: 256,
            request_bytes: 32 << 20,
            handshake: Nanos::from_secs(10),
            stall: Nanos::from_secs(60),
        }
    }
}
