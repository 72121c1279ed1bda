//! What a transport and the subsystem tell each other.

use nvme::{CommandId, CompletionEntry, CompletionStatus, NamespaceId, QueueId, WriteOrder};

use crate::backend::Request;

/// A transport connection: the transport's own number for it, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// A request to the device, from [`Reaction::Submit`] until
/// [`Subsystem::device_done`](super::Subsystem::device_done).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// The data that goes with a command, by what the command itself says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// None.
    None,
    /// The host sends `bytes` bytes. A longer SGL is no error: hosts send whole
    /// pages of Dataset Management ranges.
    HostToController {
        /// Bytes that the command needs.
        bytes: u32,
    },
    /// The controller sends at most `bytes` bytes.
    ControllerToHost {
        /// Most bytes of an answer's data.
        bytes: u32,
    },
}

/// A command's completion and its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The queue the command came from (0: admin).
    pub queue: QueueId,
    /// The command.
    pub cid: CommandId,
    /// Command specific, Dword 0.
    pub dw0: u32,
    /// Command specific, Dword 1.
    pub dw1: u32,
    /// SQ Head Pointer; `None` where the host disabled SQ flow control in its
    /// Connect (Base 3.3.1.2), which makes the field reserved. The answer to that
    /// Connect itself has FFFFh there (Base 6.3).
    pub sqhd: Option<u16>,
    /// How the command ended.
    pub status: CompletionStatus,
    /// Data for the host; empty on failure and for most commands.
    pub data: Box<[u8]>,
    /// Whether the connection is to be closed once the answer has gone out.
    pub close: bool,
}

impl Answer {
    /// The completion queue entry of the response capsule.
    pub fn entry(&self) -> CompletionEntry {
        let mut entry = CompletionEntry::new(self.queue, self.cid, self.sqhd.unwrap_or(0), self.status);
        entry.dw0 = self.dw0.into();
        entry.dw1 = self.dw1.into();
        entry
    }
}

/// A request that the device is to carry out.
#[derive(Debug)]
pub struct DeviceRequest {
    /// To be given back with the outcome.
    pub token: Token,
    /// The queue to submit on: 0 for the first I/O queue. Taken modulo the
    /// device's queues.
    pub queue: usize,
    /// The namespace.
    pub nsid: NamespaceId,
    /// What to do.
    pub request: Request,
}

/// What comes of a command, or of a device request's end.
#[derive(Debug)]
pub enum Reaction {
    /// The command is complete.
    Complete(Answer),
    /// The device is to do this first.
    Submit(DeviceRequest),
    /// The answer comes out of a later [`Subsystem::poll`](super::Subsystem::poll), if ever (Asynchronous
    /// Event Request).
    Held,
}

/// Why a connection is to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// The host sent no Keep Alive within its timeout (Base 3.9).
    KeepAliveExpired,
    /// The controller was reset or shut down (Base 3.7.2): its I/O queues go.
    ControllerReset,
    /// The controller's admin connection has gone: its I/O queues go.
    AdminQueueClosed,
    /// No Connect command came in time.
    ConnectTimeout,
    /// Authentication failed or took too long.
    Authentication,
    /// All controllers were taken, and this host did the least with its own.
    MadeRoom,
}

/// How far a connection has come, and with it the host behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Standing {
    /// Connect has not come.
    Fresh,
    /// The host has to authenticate and has not.
    Unauthenticated,
    /// It asks the discovery service, or has a controller that is not enabled.
    Idle,
    /// It has a controller that is enabled.
    Established,
}

/// What [`Subsystem::poll`](super::Subsystem::poll) asks of the transport.
#[derive(Debug)]
pub enum Event {
    /// A held command is complete.
    Answer(ConnectionId, Answer),
    /// Close the connection, and say so with [`Subsystem::closed`](super::Subsystem::closed).
    Close(ConnectionId, CloseReason),
    /// The device is to do this.
    Submit(DeviceRequest),
    /// A write of these streams of the device failed before the device saw it: the device is to keep their order no more
    /// ([`ssd::Device::break_streams`]).
    BreakStreams(WriteOrder),
    /// The operator is to know this of a host; names in it are fit for a log.
    Notice(ConnectionId, String),
}
