//! I/O commands: what they move, what is refused, and what is done around the device.

use nvme::{
    Closing, Command, CommandId, Epoch, Lba, LbaRange, NamespaceId, Status, Stream, StreamEpoch, SubmissionEntry,
    WriteCommand, WriteOrder, ZoneReceiveAction, ZoneReportFilter, ZoneReportHeader, ZoneSendAction, ZoneState,
};
use serve::backend::Request;
use serve::subsystem::{ConnectionId, Reaction, Subsystem, SubsystemConfig, Transfer};
use ssd::NullDevice;
use units::Nanos;
use zerocopy::FromBytes;

use super::host::{CC, CSTS, ENABLED, HOST, NQN, Rig, config, entropy, rig, zoned_rig};

const NSID: NamespaceId = NamespaceId::FIRST;

fn range(start: u64, count: u32) -> LbaRange {
    LbaRange { start: Lba(start), count }
}

fn entry(command: &Command) -> (SubmissionEntry, Vec<u8>) {
    command.encode(CommandId(0)).unwrap()
}

fn write(rig: &mut Rig, io: ConnectionId, start: u64, data: &[u8]) -> Status {
    let count = (data.len() / rig.device.identity().lba_bytes as usize) as u32;
    rig.status(io, entry(&Command::write(NSID, range(start, count), false)).0, data)
}

fn read(rig: &mut Rig, io: ConnectionId, start: u64, count: u32) -> Box<[u8]> {
    let answer = rig.run(io, entry(&Command::Read { nsid: NSID, range: range(start, count), fua: false }).0, &[]);
    assert_eq!(answer.status.status, Status::SUCCESS);
    answer.data
}

#[test]
fn data_there_and_back() {
    let mut rig = rig();
    let (_, io) = rig.ready();
    let data = (0..2048_u32).map(|index| (index * 31 / 8) as u8).collect::<Vec<_>>();
    assert_eq!(write(&mut rig, io, 100, &data), Status::SUCCESS);
    assert_eq!(*read(&mut rig, io, 100, 4), *data);
    assert_eq!(*read(&mut rig, io, 101, 1), data[512..1024]);
    let zeroes = Command::WriteZeroes { nsid: NSID, range: range(101, 1), fua: true, deallocate: false };
    assert_eq!(rig.status(io, entry(&zeroes).0, &[]), Status::SUCCESS);
    assert_eq!(*read(&mut rig, io, 101, 1), [0; 512]);
    // Linux sends whole pages of ranges.
    let (deallocate, mut ranges) = entry(&Command::Deallocate { nsid: NSID, ranges: [range(102, 1)].into() });
    ranges.resize(4096, 0);
    assert_eq!(rig.subsystem.transfer(io, &deallocate), Transfer::HostToController { bytes: 16 });
    assert_eq!(rig.status(io, deallocate, &ranges), Status::SUCCESS);
    assert_eq!(*read(&mut rig, io, 102, 1), [0; 512]);
    assert_eq!(*read(&mut rig, io, 103, 1), data[1536..]);
}

#[test]
fn compare() {
    let mut rig = rig();
    let (_, io) = rig.ready();
    let data = vec![5; 1024];
    write(&mut rig, io, 8, &data);
    let mut compare = entry(&Command::write(NSID, range(8, 2), false)).0;
    compare.opc = nvme::IoOpcode::Compare as u8;
    assert_eq!(rig.subsystem.transfer(io, &compare), Transfer::HostToController { bytes: 1024 });
    assert_eq!(rig.status(io, compare, &data), Status::SUCCESS);
    let mut other = data.clone();
    other[1023] = 6;
    assert_eq!(rig.status(io, compare, &other), Status::COMPARE_FAILURE);
    assert_eq!(rig.status(io, compare, &data[..512]), Status::DATA_TRANSFER_ERROR);
    // More than the command has blocks is not looked at.
    let longer = [&data[..], &[1; 512]].concat();
    let reaction = rig.subsystem.capsule(rig.now, io, &compare, longer.into());
    let Reaction::Submit(request) = reaction else { panic!("{reaction:?}") };
    let done = rig.subsystem.device_done(rig.now, request.token, Ok(data.clone().into()), 0);
    assert!(matches!(done, Some((_, Reaction::Complete(answer))) if answer.status.status.is_success()));
    compare.set_slba(u64::MAX);
    assert_eq!(rig.status(io, compare, &data), Status::LBA_OUT_OF_RANGE);
}

#[test]
fn what_is_refused() {
    let mut rig = rig();
    let (_, io) = rig.ready();
    let blocks = 1 << 20;
    let data = vec![0; 1 << 20];
    let command = |command: Command| entry(&command).0;
    let read = |start, count| command(Command::Read { nsid: NSID, range: range(start, count), fua: false });
    let write = |start, count| command(Command::write(NSID, range(start, count), false));
    let elsewhere = |mut entry: SubmissionEntry, nsid: u32| {
        entry.nsid = nsid.into();
        entry
    };
    let zeroes =
        |start| command(Command::WriteZeroes { nsid: NSID, range: range(start, 8), fua: false, deallocate: false });
    for (what, status) in [
        (read(blocks, 1), Status::LBA_OUT_OF_RANGE),
        (read(blocks - 1, 2), Status::LBA_OUT_OF_RANGE),
        (read(u64::MAX, 1), Status::LBA_OUT_OF_RANGE),
        (write(u64::MAX - 1, 2), Status::LBA_OUT_OF_RANGE),
        (zeroes(blocks - 7), Status::LBA_OUT_OF_RANGE),
        (read(0, 2049), Status::INVALID_FIELD),
        (write(0, 65536), Status::INVALID_FIELD),
        (elsewhere(read(0, 1), 0), Status::INVALID_NAMESPACE),
        (elsewhere(read(0, 1), 2), Status::INVALID_NAMESPACE),
        (elsewhere(read(0, 1), u32::MAX), Status::INVALID_NAMESPACE),
        (SubmissionEntry { flags: 1, ..read(0, 1) }, Status::INVALID_FIELD),
        (SubmissionEntry { opc: 0x04, ..read(0, 1) }, Status::INVALID_OPCODE),
        (SubmissionEntry { opc: 0x7d, ..write(0, 1) }, Status::INVALID_OPCODE),
        (SubmissionEntry { opc: 0xc1, ..write(0, 1) }, Status::INVALID_OPCODE),
    ] {
        assert_eq!(rig.status(io, what, &data), status, "{what:?}");
    }
    assert_eq!(rig.subsystem.transfer(io, &write(0, 65536)), Transfer::None);
    let reaction = rig.subsystem.capsule(rig.now, io, &write(0, 2), vec![0; 512].into());
    assert!(matches!(reaction, Reaction::Complete(answer) if answer.status.status == Status::DATA_TRANSFER_ERROR));
}

/// Reserved identifiers are ignored, a barrier that nobody keeps is refused.
#[test]
fn order_that_is_not_offered() {
    let mut rig = rig();
    let (_, io) = rig.ready();
    let mut plain = entry(&Command::write(NSID, range(0, 1), false)).0;
    let at = |stream, epoch| StreamEpoch { stream: Stream(stream), epoch: Epoch(epoch) };
    let order = WriteOrder { first: at(3, 4), second: at(5, 6), closing: Closing::None };
    order.set(&mut plain);
    assert_eq!(rig.status(io, plain, &[1; 512]), Status::SUCCESS);
    WriteOrder { closing: Closing::ByArrival, ..order }.set(&mut plain);
    assert_eq!(rig.status(io, plain, &[2; 512]), Status::INVALID_FIELD);
    assert_eq!(*read(&mut rig, io, 0, 1), [1; 512], "nothing was written");
}

#[test]
fn read_only() {
    let config = SubsystemConfig { read_only: true, ..config() };
    let mut rig = Rig::new(config, Box::new(NullDevice::new(1000, 512, Nanos(1))));
    let (admin, io) = rig.ready();
    assert_eq!(write(&mut rig, io, 0, &[1; 512]), Status::NAMESPACE_WRITE_PROTECTED);
    let zeroes = Command::WriteZeroes { nsid: NSID, range: range(0, 1), fua: false, deallocate: false };
    assert_eq!(rig.status(io, entry(&zeroes).0, &[]), Status::NAMESPACE_WRITE_PROTECTED);
    let (deallocate, ranges) = entry(&Command::Deallocate { nsid: NSID, ranges: [range(0, 1)].into() });
    assert_eq!(rig.status(io, deallocate, &ranges), Status::NAMESPACE_WRITE_PROTECTED);
    assert_eq!(*read(&mut rig, io, 0, 1), [0; 512]);
    assert_eq!(rig.identify::<nvme::IdentifyNamespace>(admin, 0, 1, 0).unwrap().nsattr, 1);
}

/// A device without FUA but with a cache gets a flush behind the write.
#[test]
fn forced_unit_access_without_the_device() {
    let mut rig = rig();
    let mut identity = rig.device.identity().clone();
    (identity.supports_fua, identity.volatile_write_cache) = (false, true);
    rig.subsystem = Subsystem::new(config(), &identity, Box::new(entropy())).unwrap();
    let (_, io) = rig.ready();
    let write = SubmissionEntry { cid: 77.into(), ..entry(&Command::write(NSID, range(0, 1), true)).0 };
    let reaction = rig.subsystem.capsule(rig.now, io, &write, vec![0; 512].into());
    let Reaction::Submit(first) = reaction else { panic!("{reaction:?}") };
    let Request::Command { command: Command::Write(WriteCommand { fua: false, .. }), .. } = first.request else {
        panic!("{first:?}")
    };
    let next = rig.subsystem.device_done(rig.now, first.token, Ok(Box::default()), 0);
    let Some((_, Reaction::Submit(second))) = next else { panic!("{next:?}") };
    let Request::Command { command: Command::Flush { nsid: NSID }, .. } = second.request else { panic!("{second:?}") };
    let done = rig.subsystem.device_done(rig.now, second.token, Err(Status::WRITE_FAULT), 0);
    let Some((_, Reaction::Complete(answer))) = done else { panic!("{done:?}") };
    assert_eq!(answer.status.status, Status::WRITE_FAULT, "a write whose flush failed has failed");
}

#[test]
fn power_goes_and_comes() {
    let mut rig = rig();
    let (admin, io) = rig.ready();
    let flush = SubmissionEntry { cid: 5.into(), ..entry(&Command::Flush { nsid: NSID }).0 };
    let Reaction::Submit(request) = rig.subsystem.capsule(rig.now, io, &flush, Box::default()) else { panic!() };
    rig.subsystem.power_lost(rig.now);
    let (answers, _) = rig.poll();
    assert_eq!((answers[0].0, answers[0].1.cid.0, answers[0].1.status.status), (io, 5, Status::ABORTED_POWER_LOSS));
    assert!(rig.subsystem.device_done(rig.now, request.token, Ok(Box::default()), 0).is_none());
    rig.subsystem.power_restored(rig.now);
    let mut log = SubmissionEntry::default();
    let page = nvme::GetLogPage {
        identifier: 2,
        specific: 0,
        retain_event: true,
        bytes: 512,
        offset: 0,
        index_offset: false,
        command_set: 0,
        nsid: NamespaceId::ALL,
    };
    page.encode(&mut log);
    let health = nvme::HealthLog::read_from_bytes(&rig.run(admin, log, &[]).data).unwrap();
    assert_eq!((health.power_cycles[0], health.unsafe_shutdowns[0]), (2, 1));
}

#[test]
fn zones() {
    let mut rig = zoned_rig();
    let (_, io) = rig.ready();
    let identity = rig.device.identity().clone();
    let zone = identity.zoned.clone().unwrap().zone_blocks;
    let block = identity.lba_bytes as usize;
    // Append three blocks, twice; the result is where they went.
    let append = entry(&Command::ZoneAppend { nsid: NSID, zone: Lba(zone), blocks: 3, fua: false }).0;
    assert_eq!(rig.subsystem.transfer(io, &append), Transfer::HostToController { bytes: 3 * block as u32 });
    for start in [zone, zone + 3] {
        let answer = rig.run(io, append, &vec![start as u8; 3 * block]);
        assert_eq!(answer.status.status, Status::SUCCESS);
        assert_eq!(u64::from(answer.dw0) | u64::from(answer.dw1) << 32, start);
    }
    assert_eq!(read(&mut rig, io, zone + 3, 1)[0], (zone + 3) as u8);
    assert_eq!(write(&mut rig, io, zone + 9, &vec![0; block]), Status::ZONE_INVALID_WRITE);
    let report = |bytes: u32| Command::ZoneManagementReceive {
        nsid: NSID,
        start: Lba(zone),
        action: ZoneReceiveAction::Report,
        filter: ZoneReportFilter::All,
        partial: true,
        bytes,
    };
    let answer = rig.run(io, entry(&report(256)).0, &[]);
    assert_eq!(answer.data.len(), 256);
    assert_eq!(ZoneReportHeader::read_from_bytes(&answer.data[..64]).unwrap().nr_zones.get(), 3);
    let descriptor = nvme::ZoneDescriptor::read_from_bytes(&answer.data[64..128]).unwrap();
    assert_eq!((descriptor.state(), descriptor.wp.get()), (Some(ZoneState::ImplicitlyOpened), zone + 6));
    assert_eq!(rig.subsystem.transfer(io, &entry(&report(8 << 20)).0), Transfer::None);
    assert_eq!(rig.status(io, entry(&report(8 << 20)).0, &[]), Status::INVALID_FIELD);
    let send = |action| Command::ZoneManagementSend { nsid: NSID, start: Lba(zone), action, all: false, zrwa: false };
    for action in [ZoneSendAction::Close, ZoneSendAction::Finish, ZoneSendAction::Reset] {
        assert_eq!(rig.status(io, entry(&send(action)).0, &[]), Status::SUCCESS, "{action:?}");
    }
    assert_eq!(rig.device.zones(NSID)[1].state, ZoneState::Empty);
    let mut reserved = entry(&send(ZoneSendAction::Reset)).0;
    reserved.cdw13 = 0x77.into();
    assert_eq!(rig.status(io, reserved, &[]), Status::INVALID_FIELD);
}

/// With CC.CSS 000b only the NVM Command Set is there, and a zoned namespace is not.
#[test]
fn zones_need_their_command_set() {
    let mut rig = zoned_rig();
    let (admin, cntlid) = rig.admin(NQN, HOST, 0);
    rig.set_property(admin, CC, ENABLED & !0x70);
    assert_eq!(rig.property(admin, CSTS), 1);
    let io = rig.queue(cntlid, 1).unwrap();
    let flush = entry(&Command::Flush { nsid: NSID }).0;
    assert_eq!(rig.status(io, flush, &[]), Status::COMMAND_SET_NOT_ENABLED);
}
