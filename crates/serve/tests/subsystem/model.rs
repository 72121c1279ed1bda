//! Random interleavings of hosts, held against a simple model of what a controller
//! may do when; and mutants that the model has to catch.

use std::collections::BTreeMap;

use nvme::{AdminOpcode, CNTLID_DYNAMIC, Command, CommandId, ConnectData, NamespaceId, Status};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use serve::subsystem::{ConnectionId, SubsystemConfig};
use ssd::NullDevice;
use units::Nanos;

use super::access::{authenticate, credentials};
use super::host::{CC, CSTS, ENABLED, HOST, HOST_ID, NQN, Rig, admin_entry, config};

const OPEN_HOST: &str = "nqn.2014-08.org.example:open";
const KEEP_ALIVE_MS: u32 = 5000;
const KEEP_ALIVE: Nanos = Nanos(5_000_000_000);
const CONNECT_TIMEOUT: Nanos = Nanos(10_000_000_000);
const AUTHENTICATION_TIMEOUT: Nanos = Nanos(30_000_000_000);

/// What happens. Connections are chosen among those that exist.
#[derive(Clone, Debug)]
enum Op {
    Open,
    /// Connect an admin queue, of the host that has to authenticate or the other.
    Admin {
        connection: usize,
        guarded: bool,
    },
    /// Connect an I/O queue to the controller of another connection.
    Queue {
        connection: usize,
        to: usize,
        queue: u16,
    },
    Authenticate {
        connection: usize,
        honest: bool,
    },
    Configure {
        connection: usize,
        value: u64,
    },
    Command {
        connection: usize,
    },
    Close {
        connection: usize,
    },
    Wait {
        ms: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let connection = || 0..8_usize;
    let configurations = vec![0, ENABLED, ENABLED, ENABLED | 1 << 14, ENABLED | 1 << 7];
    prop_oneof![
        3 => Just(Op::Open),
        4 => (connection(), any::<bool>()).prop_map(|(connection, guarded)| Op::Admin { connection, guarded }),
        4 => (connection(), connection(), 1..4_u16)
            .prop_map(|(connection, to, queue)| Op::Queue { connection, to, queue }),
        4 => (connection(), prop::bool::weighted(0.8))
            .prop_map(|(connection, honest)| Op::Authenticate { connection, honest }),
        6 => (connection(), prop::sample::select(configurations))
            .prop_map(|(connection, value)| Op::Configure { connection, value }),
        10 => connection().prop_map(|connection| Op::Command { connection }),
        1 => connection().prop_map(|connection| Op::Close { connection }),
        3 => (0..6000_u64).prop_map(|ms| Op::Wait { ms }),
    ]
}

/// What the model knows of a connection.
#[derive(Clone, Debug)]
enum Role {
    Fresh,
    Admin,
    Io { admin: ConnectionId, queue: u16 },
}

#[derive(Clone, Debug)]
struct Peer {
    role: Role,
    guarded: bool,
    authenticated: bool,
    deadline: Option<Nanos>,
}

/// What the model knows of a controller, by its admin connection.
#[derive(Clone, Debug)]
struct State {
    cntlid: u16,
    guarded: bool,
    configuration: u64,
    ready: bool,
    fatal: bool,
    shut_down: bool,
    heard_at: Nanos,
}

impl State {
    fn runs(&self) -> bool {
        self.configuration & 1 == 1 && self.ready && !self.fatal && !self.shut_down
    }
}

/// Guarantees that are broken on purpose, at the subsystem's boundary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    None,
    /// Commands before CC.EN succeed.
    RunsDisabled,
    /// A silent host keeps its connections.
    ForgivesSilence,
    /// I/O passes before authentication.
    TrustsStrangers,
    /// A reset leaves the I/O queues.
    ResetKeepsQueues,
}

struct World {
    rig: Rig,
    peers: BTreeMap<ConnectionId, Peer>,
    controllers: BTreeMap<ConnectionId, State>,
    mutant: Mutant,
}

impl World {
    fn new(mutant: Mutant) -> Self {
        let config = SubsystemConfig {
            credentials: vec![credentials(HOST, 1, None)],
            allowed_hosts: vec![OPEN_HOST.to_owned()],
            io_queues: 2,
            ..config()
        };
        let rig = Rig::new(config, Box::new(NullDevice::new(1000, 512, Nanos(0))));
        Self { rig, peers: BTreeMap::new(), controllers: BTreeMap::new(), mutant }
    }

    fn pick(&self, index: usize) -> Option<ConnectionId> {
        let count = self.peers.len();
        self.peers.keys().nth(index.checked_rem(count)?).copied()
    }

    /// The controller that a connection belongs to, by its admin connection.
    fn controller_of(&self, id: ConnectionId) -> Option<ConnectionId> {
        match self.peers.get(&id)?.role {
            Role::Fresh => None,
            Role::Admin => Some(id),
            Role::Io { admin, .. } => Some(admin),
        }
    }

    fn heard(&mut self, id: ConnectionId) {
        if let Some(admin) = self.controller_of(id)
            && let Some(state) = self.controllers.get_mut(&admin)
        {
            state.heard_at = self.rig.now;
        }
    }

    /// Forgets a connection; a controller goes with its admin connection.
    fn forget(&mut self, id: ConnectionId) -> Vec<ConnectionId> {
        let Some(peer) = self.peers.remove(&id) else { return Vec::new() };
        if !matches!(peer.role, Role::Admin) {
            return Vec::new();
        }
        self.controllers.remove(&id);
        self.queues_of(id)
    }

    /// Whose an I/O queue is.
    fn holder(&self, admin: ConnectionId, queue: u16) -> Option<ConnectionId> {
        let of_it = |peer: &Peer| {
            peer.authenticated
                && matches!(peer.role, Role::Io { admin: other, queue: its } if other == admin && its == queue)
        };
        self.peers.iter().find(|(_, peer)| of_it(peer)).map(|(id, _)| *id)
    }

    fn queues_of(&self, id: ConnectionId) -> Vec<ConnectionId> {
        let of_it = |peer: &Peer| matches!(peer.role, Role::Io { admin, .. } if admin == id);
        self.peers.iter().filter(|(_, peer)| of_it(peer)).map(|(id, _)| *id).collect()
    }

    /// Polls; exactly `expected` is closed.
    fn poll(&mut self, mut expected: Vec<ConnectionId>) {
        let (_, closed) = self.rig.poll();
        let mut closed = closed.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        let forgives = matches!(self.mutant, Mutant::ForgivesSilence | Mutant::ResetKeepsQueues);
        if forgives {
            closed.clear();
        }
        for id in &closed {
            self.peers.remove(id);
            self.controllers.remove(id);
        }
        expected.sort();
        closed.sort();
        assert_eq!(closed, expected, "connections closed");
    }

    fn apply(&mut self, op: &Op) {
        let now = self.rig.now;
        match *op {
            Op::Open if self.peers.len() < 8 => {
                let id = self.rig.open();
                let deadline = Some(now + CONNECT_TIMEOUT);
                self.peers.insert(id, Peer { role: Role::Fresh, guarded: false, authenticated: false, deadline });
            }
            Op::Open => {}
            Op::Admin { connection, guarded } => {
                let Some(id) = self.pick(connection) else { return };
                self.heard(id);
                let host = if guarded { HOST } else { OPEN_HOST };
                let data = ConnectData::new(HOST_ID, CNTLID_DYNAMIC, NQN, host);
                let answer = self.rig.connect_as(id, 0, &data, KEEP_ALIVE_MS);
                let fresh = matches!(self.peers[&id].role, Role::Fresh);
                let expected = if fresh { Status::SUCCESS } else { Status::COMMAND_SEQUENCE_ERROR };
                assert_eq!(answer.status.status, expected);
                if fresh {
                    self.connected(id, Role::Admin, guarded);
                    let cntlid = answer.dw0 as u16;
                    assert!(self.controllers.values().all(|state| state.cntlid != cntlid), "identifier in use");
                    let state = State {
                        cntlid,
                        guarded,
                        configuration: 0,
                        ready: false,
                        fatal: false,
                        shut_down: false,
                        heard_at: now,
                    };
                    self.controllers.insert(id, state);
                }
            }
            Op::Queue { connection, to, queue } => {
                let (Some(id), Some(to)) = (self.pick(connection), self.pick(to)) else { return };
                let Some(admin) = self.controller_of(to) else { return };
                let state = self.controllers[&admin].clone();
                self.heard(id);
                let host = if state.guarded { HOST } else { OPEN_HOST };
                let data = ConnectData::new(HOST_ID, state.cntlid, NQN, host);
                let answer = self.rig.connect_as(id, queue, &data, 0);
                let taken = self.holder(admin, queue).is_some();
                let expected = if !matches!(self.peers[&id].role, Role::Fresh) {
                    Status::COMMAND_SEQUENCE_ERROR
                } else if !self.peers[&admin].authenticated {
                    Status::AUTHENTICATION_REQUIRED
                } else if !state.runs() {
                    Status::COMMAND_SEQUENCE_ERROR
                } else if queue > 2 || taken {
                    Status::CONNECT_INVALID_PARAMETERS
                } else {
                    Status::SUCCESS
                };
                assert_eq!(answer.status.status, expected, "{state:?}");
                if expected.is_success() {
                    self.connected(id, Role::Io { admin, queue }, state.guarded);
                }
            }
            Op::Authenticate { connection, honest } => {
                let Some(id) = self.pick(connection) else { return };
                if !self.peers[&id].guarded {
                    return;
                }
                self.heard(id);
                let byte = if honest { 1 } else { 2 };
                assert_eq!(authenticate(&mut self.rig, id, byte), honest);
                if honest {
                    // A queue belongs to the first that has authenticated on it, while its controller runs.
                    let lost = match self.peers[&id].role {
                        Role::Io { admin, queue } => {
                            !self.controllers[&admin].runs()
                                || self.holder(admin, queue).is_some_and(|holder| holder != id)
                        }
                        Role::Fresh | Role::Admin => false,
                    };
                    let peer = self.peers.get_mut(&id).unwrap();
                    (peer.authenticated, peer.deadline) = (true, None);
                    if lost {
                        self.poll(vec![id]);
                    }
                } else {
                    let queues = self.forget(id);
                    self.poll(queues);
                }
            }
            Op::Configure { connection, value } => {
                let Some(id) = self.pick(connection) else { return };
                self.heard(id);
                let peer = self.peers[&id].clone();
                let expected = match peer.role {
                    Role::Fresh => Status::COMMAND_SEQUENCE_ERROR,
                    _ if !peer.authenticated => Status::AUTHENTICATION_REQUIRED,
                    Role::Admin => Status::SUCCESS,
                    Role::Io { .. } => Status::INVALID_FIELD,
                };
                assert_eq!(self.rig.set_property(id, CC, value), expected);
                if !expected.is_success() {
                    return;
                }
                let state = self.controllers.get_mut(&id).unwrap();
                let (was, is) = (state.configuration & 1 == 1, value & 1 == 1);
                let asks = value >> 14 & 0b11 != state.configuration >> 14 & 0b11 && value >> 14 & 0b11 != 0;
                state.configuration = value;
                match (was, is) {
                    (false, true) => {
                        state.fatal = value & 1 << 7 != 0;
                        (state.ready, state.shut_down) = (!state.fatal, false);
                    }
                    (true, false) => {
                        (state.ready, state.fatal, state.shut_down) = (false, false, false);
                        let queues = self.queues_of(id);
                        self.poll(queues);
                    }
                    _ => state.shut_down |= asks,
                }
                let state = &self.controllers[&id];
                let bits = u32::from(state.ready) | u32::from(state.fatal) << 1 | u32::from(state.shut_down) << 3;
                assert_eq!(self.rig.property(id, CSTS), bits, "{state:?}");
            }
            Op::Command { connection } => {
                let Some(id) = self.pick(connection) else { return };
                self.heard(id);
                let peer = self.peers[&id].clone();
                let io = matches!(peer.role, Role::Io { .. });
                let entry = match io {
                    true => Command::Flush { nsid: NamespaceId(1) }.encode(CommandId(0)).unwrap().0,
                    false => admin_entry(AdminOpcode::KeepAlive),
                };
                let runs = self.controller_of(id).is_some_and(|admin| self.controllers[&admin].runs());
                let expected = match peer.role {
                    Role::Fresh => Status::COMMAND_SEQUENCE_ERROR,
                    _ if !peer.authenticated => Status::AUTHENTICATION_REQUIRED,
                    _ if !runs => Status::COMMAND_SEQUENCE_ERROR,
                    _ => Status::SUCCESS,
                };
                let mut status = self.rig.status(id, entry, &[]);
                match self.mutant {
                    Mutant::RunsDisabled if status == Status::COMMAND_SEQUENCE_ERROR => status = Status::SUCCESS,
                    Mutant::TrustsStrangers if status == Status::AUTHENTICATION_REQUIRED => status = Status::SUCCESS,
                    _ => {}
                }
                assert_eq!(status, expected, "{peer:?}");
            }
            Op::Close { connection } => {
                let Some(id) = self.pick(connection) else { return };
                self.rig.subsystem.closed(now, id);
                let queues = self.forget(id);
                self.poll(queues);
            }
            Op::Wait { ms } => {
                self.rig.advance(Nanos(ms * 1_000_000));
                let now = self.rig.now;
                let silent =
                    self.controllers.iter().filter(|(_, state)| !state.fatal && state.heard_at + KEEP_ALIVE <= now);
                let mut expected = Vec::new();
                for (admin, _) in silent {
                    expected.push(*admin);
                    expected.extend(self.queues_of(*admin));
                }
                // The model closes with a connection all that hangs on it.
                for (id, _) in self.peers.iter().filter(|(_, peer)| peer.deadline.is_some_and(|at| at <= now)) {
                    expected.push(*id);
                    if matches!(self.peers[id].role, Role::Admin) {
                        expected.extend(self.queues_of(*id));
                    }
                }
                expected.sort();
                expected.dedup();
                self.poll(expected);
            }
        }
    }

    fn connected(&mut self, id: ConnectionId, role: Role, guarded: bool) {
        let deadline = guarded.then(|| self.rig.now + AUTHENTICATION_TIMEOUT);
        self.peers.insert(id, Peer { role, guarded, authenticated: !guarded, deadline });
    }
}

fn run(mutant: Mutant, ops: &[Op]) {
    let mut world = World::new(mutant);
    for op in ops {
        world.apply(op);
    }
}

/// Cases: enough to be quick; PLUMB_LONG asks for many more.
fn cases() -> u32 {
    if std::env::var_os("PLUMB_LONG").is_some() { 20_000 } else { 400 }
}

#[test]
fn hosts_come_and_go() {
    let mut runner = TestRunner::new(Config { cases: cases(), failure_persistence: None, ..Config::default() });
    runner
        .run(&vec(op(), 0..80), |ops| {
            run(Mutant::None, &ops);
            Ok(())
        })
        .unwrap();
}

#[test]
fn mutants_are_caught() {
    for mutant in [Mutant::RunsDisabled, Mutant::ForgivesSilence, Mutant::TrustsStrangers, Mutant::ResetKeepsQueues] {
        let config = Config { cases: 400, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
        let mut runner = TestRunner::new(config);
        let outcome = runner.run(&vec(op(), 0..80), |ops| {
            run(mutant, &ops);
            Ok(())
        });
        assert!(matches!(outcome, Err(TestError::Fail(..))), "{mutant:?} was not caught");
    }
}
