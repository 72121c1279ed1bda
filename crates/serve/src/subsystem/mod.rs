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
mod io;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nvme::{
    AsynchronousEvent, Command, CommandId, CompletionEntry, CompletionStatus, CriticalWarning, Lba, NamespaceId,
    QueueId, ShutdownStatus, Status, SubmissionEntry,
};
use units::Nanos;

use self::connection::Connection;
use self::controller::{Controller, Kind};
use self::execution::{Completion, Failure, status_field};
use self::facts::Facts;
use self::health::Health;
use self::io::Then;
use crate::backend::Request;

pub use self::authentication::{HostCredentials, Secret, SecretError};
pub use self::config::{Entropy, SubsystemConfig, SubsystemError};
pub use self::identifiers::Identifiers;

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
    },
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
                Reaction::Complete(self.answer(id, queue.unwrap_or(QueueId(0)), cid, Err(failure)))
            }
        }
    }

    /// The answer to a command that the transport ends with `status`.
    pub fn failed(&mut self, now: Nanos, id: ConnectionId, entry: &SubmissionEntry, status: Status) -> Answer {
        let (queue, fresh) = self.fetch(now, id, entry);
        self.log_failure(id, entry, status);
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
        let purpose = self.requests.remove(&token)?;
        let Purpose::Command { connection: id, entry, then, write } = purpose else {
            if let Purpose::Shutdown { cntlid } = purpose {
                self.shutdown_done(cntlid, result.is_ok());
            }
            return None;
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
                let purpose = Purpose::Command { connection: id, entry, then, write: Some(value) };
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
                let zeroes = data.is_empty() && wanted.iter().all(|byte| *byte == 0);
                match zeroes || data.get(..) == wanted.get(..data.len().min(wanted.len())) && !data.is_empty() {
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
            }
            return;
        }
        let Some(controller) = self.controllers.remove(&queue.cntlid) else { return };
        for connection in controller.io_queues.into_values() {
            self.close(connection, CloseReason::AdminQueueClosed);
        }
    }

    /// The device has lost its power: nobody will hear again of its requests under
    /// way. Their commands are answered, by the next [`poll`](Self::poll), with
    /// Commands Aborted due to Power Loss Notification.
    pub fn power_lost(&mut self, now: Nanos) {
        self.powered = false;
        let shut_down = |controller: &Controller| controller.status.shutdown == ShutdownStatus::Complete;
        let io = self.controllers.values().filter(|controller| controller.kind == Kind::Io);
        self.health.power_lost(io.fold(true, |all, controller| all && shut_down(controller)));
        for purpose in std::mem::take(&mut self.requests).into_values() {
            match purpose {
                Purpose::Shutdown { cntlid } => self.shutdown_done(cntlid, false),
                Purpose::Command { connection: id, entry, .. } => {
                    self.health.ended(now);
                    let alive = self.connections.get(&id).is_some_and(|connection| !connection.closing);
                    if let Some(queue) = self.queue_of(id).filter(|_| alive) {
                        let status = Status::ABORTED_POWER_LOSS;
                        self.log_failure(id, &entry, status);
                        let answer = self.answer(id, queue, entry.command_id(), Err(status.into()));
                        self.events.push(Event::Answer(id, answer));
                    }
                }
            }
        }
    }

    /// The device has its power back.
    pub fn power_restored(&mut self, now: Nanos) {
        let _ = now;
        self.powered = true;
        self.health.power_restored();
    }

    /// Zones changed without a host's command (a zone went read-only or offline,
    /// or was finished): hosts that enabled the event are told (ZNS 4.1.4.1).
    pub fn zones_changed(&mut self, now: Nanos, nsid: NamespaceId, zones: &[Lba]) {
        let _ = now;
        if self.facts.identity.zoned.is_none() || self.facts.blocks(nsid).is_none() || zones.is_empty() {
            return;
        }
        for controller in self.io_controllers() {
            controller.events.zones_changed(nsid, zones);
            controller.happened(AsynchronousEvent::ZONE_CHANGED);
        }
    }

    /// A namespace's attributes changed (Base 5.16.1.5).
    pub fn namespace_changed(&mut self, now: Nanos, nsid: NamespaceId) {
        let _ = now;
        if self.facts.blocks(nsid).is_none() {
            return;
        }
        for controller in self.io_controllers() {
            controller.events.namespace_changed(nsid);
            controller.happened(AsynchronousEvent::NAMESPACE_CHANGED);
        }
    }

    /// SMART's Critical Warning is now `warning`; hosts that enabled the event of a
    /// bit that has come are told.
    pub fn set_critical_warning(&mut self, now: Nanos, warning: CriticalWarning) {
        let _ = now;
        let new = warning.difference(self.health.warning);
        self.health.warning = warning;
        for controller in self.io_controllers() {
            let told = [
                (CriticalWarning::SPARE, AsynchronousEvent::SPARE),
                (CriticalWarning::TEMPERATURE, AsynchronousEvent::TEMPERATURE),
                (CriticalWarning::RELIABILITY, AsynchronousEvent::RELIABILITY),
                (CriticalWarning::READ_ONLY, AsynchronousEvent::RELIABILITY),
                (CriticalWarning::VOLATILE_MEMORY_BACKUP, AsynchronousEvent::RELIABILITY),
            ];
            for (_, event) in told.into_iter().filter(|(bit, _)| new.contains(*bit)) {
                controller.happened(event);
            }
        }
    }

    /// The device can no longer be used: every I/O controller has Controller Fatal
    /// Status, and takes nothing but properties until it is reset (Base 9.5).
    pub fn fail(&mut self, now: Nanos) {
        let _ = now;
        for controller in self.io_controllers() {
            controller.status.fatal = true;
            controller.happened(AsynchronousEvent::PERSISTENT_INTERNAL_ERROR);
        }
    }

    /// Changes which hosts may connect; discovery controllers tell theirs that the
    /// log page has changed. Hosts that are connected stay.
    pub fn set_allowed_hosts(&mut self, now: Nanos, hosts: Vec<String>) {
        let _ = now;
        self.config.allowed_hosts = hosts;
        self.generation += 1;
        for controller in self.controllers.values_mut().filter(|controller| controller.is_discovery()) {
            controller.happened(AsynchronousEvent::DISCOVERY_CHANGED);
        }
    }

    fn io_controllers(&mut self) -> impl Iterator<Item = &mut Controller> {
        self.controllers.values_mut().filter(|controller| !controller.is_discovery())
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
        let plan = io::plan(&self.facts, controller.all_command_sets(), entry, data)?;
        let purpose = Purpose::Command { connection: id, entry: *entry, then: plan.then, write: None };
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

    /// Asks the transport to close a connection.
    fn close(&mut self, id: ConnectionId, reason: CloseReason) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.closing
        {
            connection.closing = true;
            self.events.push(Event::Close(id, reason));
        }
    }

    /// A controller whose host has gone silent: Controller Fatal Status, and all of
    /// its connections are closed (Base 3.9).
    fn give_up(&mut self, cntlid: u16) {
        let Some(controller) = self.controllers.get_mut(&cntlid) else { return };
        controller.status.fatal = true;
        let connections = controller.io_queues.values().copied().chain([controller.admin]).collect::<Vec<_>>();
        for connection in connections {
            self.close(connection, CloseReason::KeepAliveExpired);
        }
    }

    /// Completes Asynchronous Event Requests that have an event.
    fn tell_events(&mut self) {
        for cntlid in self.controllers.keys().copied().collect::<Vec<_>>() {
            while let Some(controller) = self.controllers.get_mut(&cntlid)
                && let admin = controller.admin
                && let Some((cid, event)) = controller.events.next()
            {
                let answer = self.answer(admin, QueueId(0), cid, Ok(Completion::dword(event.dword())));
                self.events.push(Event::Answer(admin, answer));
            }
        }
    }

    /// The flush of a shutdown has ended; a shutdown that lost data is no shutdown.
    fn shutdown_done(&mut self, cntlid: u16, flushed: bool) {
        let Some(controller) = self.controllers.get_mut(&cntlid) else { return };
        if controller.status.shutdown != ShutdownStatus::Occurring {
            return;
        }
        match flushed {
            true => controller.status.shutdown = ShutdownStatus::Complete,
            false => controller.status.fatal = true,
        }
    }
}
