//! Fabrics commands (Base 6): Connect makes queues and controllers, the others act
//! on them.

use std::collections::BTreeMap;

use nvme::{
    AdminOpcode, CNTLID_DYNAMIC, Command, Configuration, ConnectData, ConnectResult, ControllerStatus, FabricsCommand,
    NamespaceId, QueueId, SecurityFields, ShutdownStatus, Status, SubmissionEntry,
};
use units::{Nanos, Printable};
use zerocopy::FromBytes;

use super::authentication::{self, Sent, Session};
use super::connection::Queue;
use super::controller::{Controller, Effect, Kind};
use super::events::Events;
use super::execution::{Completion, Failure};
use super::features::{Features, keep_alive};
use super::health::ErrorLog;
use super::{CloseReason, ConnectionId, Event, Purpose, Standing, Step, Subsystem, Transfer};
use crate::patience::{self, Cheapness, cheapest};

/// Offsets in the command of the fields that Connect can object to (Base figure 380).
const QID_OFFSET: u16 = 42;
const SQSIZE_OFFSET: u16 = 44;

/// Controller identifiers are 1 to FFEFh; those above mean something else (Base 6.3).
const CNTLID_MAX: u16 = 0xffef;

/// A Connect command without its data.
#[derive(Clone, Copy)]
struct Connect {
    queue: QueueId,
    size_zero_based: u16,
    disable_flow_control: bool,
    keep_alive_ms: u32,
}

fn invalid(offset: u16, in_data: bool) -> Failure {
    let dw0 = ConnectResult::InvalidParameter { offset, in_data }.dword();
    Failure { status: Status::CONNECT_INVALID_PARAMETERS, dw0 }
}

/// What a Fabrics command transfers.
pub(super) fn transfer(entry: &SubmissionEntry, max_transfer_bytes: u32) -> Transfer {
    let bounded = |bytes: u32, most: u32, direction: fn(u32) -> Transfer| match bytes {
        bytes if bytes > 0 && bytes <= most => direction(bytes),
        _ => Transfer::None,
    };
    match FabricsCommand::decode(entry) {
        Ok(FabricsCommand::Connect { .. }) => Transfer::HostToController { bytes: ConnectData::BYTES as u32 },
        Ok(FabricsCommand::AuthenticationSend(SecurityFields { bytes, .. })) => {
            bounded(bytes, authentication::MESSAGE_BYTES_MAX, |bytes| Transfer::HostToController { bytes })
        }
        Ok(FabricsCommand::AuthenticationReceive(SecurityFields { bytes, .. })) => {
            bounded(bytes, max_transfer_bytes, |bytes| Transfer::ControllerToHost { bytes })
        }
        _ => Transfer::None,
    }
}

impl Subsystem {
    /// A Fabrics command.
    pub(super) fn fabrics(
        &mut self,
        now: Nanos,
        id: ConnectionId,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> Result<Step, Failure> {
        let command = FabricsCommand::decode(entry)?;
        let connection = self.connections.get(&id).ok_or(Status::INTERNAL_ERROR)?;
        let queue = match (&connection.queue, command) {
            (None, FabricsCommand::Connect { format, queue, size_zero_based, disable_flow_control, keep_alive_ms }) => {
                if format != 0 {
                    return Err(Status::CONNECT_INCOMPATIBLE_FORMAT.into());
                }
                let connect = Connect { queue, size_zero_based, disable_flow_control, keep_alive_ms };
                return self.connect(now, id, connect, data).map(Step::Complete);
            }
            (None, _) | (Some(_), FabricsCommand::Connect { .. }) => return Err(Status::COMMAND_SEQUENCE_ERROR.into()),
            (Some(queue), _) => queue,
        };
        let (cntlid, admin, ready) = (queue.cntlid, queue.id == QueueId(0), queue.is_authenticated());
        match command {
            FabricsCommand::AuthenticationSend(fields) => self.authentication_send(now, id, fields, data),
            FabricsCommand::AuthenticationReceive(fields) => self.authentication_receive(id, fields),
            // Nothing else passes before success (Base 8.13.3).
            _ if !ready => Err(Status::AUTHENTICATION_REQUIRED.into()),
            FabricsCommand::Disconnect { format: 0 } if !admin => {
                Ok(Step::Complete(Completion { close: true, ..Completion::default() }))
            }
            FabricsCommand::Disconnect { format: 0 } => Err(Status::INVALID_QUEUE_TYPE.into()),
            FabricsCommand::Disconnect { .. } => Err(Status::CONNECT_INCOMPATIBLE_FORMAT.into()),
            // Properties are the admin queue's.
            _ if !admin => Err(Status::INVALID_FIELD.into()),
            FabricsCommand::PropertyGet { offset, wide } => {
                let controller = self.controllers.get(&cntlid).ok_or(Status::INTERNAL_ERROR)?;
                Ok(Step::Complete(Completion::value(controller.property(&self.facts, offset, wide)?)))
            }
            FabricsCommand::PropertySet { offset, wide, value } => {
                let controller = self.controllers.get_mut(&cntlid).ok_or(Status::INTERNAL_ERROR)?;
                match controller.set_property(&self.facts, offset, wide, value)? {
                    Effect::None => Ok(Step::Complete(Completion::default())),
                    Effect::Reset => {
                        self.after_reset(cntlid);
                        Ok(Step::Complete(Completion::default()))
                    }
                    Effect::Shutdown => Ok(self.shut_down(cntlid)),
                }
            }
            FabricsCommand::Connect { .. } => Err(Status::COMMAND_SEQUENCE_ERROR.into()),
        }
    }

    fn connect(&mut self, now: Nanos, id: ConnectionId, connect: Connect, data: &[u8]) -> Result<Completion, Failure> {
        let (data, _) = ConnectData::ref_from_prefix(data).map_err(|_| Status::DATA_TRANSFER_ERROR)?;
        let names = [(&data.subnqn, ConnectData::SUBNQN_OFFSET), (&data.hostnqn, ConnectData::HOSTNQN_OFFSET)];
        for (name, offset) in names {
            if nvme::nqn_of(name).is_none() {
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                self.notice(id, format!("a host refused: `{}` is no NVMe Qualified Name", Printable::bytes(name)));
                return Err(invalid(offset, true));
            }
        }
        let [subsystem, host] = names.map(|(name, _)| nvme::nqn_of(name).unwrap_or_default());
        let kind = match subsystem {
            nvme::DISCOVERY_NQN => Kind::Discovery,
            name if name == self.config.nqn => Kind::Io,
            name => {
                let (host, name) = (Printable::text(host), Printable::text(name));
                self.notice(id, format!("host {host} refused: it asks for the subsystem {name}, which is not here"));
                return Err(invalid(ConnectData::SUBNQN_OFFSET, true));
            }
        };
        // A Host Identifier of 0 is none (Base 6.3).
        if data.hostid == [0; 16] {
            return Err(invalid(0, true));
        }
        let entries = u32::from(connect.size_zero_based) + 1;
        if connect.size_zero_based == 0 || entries > self.facts.queue_entries.into() {
            return Err(invalid(SQSIZE_OFFSET, false));
        }
        // Whoever may not use the subsystem may still ask what there is; the
        // discovery log then has nothing.
        if kind == Kind::Io && !self.config.allows(host) {
            self.notice(id, format!("host {} refused: it is not one of those that may connect", Printable::text(host)));
            let dw0 = ConnectResult::InvalidParameter { offset: ConnectData::HOSTNQN_OFFSET, in_data: true }.dword();
            return Err(Failure { status: Status::CONNECT_INVALID_HOST, dw0 });
        }
        let cntlid = match connect.queue {
            QueueId(0) => self.create_controller(now, id, kind, host, data, connect.keep_alive_ms)?,
            queue => self.attach_queue(kind, host, data, queue)?,
        };
        let session = match kind {
            Kind::Io => self.config.credentials_of(host).cloned(),
            Kind::Discovery => None,
        };
        let session = session.map(|credentials| Session::new(credentials, self.config.nqn.clone()));
        let authentication_required = session.is_some();
        let flow_control = !connect.disable_flow_control;
        let queue = Queue::new(cntlid, connect.queue, entries, flow_control, session);
        let timeout = self.config.authentication_timeout;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.queue = Some(queue);
            connection.deadline = authentication_required.then(|| now + timeout);
        }
        if !authentication_required {
            self.claim_queue(id);
        }
        Ok(Completion::dword(ConnectResult::Connected { cntlid, authentication_required }.dword()))
    }

    /// Connect for an admin queue: a controller of its own, chosen by the subsystem.
    fn create_controller(
        &mut self,
        now: Nanos,
        id: ConnectionId,
        kind: Kind,
        host: &str,
        data: &ConnectData,
        keep_alive_ms: u32,
    ) -> Result<u16, Failure> {
        if data.cntlid.get() != CNTLID_DYNAMIC {
            return Err(invalid(ConnectData::CNTLID_OFFSET, true));
        }
        let full = self.controllers.len() >= usize::from(self.config.controllers.min(CNTLID_MAX));
        if full && !self.make_room(now) {
            self.notice(id, format!("host {} refused: all controllers are in use", Printable::text(host)));
            return Err(Status::CONNECT_CONTROLLER_BUSY.into());
        }
        let cntlid = self.next_cntlid();
        let controller = Controller {
            kind,
            host: host.to_owned(),
            host_id: data.hostid,
            admin: id,
            io_queues: BTreeMap::new(),
            configuration: Configuration::default(),
            status: ControllerStatus::default(),
            keep_alive: keep_alive(keep_alive_ms),
            heard_at: now,
            features: Features::new(&self.facts),
            events: Events::default(),
            errors: ErrorLog::default(),
        };
        self.controllers.insert(cntlid, controller);
        Ok(cntlid)
    }

    /// Ends the controller of the host that does the least with it: one that has not authenticated, or has not
    /// enabled it and said nothing for a while. Whoever names a host without being it cannot keep it out so.
    fn make_room(&mut self, now: Nanos) -> bool {
        let candidates = self.controllers.iter().filter_map(|(cntlid, controller)| {
            let kind = match self.standing(controller.admin) {
                Standing::Fresh | Standing::Unauthenticated => patience::Kind::Unproved,
                Standing::Idle => patience::Kind::Unasking,
                Standing::Established => return None,
            };
            Some((*cntlid, (), Cheapness::of(kind, controller.heard_at, now)?))
        });
        let Some((cntlid, _)) = cheapest(candidates) else { return false };
        let Some(controller) = self.controllers.remove(&cntlid) else { return false };
        self.close_streams(cntlid);
        for connection in self.queue_connections(cntlid).into_iter().chain([controller.admin]) {
            self.close(connection, CloseReason::MadeRoom);
        }
        true
    }

    /// Has the operator told of a host.
    fn notice(&mut self, id: ConnectionId, text: String) {
        self.events.push(Event::Notice(id, text));
    }

    /// A free controller identifier, the longest unused ones first.
    fn next_cntlid(&mut self) -> u16 {
        loop {
            self.last_cntlid = self.last_cntlid % CNTLID_MAX + 1;
            // There are fewer controllers than identifiers.
            if !self.controllers.contains_key(&self.last_cntlid) {
                return self.last_cntlid;
            }
        }
    }

    /// Connect for an I/O queue of a controller that the same host has enabled.
    fn attach_queue(&self, kind: Kind, host: &str, data: &ConnectData, queue: QueueId) -> Result<u16, Failure> {
        if kind == Kind::Discovery {
            // A discovery controller has no I/O queues.
            return Err(invalid(QID_OFFSET, false));
        }
        let cntlid = data.cntlid.get();
        let authenticated = |admin: &ConnectionId| {
            let queue = self.connections.get(admin).and_then(|connection| connection.queue.as_ref());
            queue.is_some_and(Queue::is_authenticated)
        };
        let known = self.controllers.get(&cntlid).filter(|controller| controller.kind == kind);
        let controller = known.ok_or_else(|| invalid(ConnectData::CNTLID_OFFSET, true))?;
        if controller.host != host {
            return Err(invalid(ConnectData::HOSTNQN_OFFSET, true));
        }
        if controller.host_id != data.hostid {
            return Err(invalid(0, true));
        }
        if !authenticated(&controller.admin) {
            return Err(Status::AUTHENTICATION_REQUIRED.into());
        }
        if !controller.is_ready() {
            return Err(Status::COMMAND_SEQUENCE_ERROR.into());
        }
        if queue.0 > controller.features.io_queues || controller.io_queues.contains_key(&queue) {
            return Err(invalid(QID_OFFSET, false));
        }
        Ok(cntlid)
    }

    /// The I/O queue of a connection is its controller's from here on, unless another connection was faster or the
    /// controller runs no more. One that has still to authenticate holds no queue: it may not be the host.
    fn claim_queue(&mut self, id: ConnectionId) -> bool {
        let Some(queue) = self.connections.get(&id).and_then(|connection| connection.queue.as_ref()) else {
            return false;
        };
        if queue.id == QueueId(0) {
            return true;
        }
        let (cntlid, queue) = (queue.cntlid, queue.id);
        let lost = match self.controllers.get_mut(&cntlid).filter(|controller| controller.is_ready()) {
            Some(controller) => {
                (*controller.io_queues.entry(queue).or_insert(id) != id).then_some(CloseReason::MadeRoom)
            }
            // Reset or shut down between Connect and the end of authentication.
            None => Some(CloseReason::ControllerReset),
        };
        if let Some(reason) = lost {
            self.close(id, reason);
        }
        lost.is_none()
    }

    /// After CC.EN has gone to 0: the I/O queues are gone, and the admin queue has
    /// no commands outstanding but the one that did it.
    fn after_reset(&mut self, cntlid: u16) {
        let Some(controller) = self.controllers.get_mut(&cntlid) else { return };
        let admin = controller.admin;
        controller.io_queues.clear();
        self.close_streams(cntlid);
        for connection in self.queue_connections(cntlid) {
            self.close(connection, CloseReason::ControllerReset);
        }
        if let Some(connection) = self.connections.get_mut(&admin) {
            connection.outstanding.clear();
        }
    }

    /// CC.SHN: the caches are committed, and then CSTS.SHST says so.
    fn shut_down(&mut self, cntlid: u16) -> Step {
        let Some(controller) = self.controllers.get_mut(&cntlid) else { return Step::Complete(Completion::default()) };
        if controller.is_discovery() || !self.facts.identity.volatile_write_cache || !self.powered {
            controller.status.shutdown = ShutdownStatus::Complete;
            return Step::Complete(Completion::default());
        }
        // Property Set itself does not wait; the host watches CSTS.SHST.
        let command = Command::Flush { nsid: NamespaceId::ALL };
        let request = self.device_request(0, command, None, Purpose::Shutdown { cntlid });
        self.events.push(Event::Submit(request));
        Step::Complete(Completion::default())
    }

    fn session_mut(&mut self, id: ConnectionId) -> Option<(&mut Session, &mut dyn super::Entropy)> {
        let queue = self.connections.get_mut(&id)?.queue.as_mut()?;
        Some((queue.session.as_mut()?, &mut *self.entropy))
    }

    fn authentication_send(
        &mut self,
        now: Nanos,
        id: ConnectionId,
        fields: SecurityFields,
        data: &[u8],
    ) -> Result<Step, Failure> {
        let bytes = fields.bytes as usize;
        if !fields.is_nvme() || bytes == 0 || fields.bytes > authentication::MESSAGE_BYTES_MAX {
            return Err(Status::INVALID_FIELD.into());
        }
        let message = data.get(..bytes).ok_or(Status::DATA_TRANSFER_ERROR)?;
        // A host that need not authenticate has nothing to talk about.
        let (session, entropy) = self.session_mut(id).ok_or(Status::COMMAND_SEQUENCE_ERROR)?;
        let sent = session.send(message, entropy);
        let (authenticated, refused) = (session.is_authenticated(), session.has_failed());
        self.watch_authentication(now, id, authenticated);
        if refused {
            self.notice_failure(id);
        }
        if authenticated {
            self.claim_queue(id);
        }
        Ok(Step::Complete(Completion { close: sent == Sent::Over, ..Completion::default() }))
    }

    fn authentication_receive(&mut self, id: ConnectionId, fields: SecurityFields) -> Result<Step, Failure> {
        if !fields.is_nvme() || fields.bytes == 0 || fields.bytes > self.facts.max_transfer_bytes {
            return Err(Status::INVALID_FIELD.into());
        }
        let (session, _) = self.session_mut(id).ok_or(Status::COMMAND_SEQUENCE_ERROR)?;
        let received = session.receive();
        let authenticated = session.is_authenticated();
        if authenticated && let Some(connection) = self.connections.get_mut(&id) {
            connection.deadline = None;
        }
        if authenticated {
            self.claim_queue(id);
        }
        let mut data = received.message;
        if data.len() > fields.bytes as usize {
            return Err(Status::INVALID_FIELD.into());
        }
        // The rest of the host's buffer is zero: hosts read whole structures.
        data.resize(fields.bytes as usize, 0);
        Ok(Step::Complete(Completion { data, close: received.failed, ..Completion::default() }))
    }

    /// Authentication on a connection has failed: a wrong key, most likely.
    fn notice_failure(&mut self, id: ConnectionId) {
        let queue = self.connections.get(&id).and_then(|connection| connection.queue.as_ref());
        let session = queue.and_then(|queue| queue.session.as_ref());
        let Some(host) = session.map(|session| Printable::text(session.host()).to_string()) else { return };
        self.notice(id, format!("authentication as host {host} failed"));
    }

    /// A host that is no longer authenticated has so long to be it again.
    fn watch_authentication(&mut self, now: Nanos, id: ConnectionId, authenticated: bool) {
        let timeout = self.config.authentication_timeout;
        if let Some(connection) = self.connections.get_mut(&id)
            && !authenticated
        {
            connection.deadline.get_or_insert(now + timeout);
        }
    }

    /// Whether the command is a Fabrics one.
    pub(super) fn is_fabrics(entry: &SubmissionEntry) -> bool {
        entry.opc == AdminOpcode::Fabrics as u8
    }
}
