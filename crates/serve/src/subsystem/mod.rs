//! The NVM subsystem behind NVMe over Fabrics: controllers, admin commands,
//! discovery and authentication, without a socket, a clock or a device.
//!
//! A transport tells the [`Subsystem`] which connections come and go and gives it
//! the commands of their capsules; the subsystem answers, or says what to ask of
//! the device. Section numbers are those of the NVM Express Base Specification
//! 2.0c ("Base"), the NVM Command Set Specification 1.0c ("NVM") and the Zoned
//! Namespace Command Set Specification 1.1 ("ZNS").
//!
//! # How a transport drives it
//!
//! 1. [`connection_opened`](Subsystem::connection_opened) for each new connection.
//! 2. For each command capsule: [`transfer`](Subsystem::transfer) says which way its
//!    data goes and how much of it there is. When a host's data has come,
//!    [`capsule`](Subsystem::capsule) takes the command. Where the transport itself
//!    ends a command (a bad SGL, a bad data digest), [`failed`](Subsystem::failed)
//!    makes the answer, so that the queue's head and the error log stay right.
//! 3. A [`Reaction::Submit`] goes to the device; what comes of it goes to
//!    [`device_done`](Subsystem::device_done), which may ask for another request
//!    (Compare reads first; FUA on a device without it flushes afterwards).
//! 4. After each round, and when [`deadline`](Subsystem::deadline) has passed:
//!    [`poll`](Subsystem::poll), whose events answer held commands and close
//!    connections.
//! 5. [`closed`](Subsystem::closed) once for each connection that has ended,
//!    whoever ended it. Device requests of it that are still under way are
//!    forgotten; telling of their end is harmless.

mod config;

use nvme::{CommandId, CompletionEntry, CompletionStatus, NamespaceId, QueueId, Status, SubmissionEntry};
use std::net::SocketAddr;
use units::Nanos;

use crate::backend::Request;

pub use config::{Entropy, SubsystemConfig, SubsystemError};

/// A transport connection: the transport's own number for it, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// A request to the device, from [`Reaction::Submit`] until
/// [`Subsystem::device_done`].
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
    /// Connect (Base 3.3.1.2), which makes the field reserved.
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
    /// The answer comes out of a later [`Subsystem::poll`], if ever (Asynchronous
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
}

/// What [`Subsystem::poll`] asks of the transport.
#[derive(Debug)]
pub enum Event {
    /// A held command is complete.
    Answer(ConnectionId, Answer),
    /// Close the connection, and say so with [`Subsystem::closed`].
    Close(ConnectionId, CloseReason),
    /// The device is to do this.
    Submit(DeviceRequest),
}

/// One NVM subsystem with its controllers and its discovery service.
pub struct Subsystem {
    config: SubsystemConfig,
}

impl Subsystem {
    /// A subsystem that shows the device `identity` describes.
    ///
    /// # Errors
    ///
    /// When the configuration or the device has no form in NVMe's structures.
    pub fn new(
        config: SubsystemConfig,
        identity: &ssd::Identity,
        entropy: Box<dyn Entropy>,
    ) -> Result<Self, SubsystemError> {
        let _ = (identity, entropy);
        Ok(Self { config })
    }

    /// Largest transfer of one command in bytes (MDTS): the transport needs to
    /// buffer no more for a command.
    pub fn max_transfer_bytes(&self) -> u32 {
        self.config.max_transfer_bytes
    }

    /// A connection has been accepted on the local address `local`.
    pub fn connection_opened(&mut self, now: Nanos, id: ConnectionId, local: SocketAddr) {
        let _ = (now, id, local);
    }

    /// Commands that the host may have outstanding on a connection: the size of
    /// its submission queue, 1 before Connect. A host with more breaks the
    /// transport's rules.
    pub fn queue_depth(&self, id: ConnectionId) -> u32 {
        let _ = id;
        1
    }

    /// Which way a command's data goes, and how much. Never more than
    /// [`max_transfer_bytes`](Self::max_transfer_bytes) from the host: a command
    /// that asks for more transfers nothing, and [`capsule`](Self::capsule) refuses it.
    pub fn transfer(&self, id: ConnectionId, entry: &SubmissionEntry) -> Transfer {
        let _ = (id, entry);
        Transfer::None
    }

    /// Takes a command with the data that came with it.
    pub fn capsule(&mut self, now: Nanos, id: ConnectionId, entry: &SubmissionEntry, data: Box<[u8]>) -> Reaction {
        let _ = (now, data);
        Reaction::Complete(self.failed(now, id, entry, Status::INVALID_OPCODE))
    }

    /// The answer to a command that the transport ends with `status`.
    pub fn failed(&mut self, now: Nanos, id: ConnectionId, entry: &SubmissionEntry, status: Status) -> Answer {
        let _ = (now, id);
        let (queue, cid) = (QueueId(0), entry.command_id());
        Answer { queue, cid, dw0: 0, dw1: 0, sqhd: None, status: status.into(), data: Box::default(), close: false }
    }

    /// A device request has ended: with a read's bytes or a report (empty for
    /// other requests), or the failure; and the completion's command specific
    /// result. The reaction belongs to the connection returned with it; there is
    /// none where that has gone, or where the request was the subsystem's own.
    pub fn device_done(
        &mut self,
        now: Nanos,
        token: Token,
        result: Result<Box<[u8]>, Status>,
        value: u64,
    ) -> Option<(ConnectionId, Reaction)> {
        let _ = (now, token, result, value);
        None
    }

    /// Appends what is due at or before `now`.
    pub fn poll(&mut self, now: Nanos, events: &mut Vec<Event>) {
        let _ = (now, events);
    }

    /// When [`poll`](Self::poll) next has something to do although nothing has happened.
    pub fn deadline(&self) -> Option<Nanos> {
        None
    }

    /// A connection has ended.
    pub fn closed(&mut self, now: Nanos, id: ConnectionId) {
        let _ = (now, id);
    }

    /// The device has lost its power: its requests under way end with `token`s
    /// that nobody will hear of again. Their commands are answered by `events`
    /// of the next [`poll`](Self::poll).
    pub fn power_lost(&mut self, now: Nanos) {
        let _ = now;
    }

    /// The device has its power back.
    pub fn power_restored(&mut self, now: Nanos) {
        let _ = now;
    }

    /// Zones changed without a host's command (a zone went read-only or offline,
    /// or was finished): hosts that enabled the event are told (ZNS 4.1.4.1).
    pub fn zones_changed(&mut self, now: Nanos, nsid: NamespaceId, zones: &[nvme::Lba]) {
        let _ = (now, nsid, zones);
    }
}
