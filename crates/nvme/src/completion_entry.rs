//! The completion queue entry (Base 3.3.3.2).

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{CommandId, QueueId, Status};

/// A 16-byte completion queue entry (Base figures 89 to 92).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CompletionEntry {
    /// Command specific (Dword 0).
    pub dw0: U32,
    /// Command specific (Dword 1).
    pub dw1: U32,
    /// SQ Head Pointer (SQHD).
    pub sqhd: U16,
    /// SQ Identifier (SQID).
    pub sqid: U16,
    /// Command Identifier (CID).
    pub cid: U16,
    /// Phase Tag in bit 0, Status Field in bits 15:1.
    pub status: U16,
}

const _: () = assert!(size_of::<CompletionEntry>() == 16);

/// The Status Field and the Phase Tag, taken apart (Base figure 92).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletionStatus {
    /// Status Code Type and Status Code.
    pub status: Status,
    /// Command Retry Delay (CRD): 0 to 3.
    pub crd: u8,
    /// More (M): the Error Information log has more.
    pub more: bool,
    /// Do Not Retry (DNR).
    pub do_not_retry: bool,
    /// Phase Tag (P).
    pub phase: bool,
}

impl CompletionEntry {
    /// A completion without command-specific dwords.
    pub fn new(queue: QueueId, cid: CommandId, sqhd: u16, status: CompletionStatus) -> Self {
        Self {
            dw0: 0.into(),
            dw1: 0.into(),
            sqhd: sqhd.into(),
            sqid: queue.0.into(),
            cid: cid.0.into(),
            status: u16::from(status).into(),
        }
    }

    /// The Status Field and the Phase Tag.
    pub fn completion_status(&self) -> CompletionStatus {
        self.status.get().into()
    }
}

/// As it is mostly: no retry delay, no more information, phase 0. Errors are
/// marked Do Not Retry, since a modelled device fails the same way again.
impl From<Status> for CompletionStatus {
    fn from(status: Status) -> Self {
        Self { status, crd: 0, more: false, do_not_retry: !status.is_success(), phase: false }
    }
}

impl From<u16> for CompletionStatus {
    fn from(bits: u16) -> Self {
        Self {
            phase: bits & 1 != 0,
            status: Status { code: (bits >> 1) as u8, code_type: (bits >> 9) as u8 & 0b111 },
            crd: (bits >> 12) as u8 & 0b11,
            more: bits & 1 << 14 != 0,
            do_not_retry: bits & 1 << 15 != 0,
        }
    }
}

impl From<CompletionStatus> for u16 {
    fn from(status: CompletionStatus) -> Self {
        let CompletionStatus { status: Status { code_type, code }, crd, more, do_not_retry, phase } = status;
        debug_assert!(code_type < 8 && crd < 4);
        Self::from(phase)
            | Self::from(code) << 1
            | (Self::from(code_type) & 0b111) << 9
            | (Self::from(crd) & 0b11) << 12
            | Self::from(more) << 14
            | Self::from(do_not_retry) << 15
    }
}
