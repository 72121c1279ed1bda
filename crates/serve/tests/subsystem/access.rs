//! Who may connect, and what passes before a host has authenticated.

use base64::Engine;
use hmac::{Hmac, KeyInit, Mac};
use nvme::authentication::{
    AuthenticationHash, AuthenticationReply, ControllerMessage, DhGroup, HostMessage, Negotiation,
};
use nvme::{
    AdminOpcode, CNTLID_DYNAMIC, Command, CommandId, ConnectData, DISCOVERY_NQN, FabricsCommand, Lba, LbaRange,
    NamespaceId, SecurityFields, Status, SubmissionEntry,
};
use serve::subsystem::{Answer, CloseReason, ConnectionId, HostCredentials, Secret, SubsystemConfig, Transfer};
use sha2::Sha256;
use ssd::NullDevice;
use units::Nanos;

use super::host::{CC, CSTS, ENABLED, HOST, HOST_ID, NQN, Rig, admin_entry, config};

const OTHER: &str = "nqn.2014-08.org.example:other";

pub fn credentials(host: &str, byte: u8, controller: Option<u8>) -> HostCredentials {
    let secret = |byte: u8| {
        let mut key = vec![byte; 32];
        key.extend(crc32fast::hash(&key).to_le_bytes());
        Secret::parse(&format!("DHHC-1:00:{}:", base64::prelude::BASE64_STANDARD.encode(key))).unwrap()
    };
    HostCredentials::new(host, secret(byte), controller.map(secret))
}

fn fields(bytes: usize) -> SecurityFields {
    SecurityFields { protocol: 0xe9, specific: 0x0101, bytes: bytes as u32 }
}

fn send(rig: &mut Rig, id: ConnectionId, message: &HostMessage) -> Answer {
    let message = message.to_bytes();
    rig.fabrics(id, FabricsCommand::AuthenticationSend(fields(message.len())), &message)
}

fn receive(rig: &mut Rig, id: ConnectionId) -> (ControllerMessage, bool) {
    let answer = rig.fabrics(id, FabricsCommand::AuthenticationReceive(fields(4096)), &[]);
    assert_eq!((answer.status.status, answer.data.len()), (Status::SUCCESS, 4096));
    (ControllerMessage::parse(&answer.data).unwrap(), answer.close)
}

/// Authenticates as `HOST` with a key of `byte`s, in the NULL group, with hashes
/// made here; says whether the controller was content.
pub fn authenticate(rig: &mut Rig, id: ConnectionId, byte: u8) -> bool {
    let (hashes, groups) = (vec![AuthenticationHash::Sha256], vec![DhGroup::Null]);
    let offer = Negotiation { transaction: 3, secure_channel: 0, hashes, groups };
    assert_eq!(send(rig, id, &HostMessage::Negotiate(offer)).status.status, Status::SUCCESS);
    let (message, _) = receive(rig, id);
    let ControllerMessage::Challenge { sequence, challenge, .. } = message else { panic!("{message:?}") };
    let mut mac = Hmac::<Sha256>::new_from_slice(&[byte; 32]).unwrap();
    mac.update(&challenge);
    mac.update(&sequence.to_le_bytes());
    mac.update(&[3, 0, 0]);
    mac.update(format!("HostHost{HOST}\0{NQN}").as_bytes());
    let response = mac.finalize().into_bytes().to_vec();
    let reply = AuthenticationReply { transaction: 3, response, challenge: None, sequence: 0, exponential: Vec::new() };
    assert_eq!(send(rig, id, &HostMessage::Reply(reply)).status.status, Status::SUCCESS);
    let (message, close) = receive(rig, id);
    assert_eq!(close, !matches!(message, ControllerMessage::Success1 { .. }));
    !close
}

fn guarded() -> Rig {
    let config = SubsystemConfig { credentials: vec![credentials(HOST, 1, None)], ..config() };
    Rig::new(config, Box::new(NullDevice::new(1000, 512, Nanos(1))))
}

fn write() -> SubmissionEntry {
    let range = LbaRange { start: Lba(0), count: 1 };
    Command::write(NamespaceId(1), range, false).encode(CommandId(0)).unwrap().0
}

#[test]
fn hosts_that_are_not_listed() {
    let config = SubsystemConfig { allowed_hosts: vec![OTHER.to_owned()], ..config() };
    assert!(config.restricts_hosts());
    let mut rig = Rig::new(config, Box::new(NullDevice::new(1000, 512, Nanos(1))));
    let id = rig.open();
    let refused = rig.connect_as(id, 0, &ConnectData::new(HOST_ID, CNTLID_DYNAMIC, NQN, HOST), 0);
    assert_eq!((refused.status.status, refused.dw0), (Status::CONNECT_INVALID_HOST, 1 << 16 | 512));
    rig.admin(NQN, OTHER, 0);
    // A secret is a place on the list too, and the only one where there is no list.
    let mut rig = guarded();
    let id = rig.open();
    let refused = rig.connect_as(id, 0, &ConnectData::new(HOST_ID, CNTLID_DYNAMIC, NQN, OTHER), 0);
    assert_eq!(refused.status.status, Status::CONNECT_INVALID_HOST);
}

#[test]
fn nothing_passes_before_authentication() {
    let mut rig = guarded();
    let id = rig.open();
    let answer = rig.connect_as(id, 0, &ConnectData::new(HOST_ID, CNTLID_DYNAMIC, NQN, HOST), 0);
    assert_eq!((answer.status.status, answer.dw0 >> 16), (Status::SUCCESS, 2), "AUTHREQ.ATR");
    let cntlid = answer.dw0 as u16;
    let required = Status::AUTHENTICATION_REQUIRED;
    for command in [
        FabricsCommand::PropertyGet { offset: CSTS, wide: false },
        FabricsCommand::PropertySet { offset: CC, wide: false, value: ENABLED },
        FabricsCommand::Disconnect { format: 0 },
    ] {
        assert_eq!(rig.fabrics(id, command, &[]).status.status, required, "{command:?}");
    }
    for opcode in AdminOpcode::ALL.iter().filter(|opcode| **opcode != AdminOpcode::Fabrics) {
        let entry = admin_entry(*opcode);
        assert_eq!(rig.subsystem.transfer(id, &entry), Transfer::None);
        assert_eq!(rig.status(id, entry, &[]), required, "{opcode:?}");
    }
    assert_eq!(rig.queue(cntlid, 1).unwrap_err().status.status, required);
    assert!(authenticate(&mut rig, id, 1));
    assert_eq!(rig.set_property(id, CC, ENABLED), Status::SUCCESS);
    // Each queue authenticates for itself.
    let io = rig.queue(cntlid, 1).unwrap();
    assert_eq!(rig.subsystem.transfer(io, &write()), Transfer::None);
    assert_eq!(rig.status(io, write(), &[1; 512]), required);
    assert!(authenticate(&mut rig, io, 1));
    assert_eq!(rig.status(io, write(), &[1; 512]), Status::SUCCESS);
    assert_eq!(rig.subsystem.deadline(), None);
    // And again, while the queue is in use.
    assert!(authenticate(&mut rig, io, 1));
    assert_eq!(rig.status(io, write(), &[1; 512]), Status::SUCCESS);
}

#[test]
fn a_wrong_secret_ends_the_connection() {
    let mut rig = guarded();
    let (admin, _) = rig.admin(NQN, HOST, 0);
    assert!(!authenticate(&mut rig, admin, 2));
    assert_eq!(rig.subsystem.queue_depth(admin), 1, "it is gone");
    // Reauthentication that fails takes away what was.
    let (admin, cntlid) = rig.admin(NQN, HOST, 0);
    assert!(authenticate(&mut rig, admin, 1));
    rig.set_property(admin, CC, ENABLED);
    let io = rig.queue(cntlid, 1).unwrap();
    assert!(authenticate(&mut rig, io, 1));
    assert!(!authenticate(&mut rig, io, 2));
    assert_eq!(rig.status(io, write(), &[1; 512]), Status::ABORTED_SQ_DELETION);
    assert_eq!(rig.property(admin, CSTS), 1);
}

#[test]
fn authentication_takes_no_longer_than_it_may() {
    let mut rig = guarded();
    let (admin, _) = rig.admin(NQN, HOST, 0);
    rig.advance(Nanos(29_999_999_999));
    assert_eq!(rig.poll().1, []);
    rig.advance(Nanos(1));
    assert_eq!(rig.poll().1, [(admin, CloseReason::Authentication)]);
}

#[test]
fn who_need_not_authenticate_has_nothing_to_say() {
    let config = SubsystemConfig {
        allowed_hosts: vec![OTHER.to_owned()],
        credentials: vec![credentials(HOST, 1, None)],
        ..config()
    };
    let mut rig = Rig::new(config, Box::new(NullDevice::new(1000, 512, Nanos(1))));
    for (subsystem, host) in [(NQN, OTHER), (DISCOVERY_NQN, HOST)] {
        let (admin, _) = rig.admin(subsystem, host, 0);
        let message = HostMessage::Success2 { transaction: 0 };
        assert_eq!(send(&mut rig, admin, &message).status.status, Status::COMMAND_SEQUENCE_ERROR);
        assert_eq!(rig.set_property(admin, CC, ENABLED), Status::SUCCESS);
    }
    let (admin, _) = rig.admin(NQN, HOST, 0);
    for wrong in [
        SecurityFields { protocol: 0, ..fields(16) },
        SecurityFields { specific: 1, ..fields(16) },
        fields(0),
        fields(4097),
    ] {
        let answer = rig.fabrics(admin, FabricsCommand::AuthenticationSend(wrong), &[0; 4097]);
        assert_eq!(answer.status.status, Status::INVALID_FIELD, "{wrong:?}");
    }
    let short = rig.fabrics(admin, FabricsCommand::AuthenticationSend(fields(16)), &[0; 8]);
    assert_eq!(short.status.status, Status::DATA_TRANSFER_ERROR);
}

/// Somebody who only names a known host, again and again, keeps that host neither from a controller nor from a queue.
#[test]
fn whoever_only_names_a_host_cannot_keep_it_out() {
    let mut config = SubsystemConfig { controllers: 4, ..config() };
    config.credentials = vec![credentials(HOST, 7, None)];
    let mut rig = Rig::new(config, Box::new(NullDevice::new(1 << 16, 512, Nanos(1000))));
    let pretend = |rig: &mut Rig| {
        let id = rig.open();
        let answer = rig.connect_as(id, 0, &ConnectData::new(HOST_ID, CNTLID_DYNAMIC, NQN, HOST), 0);
        rig.poll();
        answer.status.status
    };
    for _ in 0..20 {
        assert_eq!(pretend(&mut rig), Status::SUCCESS);
    }
    let (admin, cntlid) = rig.admin(NQN, HOST, 0);
    for _ in 0..3 {
        pretend(&mut rig);
    }
    assert!(authenticate(&mut rig, admin, 7), "the honest host lost its controller to those who came before");
    for _ in 0..20 {
        assert_eq!(pretend(&mut rig), Status::SUCCESS);
    }
    assert_eq!(rig.set_property(admin, CC, ENABLED), Status::SUCCESS);
    // One who knows the controller and the host's identifier claims its queue, and cannot prove it.
    let thief = rig.queue(cntlid, 1).unwrap();
    let queue = rig.queue(cntlid, 1).unwrap();
    assert!(authenticate(&mut rig, queue, 7));
    assert!(!authenticate(&mut rig, thief, 8));
    assert_eq!(rig.status(queue, write(), &[1; 512]), Status::SUCCESS);
    // Nor does one who proves himself take it away afterwards.
    assert_eq!(rig.queue(cntlid, 1).unwrap_err().status.status, Status::CONNECT_INVALID_PARAMETERS);
    rig.poll();
    let told = rig.notices.join("\n");
    assert!(told.contains(&format!("authentication as host {HOST} failed")), "{told}");
}

#[test]
fn refusals_leave_a_line_and_no_escape_sequence() {
    let mut config = config();
    config.allowed_hosts = vec![HOST.to_owned()];
    let mut rig = Rig::new(config, Box::new(NullDevice::new(1 << 16, 512, Nanos(1000))));
    for (subsystem, host) in [
        (NQN, "nqn.2014-08.org.example:a\nready at b"),
        ("nqn.2014-08.org.example:\u{1b}[2J", HOST),
        ("nqn.2014-08.org.example:nowhere", HOST),
        (NQN, "nqn.2014-08.org.example:\u{202e}tsoh"),
    ] {
        let id = rig.open();
        let answer = rig.connect_as(id, 0, &ConnectData::new(HOST_ID, CNTLID_DYNAMIC, subsystem, host), 0);
        assert_ne!(answer.status.status, Status::SUCCESS);
    }
    rig.poll();
    let told = rig.notices.join("|");
    for part in [
        r":a\nready at b` is no NVMe Qualified Name",
        r":\u{1b}[2J` is no NVMe",
        "asks for the subsystem nqn.2014-08.org.example:nowhere",
        r":\u{202e}tsoh refused: it is not one of those that may connect",
    ] {
        assert!(told.contains(part), "no `{part}` in {told}");
    }
    assert!(!told.contains(['\n', '\u{1b}', '\u{202e}']), "{told}");
}
