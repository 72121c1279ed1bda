//! Commands inside the device.

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status, WriteCommand, WriteOrder};
use trace::RequestId;
use units::Nanos;

use super::admission::Request;
use crate::{Payload, Submission};

/// What a command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opcode {
    Flush,
    Read,
    Write,
    WriteZeroes,
    Deallocate,
    /// Stream Management.
    Streams,
    /// A command of another command set: refused.
    Foreign,
}

/// A command from submission to completion.
pub(super) struct Cmd {
    pub queue: QueueId,
    pub cid: CommandId,
    pub request: RequestId,
    pub opcode: Opcode,
    pub fua: bool,
    /// Whether the firmware work before it, or the flush before a FUA read, is done.
    pub prepared: bool,
    pub status: Status,
    pub nsid: NamespaceId,
    pub range: LbaRange,
    /// First logical unit touched, through the whole device.
    pub unit: u32,
    /// Logical units touched.
    pub units: u32,
    /// Read: units outstanding. Write: slots reserved, then FUA slots not
    /// settled. Flush: the interval it waits for.
    pub left: u32,
    /// Read: bytes still to cross the link.
    pub bytes_left: u64,
    /// When the present wait began.
    pub since: Nanos,
    pub data: Payload,
    pub ranges: Option<Box<[LbaRange]>>,
    /// What it asks of streams.
    pub order: Option<Box<Request>>,
}

impl Cmd {
    pub fn new(submission: Submission) -> Self {
        let Submission { queue, cid, command, data, request } = submission;
        let nsid = command.nsid();
        let order = match &command {
            Command::Write(WriteCommand { order, range, .. }) if *order != WriteOrder::NONE => {
                Some(Request::Write { order: *order, places: [None, None], blocks: range.count.into() })
            }
            Command::StreamManagement { stream, action, .. } => {
                Some(Request::Manage { stream: *stream, action: *action })
            }
            _ => None,
        };
        let nothing = LbaRange { start: Lba(0), count: 0 };
        let (opcode, range, fua, ranges) = match command {
            Command::Flush { .. } => (Opcode::Flush, nothing, false, None),
            Command::Read { range, fua, .. } => (Opcode::Read, range, fua, None),
            Command::Write(WriteCommand { range, fua, .. }) => (Opcode::Write, range, fua, None),
            Command::WriteZeroes { range, fua, .. } => (Opcode::WriteZeroes, range, fua, None),
            Command::Deallocate { ranges, .. } => (Opcode::Deallocate, nothing, false, Some(ranges)),
            Command::ZoneAppend { .. } | Command::ZoneManagementSend { .. } | Command::ZoneManagementReceive { .. } => {
                (Opcode::Foreign, nothing, false, None)
            }
            Command::StreamManagement { .. } => (Opcode::Streams, nothing, false, None),
        };
        let status = Status::SUCCESS;
        let since = Nanos::ZERO;
        Self {
            queue,
            cid,
            request,
            opcode,
            fua,
            prepared: false,
            status,
            nsid,
            range,
            unit: 0,
            units: 0,
            left: 0,
            bytes_left: 0,
            since,
            data,
            ranges,
            order: order.map(Box::new),
        }
    }
}
