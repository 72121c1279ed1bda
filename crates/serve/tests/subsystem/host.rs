//! A host, the subsystem, and a device between which nothing takes time.

use nvme::{AdminOpcode, CNTLID_DYNAMIC, CommandId, ConnectData, FabricsCommand, QueueId, Status, SubmissionEntry};
use serve::backend::Request;
use serve::subsystem::{
    Answer, CloseReason, ConnectionId, DeviceRequest, Event, Reaction, Subsystem, SubsystemConfig, Transfer,
};
use ssd::{Completion, Device, NullDevice, Submission};
use trace::RequestId;
use units::Nanos;
use zerocopy::{FromBytes, IntoBytes};

pub const NQN: &str = "nqn.2014-08.org.example:subsystem";
pub const HOST: &str = "nqn.2014-08.org.example:host";
pub const HOST_ID: [u8; 16] = [7; 16];
/// CC as Linux writes it: enabled, every command set, entries of 64 and 16 bytes.
pub const ENABLED: u64 = 0x0046_0061;
pub const SECOND: Nanos = Nanos(1_000_000_000);
/// Offsets of the properties.
pub const CC: u32 = 0x14;
pub const CSTS: u32 = 0x1c;

/// Held commands that were answered.
pub type Answers = Vec<(ConnectionId, Answer)>;
/// Connections that were closed, and why.
pub type Closed = Vec<(ConnectionId, CloseReason)>;

pub struct Rig {
    pub subsystem: Subsystem,
    /// What the operator was told.
    pub notices: Vec<String>,
    pub device: Box<dyn Device>,
    pub now: Nanos,
    next_connection: u64,
    next_cid: u16,
}

pub fn config() -> SubsystemConfig {
    SubsystemConfig::new(NQN, "test")
}

/// A stream that is random enough for tests.
pub fn entropy() -> impl FnMut(&mut [u8]) {
    let mut state = 1_u64;
    move |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
    }
}

pub fn rig() -> Rig {
    Rig::new(config(), Box::new(NullDevice::new(1 << 20, 512, Nanos(1000))))
}

/// A zoned device with contents, and its subsystem.
pub fn zoned_rig() -> Rig {
    let profile = ssd::profile::Profile::builtin("wd-zn540").unwrap();
    let contents = ssd::Contents::Memory;
    let options = ssd::profile::BuildOptions { contents, ..ssd::profile::BuildOptions::default() };
    Rig::new(config(), profile.build(&options).unwrap())
}

impl Rig {
    pub fn new(config: SubsystemConfig, device: Box<dyn Device>) -> Self {
        let subsystem = Subsystem::new(config, device.identity(), Box::new(entropy())).unwrap();
        Self { subsystem, notices: Vec::new(), device, now: SECOND, next_connection: 0, next_cid: 0 }
    }

    pub fn open(&mut self) -> ConnectionId {
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        self.subsystem.connection_opened(self.now, id, "127.0.0.1:4420".parse().unwrap());
        id
    }

    /// Gives the subsystem a command, as a transport would; `None` where it is held.
    pub fn command(&mut self, id: ConnectionId, mut entry: SubmissionEntry, data: &[u8]) -> Option<Answer> {
        self.next_cid = self.next_cid.wrapping_add(1);
        entry.cid = self.next_cid.into();
        let data: Box<[u8]> = match self.subsystem.transfer(id, &entry) {
            Transfer::HostToController { bytes } => data[..(bytes as usize).min(data.len())].into(),
            Transfer::None | Transfer::ControllerToHost { .. } => Box::default(),
        };
        let reaction = self.subsystem.capsule(self.now, id, &entry, data);
        let answer = self.settle(id, reaction)?;
        assert_eq!(answer.cid, CommandId(self.next_cid));
        if answer.close {
            self.subsystem.closed(self.now, id);
        }
        Some(answer)
    }

    /// Carries out what the device is asked until there is an answer.
    fn settle(&mut self, id: ConnectionId, mut reaction: Reaction) -> Option<Answer> {
        loop {
            match reaction {
                Reaction::Complete(answer) => return Some(answer),
                Reaction::Held => return None,
                Reaction::Submit(request) => {
                    let (token, done) = self.carry_out(request);
                    let result = match done.status.is_success() {
                        true => Ok(done.data.unwrap_or_default()),
                        false => Err(done.status),
                    };
                    let (connection, next) = self.subsystem.device_done(self.now, token, result, done.result)?;
                    assert_eq!(connection, id);
                    reaction = next;
                }
            }
        }
    }

    fn carry_out(&mut self, request: DeviceRequest) -> (serve::subsystem::Token, Completion) {
        // Here every request is a command; the type has other forms too.
        #[allow(irrefutable_let_patterns)]
        let Request::Command { command, data } = request.request else { panic!("{request:?}") };
        let (queue, cid, request_id) = (QueueId(request.queue as u16 + 1), CommandId(0), RequestId(1));
        self.device.submit(self.now, Submission { queue, cid, command, data, request: request_id });
        let mut done = Vec::new();
        while done.is_empty() {
            self.now = self.device.next_event().expect("a command is outstanding").max(self.now);
            self.device.advance(self.now, &mut done);
        }
        (request.token, done.remove(0))
    }

    /// Polls, carries out what that asks of the device, and returns the answers to
    /// held commands; connections to be closed are closed.
    pub fn poll(&mut self) -> (Answers, Closed) {
        let (mut answers, mut closed) = (Vec::new(), Vec::new());
        let mut events = Vec::new();
        self.subsystem.poll(self.now, &mut events);
        while !events.is_empty() {
            for event in std::mem::take(&mut events) {
                match event {
                    Event::Answer(id, answer) => answers.push((id, answer)),
                    Event::Close(id, reason) => {
                        self.subsystem.closed(self.now, id);
                        closed.push((id, reason));
                    }
                    Event::Notice(_, text) => self.notices.push(text),
                    Event::BreakStreams(order) => self.device.break_streams(self.now, &order),
                    Event::Submit(request) => {
                        let (token, done) = self.carry_out(request);
                        let result = if done.status.is_success() { Ok(Box::default()) } else { Err(done.status) };
                        assert!(self.subsystem.device_done(self.now, token, result, 0).is_none());
                    }
                }
            }
            self.subsystem.poll(self.now, &mut events);
        }
        (answers, closed)
    }

    /// The answer to a command that is not held.
    pub fn run(&mut self, id: ConnectionId, entry: SubmissionEntry, data: &[u8]) -> Answer {
        self.command(id, entry, data).expect("the command was held")
    }

    pub fn status(&mut self, id: ConnectionId, entry: SubmissionEntry, data: &[u8]) -> Status {
        self.run(id, entry, data).status.status
    }

    pub fn fabrics(&mut self, id: ConnectionId, command: FabricsCommand, data: &[u8]) -> Answer {
        self.run(id, command.encode(CommandId(0)), data)
    }

    pub fn connect_as(&mut self, id: ConnectionId, queue: u16, data: &ConnectData, keep_alive_ms: u32) -> Answer {
        let command = FabricsCommand::Connect {
            format: 0,
            queue: QueueId(queue),
            size_zero_based: 31,
            disable_flow_control: false,
            keep_alive_ms,
        };
        self.fabrics(id, command, data.as_bytes())
    }

    /// A connected admin queue with its controller's identifier.
    pub fn admin(&mut self, subsystem: &str, host: &str, keep_alive_ms: u32) -> (ConnectionId, u16) {
        let id = self.open();
        let data = ConnectData::new(HOST_ID, CNTLID_DYNAMIC, subsystem, host);
        let answer = self.connect_as(id, 0, &data, keep_alive_ms);
        assert_eq!(answer.status.status, Status::SUCCESS);
        (id, answer.dw0 as u16)
    }

    /// An admin queue whose controller is enabled.
    pub fn enabled(&mut self) -> (ConnectionId, u16) {
        let (admin, cntlid) = self.admin(NQN, HOST, 0);
        assert_eq!(self.set_property(admin, CC, ENABLED), Status::SUCCESS);
        assert_eq!(self.property(admin, CSTS), 1);
        (admin, cntlid)
    }

    /// A connection for I/O queue `queue`.
    pub fn queue(&mut self, cntlid: u16, queue: u16) -> Result<ConnectionId, Answer> {
        let id = self.open();
        let answer = self.connect_as(id, queue, &ConnectData::new(HOST_ID, cntlid, NQN, HOST), 0);
        match answer.status.status {
            Status::SUCCESS => Ok(id),
            _ => {
                self.subsystem.closed(self.now, id);
                Err(answer)
            }
        }
    }

    /// An admin and an I/O queue.
    pub fn ready(&mut self) -> (ConnectionId, ConnectionId) {
        let (admin, cntlid) = self.enabled();
        let io = self.queue(cntlid, 1).unwrap();
        (admin, io)
    }

    pub fn set_property(&mut self, id: ConnectionId, offset: u32, value: u64) -> Status {
        self.fabrics(id, FabricsCommand::PropertySet { offset, wide: false, value }, &[]).status.status
    }

    pub fn property(&mut self, id: ConnectionId, offset: u32) -> u32 {
        let answer = self.fabrics(id, FabricsCommand::PropertyGet { offset, wide: false }, &[]);
        assert_eq!(answer.status.status, Status::SUCCESS);
        answer.dw0
    }

    /// An Identify page.
    pub fn identify<T: FromBytes>(&mut self, id: ConnectionId, cns: u32, nsid: u32, csi: u32) -> Result<T, Status> {
        let entry = SubmissionEntry {
            nsid: nsid.into(),
            cdw10: cns.into(),
            cdw11: (csi << 24).into(),
            ..admin_entry(AdminOpcode::Identify)
        };
        let answer = self.run(id, entry, &[]);
        match answer.status.status {
            Status::SUCCESS => Ok(T::read_from_bytes(&answer.data).unwrap()),
            status => Err(status),
        }
    }

    pub fn advance(&mut self, span: Nanos) {
        self.now += span;
    }
}

pub fn admin_entry(opcode: AdminOpcode) -> SubmissionEntry {
    SubmissionEntry { opc: opcode as u8, ..SubmissionEntry::default() }
}
