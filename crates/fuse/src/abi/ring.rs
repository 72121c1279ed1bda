//! What an io_uring adds to the protocol.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Commands for a ring (`enum fuse_uring_cmd`).
pub(crate) mod ring_command {
    pub(crate) const REGISTER: u32 = 1;
    pub(crate) const COMMIT_AND_FETCH: u32 = 2;
}

/// What a command for a ring says besides its code (`struct fuse_uring_cmd_req`).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RingCommand {
    pub(crate) flags: u64,
    /// The request that is answered.
    pub(crate) commit_id: u64,
    pub(crate) queue: u16,
    pub(crate) padding: [u16; 3],
}

/// The headers of a ring's entry (`struct fuse_uring_req_header`).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RingHeaders {
    /// An [`InHeader`](super::InHeader), and for the answer an [`OutHeader`](super::OutHeader).
    pub(crate) in_out: [u8; 128],
    /// The operation's header, if it has one.
    pub(crate) operation: [u8; 128],
    pub(crate) entry: RingEntryInOut,
}

/// The last of the headers (`struct fuse_uring_ent_in_out`).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RingEntryInOut {
    pub(crate) flags: u64,
    pub(crate) commit_id: u64,
    /// Of a request what its header does not hold, of an answer all but its header.
    pub(crate) payload_size: u32,
    pub(crate) padding: u32,
    pub(crate) reserved: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!((size_of::<RingCommand>(), size_of::<RingHeaders>()), (24, 288));
    }
}
