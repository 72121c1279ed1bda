//! One transport connection, and the queue that its Connect command created.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use nvme::{CommandId, QueueId};
use units::Nanos;

use super::authentication::Session;

/// A transport connection.
pub(super) struct Connection {
    /// The address that the host connected to.
    pub(super) local: SocketAddr,
    /// When it is closed unless it has connected, or authenticated.
    pub(super) deadline: Option<Nanos>,
    pub(super) queue: Option<Queue>,
    /// Commands without an answer.
    pub(super) outstanding: BTreeSet<CommandId>,
    /// It was said that it is to be closed.
    pub(super) closing: bool,
}

/// A queue over a connection.
pub(super) struct Queue {
    pub(super) cntlid: u16,
    pub(super) id: QueueId,
    pub(super) entries: u32,
    /// SQ Head Pointer.
    head: u32,
    pub(super) flow_control: bool,
    /// What of authentication there is; `None` where the host has no need of it.
    pub(super) session: Option<Session>,
}

impl Connection {
    pub(super) fn new(local: SocketAddr, deadline: Nanos) -> Self {
        Self { local, deadline: Some(deadline), queue: None, outstanding: BTreeSet::new(), closing: false }
    }
}

impl Queue {
    /// The queue of a Connect command, which is its first entry.
    pub(super) fn new(cntlid: u16, id: QueueId, entries: u32, flow_control: bool, session: Option<Session>) -> Self {
        Self { cntlid, id, entries, head: 1 % entries.max(1), flow_control, session }
    }

    /// A command was taken from the queue.
    pub(super) fn fetched(&mut self) {
        self.head = (self.head + 1) % self.entries.max(1);
    }

    /// SQ Head Pointer for a completion; `None` without flow control.
    pub(super) fn sqhd(&self) -> Option<u16> {
        self.flow_control.then_some(self.head as u16)
    }

    /// Whether the host has authenticated, or need not.
    pub(super) fn is_authenticated(&self) -> bool {
        self.session.as_ref().is_none_or(Session::is_authenticated)
    }
}
