//! Connecting, enabling, resetting, shutting down, and being forgotten.

use nvme::{
    AdminOpcode, CNTLID_DYNAMIC, Command, CommandId, ConnectData, DISCOVERY_NQN, FabricsCommand, NamespaceId, QueueId,
    Status, SubmissionEntry,
};
use serve::subsystem::{CloseReason, Reaction, SecretError, Subsystem, SubsystemError};
use ssd::NullDevice;
use units::Nanos;
use zerocopy::IntoBytes;

use super::host::{CC, CSTS, ENABLED, HOST, HOST_ID, NQN, Rig, admin_entry, config, entropy, rig};

fn flush() -> SubmissionEntry {
    Command::Flush { nsid: NamespaceId::ALL }.encode(CommandId(0)).unwrap().0
}

#[test]
fn what_connect_objects_to() {
    let mut rig = rig();
    let connect = |queue, size_zero_based, format| FabricsCommand::Connect {
        format,
        queue: QueueId(queue),
        size_zero_based,
        disable_flow_control: false,
        keep_alive_ms: 0,
    };
    let data = |host_id, cntlid, subsystem, host| ConnectData::new(host_id, cntlid, subsystem, host);
    let good = data(HOST_ID, CNTLID_DYNAMIC, NQN, HOST);
    let invalid = Status::CONNECT_INVALID_PARAMETERS;
    for (command, data, status, dword) in [
        (connect(0, 31, 1), good.clone(), Status::CONNECT_INCOMPATIBLE_FORMAT, 0),
        (connect(0, 0, 0), good.clone(), invalid, 44),
        (connect(0, 4095, 0), good.clone(), invalid, 44),
        (connect(0, 31, 0), data([0; 16], CNTLID_DYNAMIC, NQN, HOST), invalid, 1 << 16),
        (connect(0, 31, 0), data(HOST_ID, 1, NQN, HOST), invalid, 1 << 16 | 16),
        (
            connect(0, 31, 0),
            data(HOST_ID, CNTLID_DYNAMIC, "nqn.2014-08.org.example:other", HOST),
            invalid,
            1 << 16 | 256,
        ),
        (connect(0, 31, 0), data(HOST_ID, CNTLID_DYNAMIC, NQN, "somebody"), invalid, 1 << 16 | 512),
        // There is no controller that an I/O queue could belong to.
        (connect(1, 31, 0), data(HOST_ID, 500, NQN, HOST), invalid, 1 << 16 | 16),
        (connect(1, 31, 0), data(HOST_ID, CNTLID_DYNAMIC, DISCOVERY_NQN, HOST), invalid, 42),
    ] {
        let id = rig.open();
        let answer = rig.fabrics(id, command, data.as_bytes());
        assert_eq!((answer.status.status, answer.dw0), (status, dword), "{command:?}");
        assert_eq!(rig.fabrics(id, connect(0, 31, 0), good.as_bytes()).status.status, Status::SUCCESS);
    }
    // Connect comes first, and once.
    let id = rig.open();
    assert_eq!(rig.status(id, admin_entry(AdminOpcode::Identify), &[]), Status::COMMAND_SEQUENCE_ERROR);
    let property = FabricsCommand::PropertyGet { offset: CSTS, wide: false };
    assert_eq!(rig.fabrics(id, property, &[]).status.status, Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(rig.fabrics(id, connect(0, 31, 0), &good.as_bytes()[..100]).status.status, Status::DATA_TRANSFER_ERROR);
    assert_eq!(rig.subsystem.queue_depth(id), 1);
    assert_eq!(rig.fabrics(id, connect(0, 31, 0), good.as_bytes()).status.status, Status::SUCCESS);
    assert_eq!(rig.subsystem.queue_depth(id), 32);
    assert_eq!(rig.fabrics(id, connect(0, 31, 0), good.as_bytes()).status.status, Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn nothing_before_it_is_enabled() {
    let mut rig = rig();
    let (admin, cntlid) = rig.admin(NQN, HOST, 0);
    assert_eq!(rig.property(admin, CSTS), 0);
    for opcode in [AdminOpcode::Identify, AdminOpcode::GetLogPage, AdminOpcode::KeepAlive, AdminOpcode::GetFeatures] {
        assert_eq!(rig.status(admin, admin_entry(opcode), &[]), Status::COMMAND_SEQUENCE_ERROR);
    }
    let refused = rig.queue(cntlid, 1).unwrap_err();
    assert_eq!(refused.status.status, Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(rig.set_property(admin, CC, ENABLED), Status::SUCCESS);
    let io = rig.queue(cntlid, 1).unwrap();
    assert_eq!(rig.status(io, flush(), &[]), Status::SUCCESS);
    // Properties and admin commands are not for I/O queues.
    let property = FabricsCommand::PropertyGet { offset: CSTS, wide: false };
    assert_eq!(rig.fabrics(io, property, &[]).status.status, Status::INVALID_FIELD);
    assert_eq!(rig.status(io, admin_entry(AdminOpcode::KeepAlive), &[]), Status::INVALID_OPCODE);
}

#[test]
fn configurations_that_no_controller_runs_with() {
    for wrong in [
        1 << 7,     // pages of 8 KiB
        1 << 11,    // weighted round robin
        0b001 << 4, // a reserved command set, with the bits below
        1 << 16,    // submission entries of 128 bytes
        1 << 20,    // completion entries of 32 bytes
    ] {
        let mut rig = rig();
        let (admin, _) = rig.admin(NQN, HOST, 0);
        assert_eq!(rig.set_property(admin, CC, ENABLED ^ wrong), Status::SUCCESS);
        assert_eq!(rig.property(admin, CSTS), 0b10, "fatal, not ready: {wrong:#x}");
        assert_eq!(rig.status(admin, admin_entry(AdminOpcode::Identify), &[]), Status::COMMAND_SEQUENCE_ERROR);
        // A reset repairs it.
        assert_eq!(rig.set_property(admin, CC, 0), Status::SUCCESS);
        assert_eq!(rig.set_property(admin, CC, ENABLED), Status::SUCCESS);
        assert_eq!(rig.property(admin, CSTS), 1);
    }
    let mut rig = rig();
    let (admin, _) = rig.admin(NQN, HOST, 0);
    for (offset, wide) in [(0x08, false), (CSTS, false), (CC, true), (0x20, false), (0x18, false), (u32::MAX, false)] {
        let set = FabricsCommand::PropertySet { offset, wide, value: 1 };
        assert_eq!(rig.fabrics(admin, set, &[]).status.status, Status::INVALID_FIELD, "{offset:#x}");
    }
    let capabilities = rig.fabrics(admin, FabricsCommand::PropertyGet { offset: 0, wide: true }, &[]);
    assert_eq!((capabilities.dw0 & 0xffff, capabilities.dw1 >> 11 & 1), (127, 1), "entries, command sets");
}

#[test]
fn a_reset_ends_the_queues() {
    let mut rig = rig();
    let (admin, cntlid) = rig.enabled();
    let queues = [rig.queue(cntlid, 1).unwrap(), rig.queue(cntlid, 2).unwrap()];
    let hold = admin_entry(AdminOpcode::AsynchronousEventRequest);
    assert!(rig.command(admin, hold, &[]).is_none());
    // A command that the device has when the reset comes.
    let entry = SubmissionEntry { cid: 9.into(), ..flush() };
    let Reaction::Submit(request) = rig.subsystem.capsule(rig.now, queues[0], &entry, Box::default()) else { panic!() };
    assert_eq!(rig.set_property(admin, CC, ENABLED & !1), Status::SUCCESS);
    assert_eq!(rig.property(admin, CSTS), 0);
    assert_eq!(rig.status(queues[1], flush(), &[]), Status::ABORTED_SQ_DELETION);
    assert!(rig.subsystem.device_done(rig.now, request.token, Ok(Box::default()), 0).is_none());
    let (answers, closed) = rig.poll();
    assert!(answers.is_empty());
    assert_eq!(closed, queues.map(|id| (id, CloseReason::ControllerReset)));
    // The admin queue lives on, with all of its event requests free.
    assert_eq!(rig.set_property(admin, CC, ENABLED), Status::SUCCESS);
    for _ in 0..4 {
        assert!(rig.command(admin, hold, &[]).is_none());
    }
    assert_eq!(rig.status(admin, hold, &[]), Status::ASYNC_EVENT_LIMIT_EXCEEDED);
    let again = rig.queue(cntlid, 1).unwrap();
    assert_eq!(rig.status(again, flush(), &[]), Status::SUCCESS);
}

#[test]
fn a_shutdown_commits_the_cache() {
    let mut rig = rig();
    let mut identity = rig.device.identity().clone();
    identity.volatile_write_cache = true;
    rig.subsystem = Subsystem::new(config(), &identity, Box::new(entropy())).unwrap();
    let (admin, io) = rig.ready();
    assert_eq!(rig.set_property(admin, CC, ENABLED | 1 << 14), Status::SUCCESS);
    assert_eq!(rig.property(admin, CSTS), 0b0101, "the flush is under way");
    assert_eq!(rig.status(io, flush(), &[]), Status::COMMAND_SEQUENCE_ERROR);
    rig.poll();
    assert_eq!(rig.property(admin, CSTS), 0b1001, "complete");
    // Only a reset brings it back.
    assert_eq!(rig.set_property(admin, CC, ENABLED), Status::SUCCESS);
    assert_eq!(rig.status(admin, admin_entry(AdminOpcode::KeepAlive), &[]), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(rig.set_property(admin, CC, 0), Status::SUCCESS);
    assert_eq!(rig.set_property(admin, CC, ENABLED), Status::SUCCESS);
    assert_eq!(rig.status(admin, admin_entry(AdminOpcode::KeepAlive), &[]), Status::SUCCESS);
}

#[test]
fn a_shutdown_that_loses_data_is_none() {
    let mut rig = rig();
    let mut identity = rig.device.identity().clone();
    identity.volatile_write_cache = true;
    rig.subsystem = Subsystem::new(config(), &identity, Box::new(entropy())).unwrap();
    let (admin, _) = rig.ready();
    rig.set_property(admin, CC, ENABLED | 1 << 14);
    rig.subsystem.power_lost(rig.now);
    assert_eq!(rig.property(admin, CSTS), 0b0111, "fatal, and still under way");
}

#[test]
fn silent_hosts_are_dropped() {
    let mut rig = rig();
    // 4.3 s are rounded up to 5 s.
    let (admin, cntlid) = rig.admin(NQN, HOST, 4300);
    rig.set_property(admin, CC, ENABLED);
    let io = rig.queue(cntlid, 1).unwrap();
    for _ in 0..3 {
        rig.advance(Nanos(4_900_000_000));
        rig.poll();
        // Traffic on any queue is a sign of life.
        assert_eq!(rig.status(io, flush(), &[]), Status::SUCCESS);
    }
    assert_eq!(rig.subsystem.deadline(), Some(rig.now + Nanos(5_000_000_000) - Nanos(1000)));
    rig.advance(Nanos(5_000_000_000));
    let (_, closed) = rig.poll();
    assert_eq!(closed, [io, admin].map(|id| (id, CloseReason::KeepAliveExpired)));
    assert_eq!(rig.status(io, flush(), &[]), Status::ABORTED_SQ_DELETION);
    assert_eq!(rig.subsystem.deadline(), None);
    // Without a timeout a host may be silent for ever.
    let (admin, _) = rig.enabled();
    rig.advance(Nanos(u64::MAX / 4));
    assert_eq!(rig.poll().1, []);
    assert_eq!(rig.property(admin, CSTS), 1);
}

#[test]
fn connections_that_say_nothing_are_dropped() {
    let mut rig = rig();
    let idle = rig.open();
    let (discovery, _) = rig.admin(DISCOVERY_NQN, HOST, 0);
    rig.advance(Nanos(9_999_999_999));
    assert_eq!(rig.poll().1, []);
    rig.advance(Nanos(1));
    assert_eq!(rig.poll().1, [(idle, CloseReason::ConnectTimeout)]);
    rig.advance(Nanos(110_000_000_000));
    assert_eq!(rig.poll().1, [(discovery, CloseReason::KeepAliveExpired)]);
}

#[test]
fn limits() {
    let config = serve::subsystem::SubsystemConfig { controllers: 2, io_queues: 2, ..config() };
    let mut rig = Rig::new(config, Box::new(NullDevice::new(1000, 512, Nanos(1))));
    let (first, cntlid) = rig.enabled();
    let _ = rig.admin(NQN, HOST, 0);
    let id = rig.open();
    let data = ConnectData::new(HOST_ID, CNTLID_DYNAMIC, NQN, HOST);
    let busy = rig.connect_as(id, 0, &data, 0);
    assert_eq!(busy.status.status, Status::CONNECT_CONTROLLER_BUSY);
    assert!(!busy.status.do_not_retry);
    let io = rig.queue(cntlid, 2).unwrap();
    assert_eq!(rig.queue(cntlid, 2).unwrap_err().dw0, 42, "in use");
    assert_eq!(rig.queue(cntlid, 3).unwrap_err().dw0, 42, "too many");
    // Another host, or another instance of it.
    for (host_id, host, offset) in [(HOST_ID, "nqn.2014-08.org.example:x", 512), ([1; 16], HOST, 0)] {
        let id = rig.open();
        let refused = rig.connect_as(id, 1, &ConnectData::new(host_id, cntlid, NQN, host), 0);
        assert_eq!((refused.status.status, refused.dw0), (Status::CONNECT_INVALID_PARAMETERS, 1 << 16 | offset));
    }
    // The queue is free again once its connection has gone; Disconnect is polite.
    let answer = rig.fabrics(io, FabricsCommand::Disconnect { format: 0 }, &[]);
    assert!(answer.close && answer.status.status.is_success());
    let io = rig.queue(cntlid, 2).unwrap();
    assert_eq!(
        rig.fabrics(first, FabricsCommand::Disconnect { format: 0 }, &[]).status.status,
        Status::INVALID_QUEUE_TYPE
    );
    rig.subsystem.closed(rig.now, first);
    assert_eq!(rig.poll().1, [(io, CloseReason::AdminQueueClosed)]);
    // Its place is free, and its identifier is not used again at once.
    let (_, next) = rig.admin(NQN, HOST, 0);
    assert!(next > cntlid + 1);
}

#[test]
fn identifiers_in_use_are_refused() {
    let mut rig = rig();
    let (_, io) = rig.ready();
    let entry = SubmissionEntry { cid: 500.into(), ..flush() };
    let Reaction::Submit(request) = rig.subsystem.capsule(rig.now, io, &entry, Box::default()) else { panic!() };
    let Reaction::Complete(conflict) = rig.subsystem.capsule(rig.now, io, &entry, Box::default()) else { panic!() };
    assert_eq!(conflict.status.status, Status::COMMAND_ID_CONFLICT);
    let done = rig.subsystem.device_done(rig.now, request.token, Ok(Box::default()), 0);
    assert!(matches!(done, Some((id, Reaction::Complete(answer))) if id == io && answer.status.status.is_success()));
    // Connect, flush twice: the head of the queue has gone on by 3.
    let answer = rig.run(io, flush(), &[]);
    assert_eq!(answer.sqhd, Some(4));
    assert_eq!(answer.entry().sqhd.get(), 4);
    assert!(rig.subsystem.device_done(rig.now, request.token, Ok(Box::default()), 0).is_none(), "a token is good once");
}

#[test]
fn flow_control_can_be_off() {
    let mut rig = rig();
    let id = rig.open();
    let command = FabricsCommand::Connect {
        format: 0,
        queue: QueueId(0),
        size_zero_based: 31,
        disable_flow_control: true,
        keep_alive_ms: 0,
    };
    let data = ConnectData::new(HOST_ID, CNTLID_DYNAMIC, NQN, HOST);
    assert_eq!(rig.fabrics(id, command, data.as_bytes()).sqhd, Some(0xffff));
    let property = FabricsCommand::PropertyGet { offset: CSTS, wide: false };
    assert_eq!(rig.fabrics(id, property, &[]).sqhd, None);
}

#[test]
fn subsystems_that_cannot_be() {
    let device = NullDevice::new(1000, 512, Nanos(1));
    let make = |change: &dyn Fn(&mut serve::subsystem::SubsystemConfig)| {
        let mut config = config();
        change(&mut config);
        Subsystem::new(config, ssd::Device::identity(&device), Box::new(entropy())).err()
    };
    assert_eq!(make(&|_| {}), None);
    let nqn = |name: &str| Some(SubsystemError::Nqn { name: name.to_owned() });
    assert_eq!(make(&|config| config.nqn = "plumb".to_owned()), nqn("plumb"));
    assert_eq!(make(&|config| config.nqn = DISCOVERY_NQN.to_owned()), Some(SubsystemError::DiscoveryNqn));
    assert_eq!(make(&|config| config.allowed_hosts.push("me".to_owned())), nqn("me"));
    assert!(matches!(
        make(&|config| config.max_transfer_bytes = 4096),
        Some(SubsystemError::Limit { least: 8192, .. })
    ));
    assert!(matches!(make(&|config| config.firmware = "a very long one".to_owned()), Some(SubsystemError::Facts(_))));
    let twice = super::access::credentials(HOST, 1, None);
    let error = make(&|config| config.credentials = vec![twice.clone(), twice.clone()]);
    assert_eq!(error, Some(SubsystemError::Secret(SecretError::Twice { host: HOST.to_owned() })));
    let text = error.unwrap().to_string();
    assert!(text.contains(HOST) && text.contains("one"), "{text}");
}
