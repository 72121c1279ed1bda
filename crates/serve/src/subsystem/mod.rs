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

mod admin;
mod authentication;
mod config;
mod connect;
mod connection;
mod controller;
mod events;
mod execution;
mod facts;
mod features;
mod health;
mod identifiers;
mod interface;
mod io;
mod notices;
mod streams;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nvme::{Command, CommandId, QueueId, Status, SubmissionEntry};
use units::Nanos;

use self::connection::Connection;
use self::controller::Controller;
use self::execution::{Completion, Failure, status_field};
use self::facts::Facts;
use self::health::Health;
use self::io::Then;
use self::streams::{StreamUse, Streams};
use crate::backend::Request;

pub use self::authentication::{HostCredentials, Secret, SecretError};
pub use self::config::{Entropy, SubsystemConfig, SubsystemError};
pub use self::identifiers::Identifiers;
pub use self::interface::{
    Answer, CloseReason, ConnectionId, DeviceRequest, Event, Reaction, Standing, Token, Transfer,
};

/// How a command goes on.
enum Step {
    Complete(Completion),
    Submit(DeviceRequest),
    Held,
}

/// What a device request is for.
enum Purpose {
    /// A host's command.
    Command {
        connection: ConnectionId,
        entry: SubmissionEntry,
        then: Then,
        /// The result of the write, where this is the flush behind it.
        write: Option<u64>,
        streams: StreamUse,
    },
    /// A stream is closed whose controller is gone.
    CloseStream(StreamUse),
    /// The flush of a controller's shutdown.
    Shutdown { cntlid: u16 },
}

/// One NVM subsystem with its controllers and its discovery service.
pub struct Subsystem {
    config: SubsystemConfig,
    facts: Facts,
    entropy: Box<dyn Entropy>,
    connections: BTreeMap<ConnectionId, Connection>,
    controllers: BTreeMap<u16, Controller>,
    last_cntlid: u16,
    requests: BTreeMap<Token, Purpose>,
    streams: Streams,
    next_token: u64,
    /// For the next poll.
    events: Vec<Event>,
    health: Health,
    powered: bool,
    /// The discovery log's Generation Counter.
    generation: u64,
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
        for (index, credentials) in config.credentials.iter().enumerate() {
            if config.credentials[..index].iter().any(|other| other.host() == credentials.host()) {
                return Err(SecretError::Twice { host: credentials.host().to_owned() }.into());
            }
        }
        let facts = Facts::new(&config, identity)?;
        Ok(Self {
            config,
            facts,
            entropy,
            connections: BTreeMap::new(),
            controllers: BTreeMap::new(),
            last_cntlid: 0,
            requests: BTreeMap::new(),
            streams: Streams::default(),
            next_token: 0,
            events: Vec::new(),
            health: Health::new(),
            powered: true,
            generation: 1,
        })
    }

    /// Largest transfer of one command in bytes (MDTS): the transport needs to
    /// buffer no more for a command.
    pub fn max_transfer_bytes(&self) -> u32 {
        self.facts.max_transfer_bytes
    }

    /// A connection has been accepted on the local address `local`.
    pub fn connection_opened(&mut self, now: Nanos, id: ConnectionId, local: SocketAddr) {
        self.connections.insert(id, Connection::new(local, now + self.config.connect_timeout));
    }

    /// Commands that the host may have outstanding on a connection: the size of
    /// its submission queue, 1 before Connect. A host with more breaks the
    /// transport's rules.
    pub fn queue_depth(&self, id: ConnectionId) -> u32 {
        let queue = self.connections.get(&id).and_then(|connection| connection.queue.as_ref());
        queue.map_or(1, |queue| queue.entries)
    }

    /// Which way a command's data goes, and how much. Never more than
    /// [`max_transfer_bytes`](Self::max_transfer_bytes) from the host: a command
    /// that asks for more, or that will be refused anyhow, transfers nothing.
    pub fn transfer(&self, id: ConnectionId, entry: &SubmissionEntry) -> Transfer {
        let Some(connection) = self.connections.get(&id).filter(|connection| !connection.closing) else {
            return Transfer::None;
        };
        let Some(queue) = &connection.queue else {
            return match Self::is_fabrics(entry) {
                true => connect::transfer(entry, 0),
                false => Transfer::None,
            };
        };
        if Self::is_fabrics(entry) {
            return connect::transfer(entry, self.facts.max_transfer_bytes);
        }
        let ready = self.controllers.get(&queue.cntlid).is_some_and(Controller::is_ready);
        if !queue.is_authenticated() || !ready {
            return Transfer::None;
        }
        match queue.id {
            QueueId(0) => admin::transfer(entry, self.facts.max_transfer_bytes),
            _ => io::transfer(&self.facts, entry),
        }
    }

    /// Takes a command with the data that came with it.
    pub fn capsule(&mut self, now: Nanos, id: ConnectionId, entry: &SubmissionEntry, data: Box<[u8]>) -> Reaction {
        let (queue, fresh) = self.fetch(now, id, entry);
        let cid = entry.command_id();
        let step = match fresh {
            true => self.execute(now, id, entry, data),
            // Two commands of one identifier; which one an answer is for, nobody can
            // tell, so the first one's stays outstanding.
            false => {
                let failure = Err(Status::COMMAND_ID_CONFLICT.into());
                return Reaction::Complete(self.build_answer(id, queue, cid, failure));
            }
        };
        match step {
            Ok(Step::Submit(request)) => {
                self.health.began(now);
                Reaction::Submit(request)
            }
            Ok(Step::Held) => Reaction::Held,
            Ok(Step::Complete(completion)) => {
                let connected = queue.is_none().then(|| self.queue_of(id)).flatten();
                let mut answer = self.answer(id, connected.or(queue).unwrap_or(QueueId(0)), cid, Ok(completion));
                if connected.is_some() {
                    answer.sqhd.get_or_insert(u16::MAX);
                }
                Reaction::Complete(answer)
            }
            Err(failure) => {
                self.log_failure(id, entry, failure.status);
                self.break_streams(id, entry);
                Reaction::Complete(self.answer(id, queue.unwrap_or(QueueId(0)), cid, Err(failure)))
            }
        }
    }

    /// The answer to a command that the transport ends with `status`.
    pub fn failed(&mut self, now: Nanos, id: ConnectionId, entry: &SubmissionEntry, status: Status) -> Answer {
        let (queue, fresh) = self.fetch(now, id, entry);
        self.log_failure(id, entry, status);
        self.break_streams(id, entry);
        let (queue, cid) = (queue.unwrap_or(QueueId(0)), entry.command_id());
        match fresh {
            true => self.answer(id, queue, cid, Err(status.into())),
            false => self.build_answer(id, Some(queue), cid, Err(status.into())),
        }
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
        let (id, entry, then, write) = match self.requests.remove(&token)? {
            Purpose::Command { connection, entry, then, write, streams } => {
                self.streams.end(&streams, result.is_ok());
                (connection, entry, then, write)
            }
            Purpose::CloseStream(streams) => {
                self.streams.end(&streams, result.is_ok());
                return None;
            }
            Purpose::Shutdown { cntlid } => {
                self.shutdown_done(cntlid, result.is_ok());
                return None;
            }
        };
        let alive = self.connections.get(&id).filter(|connection| !connection.closing);
        let Some(queue) = alive.and_then(|connection| connection.queue.as_ref()) else {
            self.health.ended(now);
            return None;
        };
        let (queue_id, cid) = (queue.id, entry.command_id());
        let data = match result {
            Ok(data) => data,
            Err(status) => {
                self.health.ended(now);
                self.health.failed(status);
                self.log_failure(id, &entry, status);
                return Some((id, Reaction::Complete(self.answer(id, queue_id, cid, Err(status.into())))));
            }
        };
        let completion = match then {
            Then::Flush { nsid, written_bytes } => {
                let then = Then::Written { bytes: written_bytes };
                let streams = StreamUse::default();
                let purpose = Purpose::Command { connection: id, entry, then, write: Some(value), streams };
                let index = usize::from(queue_id.0.saturating_sub(1));
                let request = self.device_request(index, Command::Flush { nsid }, None, purpose);
                return Some((id, Reaction::Submit(request)));
            }
            Then::Written { bytes } => {
                if bytes > 0 {
                    self.health.wrote(bytes.into());
                }
                Ok(Completion::value(write.unwrap_or(value)))
            }
            Then::Complete { bytes: 0 } => Ok(Completion::value(value)),
            Then::Complete { bytes } => {
                if entry.opc == nvme::IoOpcode::Read as u8 {
                    self.health.read(bytes.into());
                }
                // Devices without contents read as zeroes, and reports end early.
                let mut data = data.into_vec();
                data.resize(bytes as usize, 0);
                Ok(Completion { data, ..Completion::value(value) })
            }
            Then::Compare { data: wanted } => {
                self.health.read(wanted.len() as u64);
                // Devices without contents read as zeroes.
                let mut read = data.into_vec();
                read.resize(wanted.len(), 0);
                match *read == *wanted {
                    true => Ok(Completion::default()),
                    false => Err(Failure::from(Status::COMPARE_FAILURE)),
                }
            }
        };
        self.health.ended(now);
        if let Err(failure) = &completion {
            self.log_failure(id, &entry, failure.status);
        }
        Some((id, Reaction::Complete(self.answer(id, queue_id, cid, completion))))
    }

    /// Appends what is due at or before `now`.
    pub fn poll(&mut self, now: Nanos, events: &mut Vec<Event>) {
        let late = |connection: &Connection| connection.deadline.is_some_and(|deadline| deadline <= now);
        let late = self.connections.iter().filter(|(_, connection)| !connection.closing && late(connection));
        let late = late.map(|(id, connection)| (*id, connection.queue.is_some())).collect::<Vec<_>>();
        for (id, connected) in late {
            self.close(id, if connected { CloseReason::Authentication } else { CloseReason::ConnectTimeout });
        }
        let silent = |controller: &Controller| controller.expires_at().is_some_and(|at| at <= now);
        let silent = self.controllers.iter().filter(|(_, controller)| silent(controller) && !controller.status.fatal);
        for cntlid in silent.map(|(cntlid, _)| *cntlid).collect::<Vec<_>>() {
            self.give_up(cntlid);
        }
        self.tell_events();
        events.append(&mut self.events);
    }

    /// When [`poll`](Self::poll) next has something to do although nothing has happened.
    pub fn deadline(&self) -> Option<Nanos> {
        if !self.events.is_empty() {
            return Some(Nanos::ZERO);
        }
        let connections = self.connections.values().filter(|connection| !connection.closing);
        let controllers = self.controllers.values().filter(|controller| !controller.status.fatal);
        let deadlines = connections.filter_map(|connection| connection.deadline);
        deadlines.chain(controllers.filter_map(Controller::expires_at)).min()
    }

    /// Notes that a command has come: which queue it is of, and whether its
    /// identifier was free.
    fn fetch(&mut self, now: Nanos, id: ConnectionId, entry: &SubmissionEntry) -> (Option<QueueId>, bool) {
        let Some(connection) = self.connections.get_mut(&id) else { return (None, true) };
        let fresh = connection.outstanding.insert(entry.command_id());
        let Some(queue) = &mut connection.queue else { return (None, fresh) };
        queue.fetched();
        if let Some(controller) = self.controllers.get_mut(&queue.cntlid) {
            controller.heard_at = now;
        }
        (Some(queue.id), fresh)
    }

    fn execute(
        &mut self,
        now: Nanos,
        id: ConnectionId,
        entry: &SubmissionEntry,
        data: Box<[u8]>,
    ) -> Result<Step, Failure> {
        let connection = self.connections.get(&id).ok_or(Status::ABORTED_SQ_DELETION)?;
        if connection.closing {
            return Err(Status::ABORTED_SQ_DELETION.into());
        }
        if Self::is_fabrics(entry) {
            return self.fabrics(now, id, entry, &data);
        }
        // Connect comes first on every queue (Base 3.3.2.1), then authentication.
        let queue = connection.queue.as_ref().ok_or(Status::COMMAND_SEQUENCE_ERROR)?;
        if !queue.is_authenticated() {
            return Err(Status::AUTHENTICATION_REQUIRED.into());
        }
        let (cntlid, queue) = (queue.cntlid, queue.id);
        if queue == QueueId(0) {
            return self.admin(now, id, cntlid, entry);
        }
        let controller = self.controllers.get(&cntlid).ok_or(Status::ABORTED_SQ_DELETION)?;
        if !controller.is_ready() {
            return Err(Status::COMMAND_SEQUENCE_ERROR.into());
        }
        let mut plan = io::plan(&self.facts, controller.all_command_sets(), entry, data)?;
        let streams = match self.facts.identity.ordering {
            Some(_) => self.streams.begin(cntlid, &mut plan.command)?,
            None => StreamUse::default(),
        };
        let purpose = Purpose::Command { connection: id, entry: *entry, then: plan.then, write: None, streams };
        let index = usize::from(queue.0.saturating_sub(1));
        Ok(Step::Submit(self.device_request(index, plan.command, plan.data, purpose)))
    }

    fn device_request(
        &mut self,
        queue: usize,
        command: Command,
        data: Option<Box<[u8]>>,
        purpose: Purpose,
    ) -> DeviceRequest {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.requests.insert(token, purpose);
        DeviceRequest { token, queue, nsid: command.nsid(), request: Request::Command { command, data } }
    }

    fn queue_of(&self, id: ConnectionId) -> Option<QueueId> {
        self.connections.get(&id)?.queue.as_ref().map(|queue| queue.id)
    }

    /// The answer to a command, whose identifier is free from here on.
    fn answer(
        &mut self,
        id: ConnectionId,
        queue: QueueId,
        cid: CommandId,
        result: Result<Completion, Failure>,
    ) -> Answer {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.outstanding.remove(&cid);
        }
        self.build_answer(id, Some(queue), cid, result)
    }

    fn build_answer(
        &self,
        id: ConnectionId,
        queue: Option<QueueId>,
        cid: CommandId,
        result: Result<Completion, Failure>,
    ) -> Answer {
        let connected = self.connections.get(&id).and_then(|connection| connection.queue.as_ref());
        // Before Connect there is no queue, and its head is 0.
        let sqhd = connected.map_or(Some(0), connection::Queue::sqhd);
        let queue = queue.unwrap_or(QueueId(0));
        match result {
            Ok(Completion { dw0, dw1, data, close }) => {
                Answer { queue, cid, dw0, dw1, sqhd, status: status_field(Status::SUCCESS), data: data.into(), close }
            }
            Err(Failure { status, dw0 }) => {
                let status = status_field(status);
                Answer { queue, cid, dw0, dw1: 0, sqhd, status, data: Box::default(), close: false }
            }
        }
    }

    /// Adds a failed command to its controller's Error Information log.
    fn log_failure(&mut self, id: ConnectionId, entry: &SubmissionEntry, status: Status) {
        let queue = self.connections.get(&id).and_then(|connection| connection.queue.as_ref());
        let Some((cntlid, queue)) = queue.map(|queue| (queue.cntlid, queue.id)) else { return };
        if let Some(controller) = self.controllers.get_mut(&cntlid) {
            controller.errors.add(queue, entry, status_field(status));
        }
    }
}
