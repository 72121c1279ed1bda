//! How a command ends within the subsystem.

use nvme::{CompletionStatus, Status};

/// Success.
#[derive(Default)]
pub(super) struct Completion {
    pub(super) dw0: u32,
    pub(super) dw1: u32,
    pub(super) data: Vec<u8>,
    /// Close the connection afterwards.
    pub(super) close: bool,
}

impl Completion {
    /// With Dword 0.
    pub(super) fn dword(dw0: u32) -> Self {
        Self { dw0, ..Self::default() }
    }

    /// With Dwords 0 and 1.
    pub(super) fn value(value: u64) -> Self {
        Self { dw0: value as u32, dw1: (value >> 32) as u32, ..Self::default() }
    }

    /// With data for the host.
    pub(super) fn data(data: Vec<u8>) -> Self {
        Self { data, ..Self::default() }
    }
}

/// Failure.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: Status,
    pub(super) dw0: u32,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self { status, dw0: 0 }
    }
}

/// The status field of a command that ended so. Do Not Retry is clear where the
/// same command may well succeed a moment later; the Error Information log has
/// more on every failure.
pub(super) fn status_field(status: Status) -> CompletionStatus {
    let passing = [Status::TRANSIENT_TRANSPORT_ERROR, Status::CONNECT_CONTROLLER_BUSY, Status::COMMAND_INTERRUPTED];
    CompletionStatus {
        do_not_retry: !status.is_success() && !passing.contains(&status),
        more: !status.is_success(),
        ..status.into()
    }
}
