//! Admin commands: Identify, features, log pages, events, Abort.

use nvme::{
    AdminOpcode, AsynchronousEvent, ChangedZoneList, CommandEffectsLog, CriticalWarning, DISCOVERY_NQN,
    DiscoveryLogEntry, DiscoveryLogHeader, ErrorLogEntry, GetLogPage, HealthLog, IdentifyCommandSet,
    IdentifyController, IdentifyIndependentNamespace, IdentifyNamespace, IdentifyNvmNamespace, IdentifyZonedController,
    IdentifyZonedNamespace, Lba, NamespaceId, NamespaceList, OrderingCapability, Status, SubmissionEntry,
    SupportedLogPages,
};
use serve::subsystem::{ConnectionId, Transfer};
use zerocopy::{FromBytes, IntoBytes};

use super::host::{CC, ENABLED, HOST, HOST_ID, NQN, Rig, admin_entry, rig, zoned_rig};

fn features(opcode: AdminOpcode, cdw10: u32, cdw11: u32) -> SubmissionEntry {
    SubmissionEntry { cdw10: cdw10.into(), cdw11: cdw11.into(), nsid: u32::MAX.into(), ..admin_entry(opcode) }
}

fn get(rig: &mut Rig, id: ConnectionId, cdw10: u32) -> Result<u32, Status> {
    let answer = rig.run(id, features(AdminOpcode::GetFeatures, cdw10, 0), &[]);
    if answer.status.status.is_success() { Ok(answer.dw0) } else { Err(answer.status.status) }
}

fn set(rig: &mut Rig, id: ConnectionId, cdw10: u32, cdw11: u32) -> Status {
    rig.status(id, features(AdminOpcode::SetFeatures, cdw10, cdw11), &[])
}

fn page(identifier: u8, bytes: u64) -> GetLogPage {
    GetLogPage {
        identifier,
        specific: 0,
        retain_event: false,
        bytes,
        offset: 0,
        index_offset: false,
        command_set: 0,
        nsid: NamespaceId::ALL,
    }
}

fn log(rig: &mut Rig, id: ConnectionId, command: GetLogPage) -> Result<Box<[u8]>, Status> {
    let mut entry = SubmissionEntry::default();
    command.encode(&mut entry);
    let answer = rig.run(id, entry, &[]);
    if answer.status.status.is_success() { Ok(answer.data) } else { Err(answer.status.status) }
}

#[test]
fn a_controller_says_what_it_is() {
    let mut rig = rig();
    let (admin, cntlid) = rig.enabled();
    let id = rig.identify::<IdentifyController>(admin, 1, 0, 0).unwrap();
    assert_eq!((id.cntlid.get(), id.cntrltype, id.ver.get()), (cntlid, 1, 0x20000));
    assert_eq!((id.max_transfer_bytes(), id.nn.get()), (Some(1 << 20), 1));
    // (64 + 8192) / 16, and what Linux insists on.
    assert_eq!((id.ioccsz.get(), id.iorcsz.get(), id.icdoff.get()), (516, 1, 0));
    assert!(id.kas.get() > 0 && id.maxcmd.get() == 128 && id.sgls.get() & 0b11 == 1);
    assert_eq!(nvme::nqn_of(&id.subnqn), Some(NQN));
    // No order is offered.
    assert_eq!(OrderingCapability::of(&id.vs), Some(OrderingCapability::none()));
    assert!(id.vs[32..].iter().all(|byte| *byte == 0));

    let namespace = rig.identify::<IdentifyNamespace>(admin, 0, 1, 0).unwrap();
    assert_eq!((namespace.nsze.get(), namespace.lba_bytes()), (1 << 20, Some(512)));
    assert_ne!(namespace.nguid, [0; 16]);
    let independent = rig.identify::<IdentifyIndependentNamespace>(admin, 8, 1, 0).unwrap();
    assert_eq!((independent.nstat, independent.nmic), (1, namespace.nmic));
    let list = rig.identify::<NamespaceList>(admin, 2, 0, 0).unwrap();
    assert_eq!(list.iter().collect::<Vec<_>>(), [NamespaceId(1)]);
    assert_eq!(rig.identify::<NamespaceList>(admin, 2, 1, 0).unwrap().iter().count(), 0);
    assert_eq!(rig.identify::<NamespaceList>(admin, 7, 0, 2), Err(Status::INVALID_FIELD));
    let sets = rig.identify::<IdentifyCommandSet>(admin, 0x1c, 0, 0).unwrap();
    assert_eq!((sets.iocsc[0].get(), sets.iocsc[1].get()), (1, 0));
    let nvm = rig.identify::<IdentifyNvmNamespace>(admin, 5, 1, 0).unwrap();
    assert_eq!(nvm.elbaf[0].get(), 0);
    let descriptors = rig.identify::<[u8; 4096]>(admin, 3, 1, 0).unwrap();
    assert_eq!(descriptors[4..12], namespace.eui64);
    assert_eq!(descriptors[16..32], namespace.nguid);
    assert_eq!(descriptors[52..58], [4, 1, 0, 0, 0, 0]);
    for (cns, nsid, csi, status) in [
        (0, 2, 0, Status::INVALID_NAMESPACE),
        (0, u32::MAX, 0, Status::INVALID_NAMESPACE),
        (3, 0, 0, Status::INVALID_NAMESPACE),
        (2, u32::MAX, 0, Status::INVALID_NAMESPACE),
        (5, 1, 2, Status::INVALID_FIELD),
        (5, 1, 1, Status::INVALID_FIELD),
        (6, 0, 2, Status::INVALID_FIELD),
        (0x11, 1, 0, Status::INVALID_FIELD),
        (0xff, 1, 0, Status::INVALID_FIELD),
    ] {
        assert_eq!(rig.identify::<[u8; 4096]>(admin, cns, nsid, csi), Err(status), "{cns:#x} {nsid} {csi}");
    }
}

#[test]
fn a_zoned_device_says_so() {
    let mut rig = zoned_rig();
    let (admin, _) = rig.enabled();
    let zones = rig.device.identity().zoned.clone().unwrap();
    let id = rig.identify::<IdentifyZonedNamespace>(admin, 5, 1, 2).unwrap();
    assert_eq!((id.max_open(), id.max_active()), (zones.max_open, zones.max_active));
    assert_eq!(id.lbafe[0].zsze.get(), zones.zone_blocks);
    let limit = rig.identify::<IdentifyZonedController>(admin, 6, 0, 2).unwrap().append_limit_bytes();
    assert_eq!(limit.unwrap_or(rig.subsystem.max_transfer_bytes()), zones.append_limit_bytes);
    assert_eq!(rig.identify::<NamespaceList>(admin, 7, 0, 2).unwrap().iter().count(), 1);
    assert_eq!(rig.identify::<NamespaceList>(admin, 7, 0, 0).unwrap().iter().count(), 0);
    let sets = rig.identify::<IdentifyCommandSet>(admin, 0x1c, 0, 0).unwrap();
    assert_eq!(sets.iocsc[0].get(), 0b101);
    let descriptors = rig.identify::<[u8; 4096]>(admin, 3, 1, 0).unwrap();
    assert_eq!(descriptors[52..57], [4, 1, 0, 0, 2]);
    let log = log(&mut rig, admin, GetLogPage { command_set: 2, ..page(5, 4096) }).unwrap();
    let effects = CommandEffectsLog::read_from_bytes(&log).unwrap();
    assert_eq!((effects.iocs[0x7d].get(), effects.iocs[0x7a].get(), effects.iocs[0x09].get()), (3, 1, 0));
}

#[test]
fn features_there_and_back() {
    let mut rig = rig();
    let (admin, cntlid) = rig.admin(NQN, HOST, 5000);
    rig.set_property(admin, CC, ENABLED);
    // (feature, value set, value got, default, what can be done)
    for (feature, value, got, default, capabilities) in [
        (0x01, 0x0102_0307, 0x0102_0307, 0, 0b100),
        (0x02, 0, 0, 0, 0b100),
        (0x04, 353, 353, 0xffff, 0b100),
        (0x05, 100, 100, 0, 0b110),
        (0x0a, 1, 1, 0, 0b100),
        (0x0b, u32::MAX, 0x11f, 0, 0b100),
        (0x0f, 7001, 8000, 0, 0b100),
    ] {
        assert_eq!(get(&mut rig, admin, feature | 1 << 8), Ok(default), "{feature:#x}");
        assert_eq!(set(&mut rig, admin, feature, value), Status::SUCCESS, "{feature:#x}");
        assert_eq!(get(&mut rig, admin, feature), Ok(got), "{feature:#x}");
        assert_eq!(get(&mut rig, admin, feature | 2 << 8), Ok(default), "{feature:#x}: nothing was saved");
        assert_eq!(get(&mut rig, admin, feature | 3 << 8), Ok(capabilities), "{feature:#x}");
        assert_eq!(set(&mut rig, admin, feature | 1 << 31, value), Status::FEATURE_NOT_SAVEABLE);
        assert_eq!(get(&mut rig, admin, feature | 4 << 8), Err(Status::INVALID_FIELD), "a reserved selector");
    }
    for (feature, value, status) in [
        (0x02, 1, Status::INVALID_FIELD),       // no such power state
        (0x04, 1 << 16, Status::INVALID_FIELD), // no such sensor
        (0x05, 1 << 16, Status::INVALID_FIELD), // DULBE
        (0x06, 1, Status::INVALID_FIELD),       // there is no cache
        (0x07, 0xffff, Status::INVALID_FIELD),
        (0x08, 0, Status::INVALID_FIELD), // no interrupts over fabrics
        (0x19, 1, Status::COMMAND_SET_COMBINATION_REJECTED),
        (0x81, 1, Status::COMMAND_SEQUENCE_ERROR),
        (0xc0, 0, Status::INVALID_FIELD),
    ] {
        assert_eq!(set(&mut rig, admin, feature, value), status, "{feature:#x}");
    }
    assert_eq!(rig.run(admin, features(AdminOpcode::SetFeatures, 7, 0x0007_0003), &[]).dw0, 0x0007_0007);
    assert_eq!(rig.run(admin, features(AdminOpcode::SetFeatures, 7, 0x0fff_0fff), &[]).dw0, 0x003f_003f);
    let entry = features(AdminOpcode::GetFeatures, 0x81, 1);
    assert_eq!(rig.subsystem.transfer(admin, &entry), Transfer::ControllerToHost { bytes: 16 });
    assert_eq!(*rig.run(admin, entry, &[]).data, HOST_ID);
    let io = rig.queue(cntlid, 1).unwrap();
    assert_eq!(set(&mut rig, admin, 7, 0), Status::COMMAND_SEQUENCE_ERROR, "queues exist");
    rig.subsystem.closed(rig.now, io);
    assert_eq!(set(&mut rig, admin, 7, 0), Status::SUCCESS);
    // A reset brings the defaults back.
    rig.set_property(admin, CC, 0);
    rig.set_property(admin, CC, ENABLED);
    assert_eq!((get(&mut rig, admin, 1), get(&mut rig, admin, 7)), (Ok(0), Ok(0x003f_003f)));
}

#[test]
fn the_cache_cannot_be_switched_off() {
    let mut rig = rig();
    let mut identity = rig.device.identity().clone();
    identity.volatile_write_cache = true;
    rig.subsystem =
        serve::subsystem::Subsystem::new(super::host::config(), &identity, Box::new(super::host::entropy())).unwrap();
    let (admin, _) = rig.enabled();
    assert_eq!(rig.identify::<IdentifyController>(admin, 1, 0, 0).unwrap().vwc & 1, 1);
    assert_eq!((get(&mut rig, admin, 6), get(&mut rig, admin, 6 | 3 << 8)), (Ok(1), Ok(0)));
    assert_eq!(set(&mut rig, admin, 6, 1), Status::SUCCESS);
    assert_eq!(set(&mut rig, admin, 6, 0), Status::FEATURE_NOT_CHANGEABLE);
}

#[test]
fn log_pages_and_their_ends() {
    let mut rig = rig();
    let (admin, _) = rig.ready();
    let supported = SupportedLogPages::read_from_bytes(&log(&mut rig, admin, page(0, 1024)).unwrap()).unwrap();
    for (identifier, support) in (0..=255_u8).zip(supported.lid_support) {
        let read = log(&mut rig, admin, GetLogPage { nsid: NamespaceId::ALL, ..page(identifier, 64) });
        assert_eq!(read.is_ok(), support.get() & 1 == 1, "{identifier:#x}: {read:?}");
        assert!(read.is_ok() || read == Err(Status::INVALID_LOG_PAGE));
    }
    // Parts, what is behind the end, and what is too far.
    let whole = log(&mut rig, admin, page(3, 512)).unwrap();
    let part = log(&mut rig, admin, GetLogPage { offset: 8, ..page(3, 8) }).unwrap();
    assert_eq!((whole[0], &whole[8..16]), (1, &*part));
    let last = log(&mut rig, admin, GetLogPage { offset: 508, ..page(3, 16) }).unwrap();
    assert_eq!(*last, [0; 16]);
    for wrong in [
        GetLogPage { offset: 516, ..page(3, 4) },
        GetLogPage { offset: 2, ..page(3, 4) },
        GetLogPage { offset: u64::MAX - 3, ..page(3, 4) },
        GetLogPage { index_offset: true, ..page(3, 4) },
        page(3, 2 << 20),
        GetLogPage { nsid: NamespaceId(1), ..page(2, 512) },
        GetLogPage { command_set: 2, ..page(5, 4096) },
    ] {
        assert_eq!(log(&mut rig, admin, wrong), Err(Status::INVALID_FIELD), "{wrong:?}");
    }
    let mut entry = SubmissionEntry::default();
    page(3, 2 << 20).encode(&mut entry);
    assert_eq!(rig.subsystem.transfer(admin, &entry), Transfer::None, "more than MDTS is not buffered");
}

#[test]
fn errors_and_traffic_are_counted() {
    let mut rig = rig();
    let (admin, io) = rig.ready();
    let write = |start, count| {
        let range = nvme::LbaRange { start: Lba(start), count };
        let write = nvme::Command::write(NamespaceId(1), range, false);
        write.encode(nvme::CommandId(0)).unwrap().0
    };
    for _ in 0..3 {
        assert_eq!(rig.status(io, write(0, 1000), &vec![1; 512_000]), Status::SUCCESS);
    }
    let beyond = rig.run(io, write(1 << 20, 1), &[0; 512]);
    assert_eq!(beyond.status.status, Status::LBA_OUT_OF_RANGE);
    assert!(beyond.status.do_not_retry && beyond.status.more);
    assert_eq!(set(&mut rig, admin, 0xc0, 0), Status::INVALID_FIELD);
    let health = HealthLog::read_from_bytes(&log(&mut rig, admin, page(2, 512)).unwrap()).unwrap();
    assert_eq!((health.data_units_written[0], health.host_writes[0], health.host_reads[0]), (3, 3, 0));
    assert_eq!((health.num_err_log_entries[0], health.temperature.get(), health.avail_spare), (2, 300, 100));
    let errors = log(&mut rig, admin, page(1, 128)).unwrap();
    let newest = ErrorLogEntry::read_from_bytes(&errors[..64]).unwrap();
    let oldest = ErrorLogEntry::read_from_bytes(&errors[64..]).unwrap();
    assert_eq!((newest.error_count.get(), newest.sqid.get(), newest.trtype), (2, 0, 3));
    assert_eq!((oldest.error_count.get(), oldest.sqid.get(), oldest.lba.get()), (1, 1, 1 << 20));
    assert_eq!(oldest.cmdid.get(), beyond.cid.0);
}

#[test]
fn hosts_are_told_of_zones_that_change() {
    let mut rig = zoned_rig();
    let (admin, _) = rig.enabled();
    let hold = admin_entry(AdminOpcode::AsynchronousEventRequest);
    let tell = |rig: &mut Rig| rig.poll().0.into_iter().map(|(_, answer)| answer.dw0).collect::<Vec<_>>();
    // Masked: remembered in the list only.
    assert!(rig.command(admin, hold, &[]).is_none());
    rig.subsystem.zones_changed(rig.now, NamespaceId(1), &[Lba(0)]);
    assert_eq!(tell(&mut rig), [0; 0]);
    assert_eq!(set(&mut rig, admin, 0x0b, u32::MAX), Status::SUCCESS);
    assert_eq!(get(&mut rig, admin, 0x0b), Ok(1 << 27 | 1 << 8 | 0x1f));
    let zone = rig.device.identity().zoned.clone().unwrap().zone_blocks;
    rig.subsystem.zones_changed(rig.now, NamespaceId(1), &[Lba(zone)]);
    assert_eq!(tell(&mut rig), [AsynchronousEvent::ZONE_CHANGED.dword()]);
    // Until the log is read nothing more is told, and RAE does not count as reading.
    assert!(rig.command(admin, hold, &[]).is_none());
    rig.subsystem.zones_changed(rig.now, NamespaceId(1), &[Lba(2 * zone)]);
    let list = GetLogPage { nsid: NamespaceId(1), ..page(0xbf, 4096) };
    let read = |rig: &mut Rig, list| ChangedZoneList::read_from_bytes(&log(rig, admin, list).unwrap()).unwrap();
    let zones = ChangedZoneList::of([Lba(0), Lba(zone), Lba(2 * zone)]);
    assert_eq!(read(&mut rig, GetLogPage { retain_event: true, ..list }), zones);
    assert_eq!(tell(&mut rig), [0; 0]);
    assert_eq!(read(&mut rig, list), zones);
    assert_eq!(read(&mut rig, list), ChangedZoneList::of([]));
    rig.subsystem.zones_changed(rig.now, NamespaceId(1), &[Lba(zone)]);
    assert_eq!(tell(&mut rig), [AsynchronousEvent::ZONE_CHANGED.dword()]);
    assert_eq!(log(&mut rig, admin, GetLogPage { nsid: NamespaceId(9), ..list }), Err(Status::INVALID_NAMESPACE));
}

#[test]
fn hosts_are_told_of_the_devices_state() {
    let mut rig = rig();
    let (admin, io) = rig.ready();
    let hold = admin_entry(AdminOpcode::AsynchronousEventRequest);
    for _ in 0..4 {
        assert!(rig.command(admin, hold, &[]).is_none());
    }
    set(&mut rig, admin, 0x0b, u32::MAX);
    rig.subsystem.set_critical_warning(rig.now, CriticalWarning::READ_ONLY);
    rig.subsystem.namespace_changed(rig.now, NamespaceId(1));
    let told = rig.poll().0.into_iter().map(|(_, answer)| answer.dw0).collect::<Vec<_>>();
    assert_eq!(told, [AsynchronousEvent::RELIABILITY.dword(), AsynchronousEvent::NAMESPACE_CHANGED.dword()]);
    assert_eq!(log(&mut rig, admin, page(2, 512)).unwrap()[0], CriticalWarning::READ_ONLY.bits());
    let list = NamespaceList::read_from_bytes(&log(&mut rig, admin, page(4, 4096)).unwrap()).unwrap();
    assert_eq!(list.iter().collect::<Vec<_>>(), [NamespaceId(1)]);
    // The same warning again is no news.
    rig.subsystem.set_critical_warning(rig.now, CriticalWarning::READ_ONLY);
    assert_eq!(rig.poll().0.len(), 0);
    // An error cannot be masked.
    set(&mut rig, admin, 0x0b, 0);
    rig.subsystem.fail(rig.now);
    assert_eq!(rig.poll().0[0].1.dw0, AsynchronousEvent::PERSISTENT_INTERNAL_ERROR.dword());
    assert_eq!(rig.property(admin, super::host::CSTS), 0b11);
    let flush = SubmissionEntry { nsid: 1.into(), ..SubmissionEntry::default() };
    assert_eq!(rig.status(io, flush, &[]), Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn abort_reaches_what_is_held() {
    let mut rig = rig();
    let (admin, _) = rig.enabled();
    let hold = SubmissionEntry { cid: 999.into(), ..admin_entry(AdminOpcode::AsynchronousEventRequest) };
    let reaction = rig.subsystem.capsule(rig.now, admin, &hold, Box::default());
    assert!(matches!(reaction, serve::subsystem::Reaction::Held));
    let abort =
        |queue: u32, cid: u32| SubmissionEntry { cdw10: (queue | cid << 16).into(), ..admin_entry(AdminOpcode::Abort) };
    assert_eq!(rig.run(admin, abort(0, 998), &[]).dw0, 1, "no such command");
    assert_eq!(rig.run(admin, abort(1, 999), &[]).dw0, 1, "not of that queue");
    assert_eq!(rig.run(admin, abort(0, 999), &[]).dw0, 0);
    let (answers, _) = rig.poll();
    assert_eq!((answers[0].1.cid.0, answers[0].1.status.status), (999, Status::ABORT_REQUESTED));
    assert_eq!(rig.run(admin, abort(0, 999), &[]).dw0, 1);
}

#[test]
fn discovery() {
    let mut rig = rig();
    let (admin, cntlid) = rig.admin(DISCOVERY_NQN, HOST, 0);
    // A discovery controller does not look at entry sizes, of which it has none.
    rig.set_property(admin, CC, 1);
    let id = rig.identify::<IdentifyController>(admin, 1, 0, 0).unwrap();
    assert_eq!((id.cntrltype, id.cntlid.get(), nvme::nqn_of(&id.subnqn)), (2, cntlid, Some(DISCOVERY_NQN)));
    assert_eq!(rig.identify::<[u8; 4096]>(admin, 0, 1, 0), Err(Status::INVALID_FIELD));
    assert_eq!(rig.status(admin, admin_entry(AdminOpcode::Abort), &[]), Status::INVALID_OPCODE);
    assert_eq!(get(&mut rig, admin, 1), Err(Status::INVALID_FIELD));
    let read = |rig: &mut Rig| {
        let log = log(rig, admin, page(0x70, 3072)).unwrap();
        let (head, entries) = log.split_at(1024);
        let entry = |index: usize| DiscoveryLogEntry::read_from_bytes(&entries[index * 1024..][..1024]).unwrap();
        (DiscoveryLogHeader::read_from_bytes(head).unwrap(), entry(0), entry(1))
    };
    let (head, own, nvm) = read(&mut rig);
    assert_eq!((head.numrec.get(), own.subtype, nvm.subtype), (2, 3, 2));
    assert_eq!(
        (nvme::nqn_of(&nvm.subnqn), &nvm.traddr[..10], &nvm.trsvcid[..5]),
        (Some(NQN), &b"127.0.0.1 "[..], &b"4420 "[..])
    );
    // Whoever may not connect does not see it, and is told that it has gone.
    set(&mut rig, admin, 0x0b, 1 << 31);
    let hold = admin_entry(AdminOpcode::AsynchronousEventRequest);
    assert!(rig.command(admin, hold, &[]).is_none());
    rig.subsystem.set_allowed_hosts(rig.now, vec!["nqn.2014-08.org.example:other".to_owned()]);
    assert_eq!(rig.poll().0[0].1.dw0, AsynchronousEvent::DISCOVERY_CHANGED.dword());
    let (changed, _, gone) = read(&mut rig);
    assert_eq!((changed.numrec.get(), gone.as_bytes()), (1, &[0; 1024][..]));
    assert!(changed.genctr > head.genctr);
    // An I/O controller has no discovery log, and this one nothing else.
    assert_eq!(log(&mut rig, admin, page(2, 512)), Err(Status::INVALID_LOG_PAGE));
}
