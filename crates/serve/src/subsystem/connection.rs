//! One transport connection, and the queue that its Connect command created.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use nvme::{CommandId, QueueId};
use units::Nanos;

use super::authentication::Session;
use super::{CloseReason, ConnectionId, Event, Standing, Subsystem};

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

impl Subsystem {
    /// A connection has ended. With its admin connection a controller ends, and all
    /// of its I/O queues (Base 3.3.2.4).
    pub fn closed(&mut self, now: Nanos, id: ConnectionId) {
        let _ = now;
        let Some(queue) = self.connections.remove(&id).and_then(|connection| connection.queue) else { return };
        if queue.id != QueueId(0) {
            if let Some(controller) = self.controllers.get_mut(&queue.cntlid)
                && controller.io_queues.get(&queue.id) == Some(&id)
            {
                controller.io_queues.remove(&queue.id);
                if controller.io_queues.is_empty() {
                    self.close_streams(queue.cntlid);
                }
            }
            return;
        }
        // One that had to make room is gone already, and its identifier may be another's.
        if self.controllers.get(&queue.cntlid).is_none_or(|controller| controller.admin != id) {
            return;
        }
        self.controllers.remove(&queue.cntlid);
        self.close_streams(queue.cntlid);
        for connection in self.queue_connections(queue.cntlid) {
            self.close(connection, CloseReason::AdminQueueClosed);
        }
    }

    /// The connections of a controller's I/O queues, those included that have still to authenticate.
    pub(super) fn queue_connections(&self, cntlid: u16) -> Vec<ConnectionId> {
        let of_it = |connection: &Connection| {
            connection.queue.as_ref().is_some_and(|queue| queue.cntlid == cntlid && queue.id != QueueId(0))
        };
        self.connections.iter().filter(|(_, connection)| of_it(connection)).map(|(id, _)| *id).collect()
    }

    /// How far a connection has come.
    pub fn standing(&self, id: ConnectionId) -> Standing {
        let Some(queue) = self.connections.get(&id).and_then(|connection| connection.queue.as_ref()) else {
            return Standing::Fresh;
        };
        match self.controllers.get(&queue.cntlid) {
            _ if !queue.is_authenticated() => Standing::Unauthenticated,
            Some(controller) if controller.is_ready() && !controller.is_discovery() => Standing::Established,
            _ => Standing::Idle,
        }
    }

    /// Asks the transport to close a connection.
    pub(super) fn close(&mut self, id: ConnectionId, reason: CloseReason) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.closing
        {
            connection.closing = true;
            self.events.push(Event::Close(id, reason));
        }
    }
}
