//! What becomes of a request: it is answered at once, or the device is asked.

use fuse::{Body, FallocateMode, Operation, SingleFile};
use nvme::Status;

use crate::backend::Request;

/// What a request comes to.
pub(crate) enum Step {
    /// It takes no answer.
    Nothing,
    /// It is answered without the device.
    Answer { answer: Result<Body, i32>, note: Note },
    /// The device is asked.
    Submit(Request, Kind),
}

/// What an answer means for the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    Nothing,
    Opened,
    Released,
}

/// What the answer to a request of the device looks like.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Read,
    Write { size: u32 },
    Other,
}

/// What a request comes to.
pub(crate) fn step_of(node: u64, operation: &Operation<'_>, disk: &SingleFile, takes_deallocate: bool) -> Step {
    match disk.answer(node, operation) {
        Some(answer) => {
            let note = match operation {
                Operation::Open { .. } => Note::Opened,
                Operation::Release { .. } => Note::Released,
                _ => Note::Nothing,
            };
            Step::Answer { answer, note }
        }
        None if !operation.is_answered() => Step::Nothing,
        None => match request_of(operation, disk, takes_deallocate) {
            Ok((request, kind)) => Step::Submit(request, kind),
            Err(answer) => Step::Answer { answer: answer.map(|()| Body::EMPTY), note: Note::Nothing },
        },
    }
}

/// The device's request for a FUSE one, or its answer where the device is not asked.
fn request_of(
    operation: &Operation<'_>,
    disk: &SingleFile,
    takes_deallocate: bool,
) -> Result<(Request, Kind), Result<(), i32>> {
    let changes = !matches!(operation, Operation::Read { .. } | Operation::Fsync { .. });
    if changes && disk.read_only {
        return Err(Err(libc::EROFS));
    }
    match *operation {
        Operation::Read { offset, length, .. } => {
            // As from any file, a read ends at the end.
            let left = disk.size_bytes.saturating_sub(offset);
            let length = length.min(u32::try_from(left).unwrap_or(u32::MAX));
            if length == 0 {
                return Err(Ok(()));
            }
            Ok((Request::Read { offset, length }, Kind::Read))
        }
        Operation::Write { data: [], .. } => Err(Err(libc::EINVAL)),
        Operation::Write { offset, data, .. } => {
            // A request's length is 32 bits wide.
            let size = data.len() as u32;
            Ok((Request::Write { offset, data: data.into(), fua: false }, Kind::Write { size }))
        }
        Operation::Fsync { .. } => Ok((Request::Flush, Kind::Other)),
        Operation::Fallocate { offset, length, mode, .. } => {
            // The loop driver has one word, a hole, for Dataset Management and for
            // Write Zeroes that may deallocate; a hole reads as zeroes, and so do
            // the model's deallocated blocks.
            let request = if mode == FallocateMode::KEEP_SIZE | FallocateMode::PUNCH_HOLE && takes_deallocate {
                Request::Trim { offset, length, fua: false }
            } else if mode == FallocateMode::KEEP_SIZE | FallocateMode::ZERO_RANGE {
                Request::WriteZeroes { offset, length, fua: false, deallocate: false }
            } else {
                return Err(Err(libc::EOPNOTSUPP));
            };
            Ok((request, Kind::Other))
        }
        _ => Err(Err(libc::ENOSYS)),
    }
}

/// The error number that makes the block layer see what the NVMe driver would
/// have reported (`nvme_error_status` in drivers/nvme/host/core.c and
/// `blk_errors` in block/blk-core.c).
pub(crate) fn errno_of(status: Status) -> i32 {
    match status {
        Status::CAPACITY_EXCEEDED => libc::ENOSPC,
        Status::LBA_OUT_OF_RANGE | Status::COMMAND_INTERRUPTED => libc::EREMOTEIO,
        Status::INVALID_OPCODE | Status::INVALID_FIELD | Status::INVALID_NAMESPACE => libc::EOPNOTSUPP,
        Status::WRITE_FAULT | Status::UNRECOVERED_READ | Status::NAMESPACE_WRITE_PROTECTED => libc::ENODATA,
        _ => libc::EIO,
    }
}
