//! Bounds on what hosts can make the server hold.

use nvme::tcp::{ADMIN_IN_CAPSULE_BYTES, Alignment, Digests};
use units::Nanos;

/// Bounds on what hosts can make the server hold, and what it offers them.
///
/// A connection holds at most `held_bytes` of data asked for or on its way out
/// (one command alone may exceed it), `in_capsule_bytes` for each command of its
/// queue, and a buffer of 64 KiB; so the server's memory is bounded by
/// `connections` times that, whatever hosts do. Writes that name streams of a
/// device that keeps order do not count, since those that have the room may wait
/// for them: they are as many as the queue has entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time: one for each queue of each controller. More are told
    /// that the controller is busy.
    pub connections: usize,
    /// Data of one connection's commands: beyond it, commands wait before their
    /// data is asked for or read from the device.
    pub held_bytes: usize,
    /// Data taken within a command capsule, on every queue; at least
    /// [`ADMIN_IN_CAPSULE_BYTES`].
    pub in_capsule_bytes: u32,
    /// MAXH2CDATA: data in one H2CData PDU; whole dwords, at least 4096.
    pub h2c_data_bytes: u32,
    /// Data asked for by one R2T; whole dwords.
    pub r2t_bytes: u32,
    /// R2Ts outstanding for one command, if the host takes as many.
    pub r2ts: u32,
    /// Digests that hosts may have.
    pub digests: Digests,
    /// Alignment of the data that hosts send (CPDA).
    pub alignment: Alignment,
    /// How long a host may take for ICReq.
    pub handshake: Nanos,
    /// How long a host may leave a PDU unfinished, data that it was asked for
    /// unsent, or answers unread. An idle host may be silent for as long as its
    /// Keep Alive Timeout lets it.
    pub stall: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            held_bytes: 16 << 20,
            in_capsule_bytes: ADMIN_IN_CAPSULE_BYTES,
            h2c_data_bytes: 256 << 10,
            r2t_bytes: 1 << 20,
            r2ts: 4,
            digests: Digests::all(),
            alignment: Alignment::default(),
            handshake: Nanos::from_secs(10),
            stall: Nanos::from_secs(60),
        }
    }
}
