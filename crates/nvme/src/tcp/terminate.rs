//! Terminate requests (TCP figures 19 and 21).

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::common::CommonHeader;
use super::error::{FatalErrorStatus, PduError};

/// Most bytes of the PDU in error that a terminate request repeats: PLEN is at
/// most 152 (TCP figure 19).
pub const MAX_OFFENDING_BYTES: usize = 128;

/// H2CTermReq or C2HTermReq.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TerminateRequest {
    /// Fatal Error Status (FES), as received or to be sent.
    pub status: u16,
    /// Fatal Error Information (FEI).
    pub information: u32,
}

impl TerminateRequest {
    /// The status, where it is none of the reserved ones.
    pub fn fatal_error(&self) -> Option<FatalErrorStatus> {
        FatalErrorStatus::from_code(self.status)
    }
}

impl From<&PduError> for TerminateRequest {
    fn from(error: &PduError) -> Self {
        Self { status: error.status() as u16, information: error.information() }
    }
}

/// A terminate request on the wire; up to [`MAX_OFFENDING_BYTES`] follow.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct WireTerminate {
    pub(super) common: CommonHeader,
    /// FES.
    pub(super) fes: U16,
    /// FEI.
    pub(super) fei: U32,
    pub(super) rsvd14: [u8; 10],
}

const _: () = assert!(size_of::<WireTerminate>() == 24);
