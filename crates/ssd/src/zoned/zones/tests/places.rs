//! Where commands may point, and reports.

use nvme::{ChangedZoneList, ZoneAttributes, ZoneDescriptor};

use super::*;
use crate::zoned::zones::Changed;

#[test]
fn writes_go_to_the_write_pointer_and_end_at_the_capacity() {
    let mut zones = Zones::new(&shape(), LBA_BYTES, 2);
    for (start, count, status) in [
        (1, 1, Status::ZONE_INVALID_WRITE),
        (0, 13, Status::ZONE_BOUNDARY_ERROR),
        (0, 17, Status::ZONE_BOUNDARY_ERROR),
        (0, 0, Status::INVALID_FIELD),
        (32, 1, Status::LBA_OUT_OF_RANGE),
        (31, 2, Status::LBA_OUT_OF_RANGE),
        (u64::MAX, 2, Status::LBA_OUT_OF_RANGE),
    ] {
        assert_eq!(write(&mut zones, start, count), Err(status), "{start} {count}");
    }
    let written = write(&mut zones, 16, 10).unwrap();
    assert_eq!((written.opened, written.filled, written.committed), (true, false, 0..10));
    assert_eq!(write(&mut zones, 26, 3), Err(Status::ZONE_BOUNDARY_ERROR));
    // Beyond the capacity nothing is written, whatever the write pointer.
    assert_eq!(write(&mut zones, 28, 1), Err(Status::ZONE_INVALID_WRITE));
    let written = write(&mut zones, 26, 2).unwrap();
    assert_eq!((written.opened, written.filled, written.committed), (false, true, 10..12));
    assert_eq!(zones.zone(1).state, ZoneState::Full);
    assert!(!zones.zone(1).finished);
}

#[test]
fn appends_name_the_zone_and_keep_to_the_limit() {
    let mut zones = Zones::new(&shape(), LBA_BYTES, 2);
    for (zone, blocks, status) in [
        (1, 1, Status::INVALID_FIELD),
        (16, 9, Status::INVALID_FIELD),
        (16, 0, Status::INVALID_FIELD),
        (32, 1, Status::LBA_OUT_OF_RANGE),
    ] {
        assert_eq!(zones.append(Lba(zone), blocks), Err(status), "{zone} {blocks}");
    }
    assert_eq!(zones.append(Lba(16), 8).unwrap().0, Lba(16));
    assert_eq!(zones.append(Lba(16), 5), Err(Status::ZONE_BOUNDARY_ERROR));
    let (lba, written) = zones.append(Lba(16), 4).unwrap();
    assert_eq!((lba, written.filled), (Lba(24), true));
    assert_eq!(zones.append(Lba(16), 1), Err(Status::ZONE_IS_FULL));
}

#[test]
fn reads_cross_zones_where_the_device_lets_them() {
    let mut zones = Zones::new(&shape(), LBA_BYTES, 3);
    assert_eq!(read(&zones, 0, 48), Ok(()), "unwritten blocks, beyond the capacity too");
    assert_eq!(read(&zones, 12, 4), Ok(()));
    assert_eq!(read(&zones, 47, 2), Err(Status::LBA_OUT_OF_RANGE));
    assert_eq!(read(&zones, 48, 1), Err(Status::LBA_OUT_OF_RANGE));
    bring(&mut zones, 1, ZoneState::ReadOnly);
    assert_eq!(read(&zones, 0, 48), Ok(()));
    bring(&mut zones, 2, ZoneState::Offline);
    assert_eq!(read(&zones, 31, 2), Err(Status::ZONE_IS_OFFLINE));
    assert_eq!(read(&zones, 0, 32), Ok(()));
    let zones = Zones::new(&ZonedIdentity { reads_across_zones: false, ..shape() }, LBA_BYTES, 3);
    assert_eq!(read(&zones, 15, 2), Err(Status::ZONE_BOUNDARY_ERROR));
    assert_eq!(read(&zones, 0, 16), Ok(()));
}

#[test]
fn actions_name_the_first_block() {
    let mut zones = Zones::new(&shape(), LBA_BYTES, 2);
    for action in [ZoneSendAction::Open, ZoneSendAction::Reset, ZoneSendAction::SetDescriptorExtension] {
        assert_eq!(send(&mut zones, 17, action), Err(Status::INVALID_FIELD));
        assert_eq!(send(&mut zones, 32, action), Err(Status::LBA_OUT_OF_RANGE));
    }
}

#[test]
fn resets_say_what_was_there() {
    let mut zones = Zones::new(&shape(), LBA_BYTES, 2);
    write(&mut zones, 0, 3).unwrap();
    send(&mut zones, 0, ZoneSendAction::Finish).unwrap();
    let zone = zones.zone(0);
    assert_eq!((zone.write_pointer_blocks, zone.written_blocks, zone.finished), (CAPACITY, 3, true));
    let reset = Change { zone: 0, what: Changed::Reset, written_blocks: 3, was: ZoneState::Full };
    assert_eq!(send(&mut zones, 0, ZoneSendAction::Reset), Ok(vec![reset]));
    assert_eq!(send(&mut zones, 0, ZoneSendAction::Reset), Ok(vec![]), "it is empty");
    let zone = zones.zone(0);
    assert_eq!((zone.written_blocks, zone.finished, zone.reset_count), (0, false, 1));
}

#[test]
fn extensions_live_until_the_reset() {
    let mut zones = Zones::new(&shape(), LBA_BYTES, 2);
    let mut changes = Vec::new();
    let mut set = |zones: &mut Zones, data: Option<&[u8]>| {
        zones.manage(Lba(0), ZoneSendAction::SetDescriptorExtension, false, false, data, &mut changes)
    };
    assert_eq!(set(&mut zones, Some(&[1; 63])), Err(Status::DATA_TRANSFER_ERROR));
    set(&mut zones, Some(&[9; 64])).unwrap();
    assert_eq!(zones.zone(0).attributes, ZoneAttributes::EXTENSION_VALID);
    assert_eq!(seen(&zones)[128..192], [9; 64]);
    write(&mut zones, 0, CAPACITY as u32).unwrap();
    assert_eq!(seen(&zones)[128..192], [9; 64]);
    send(&mut zones, 0, ZoneSendAction::Reset).unwrap();
    assert_eq!(zones.zone(0).attributes, ZoneAttributes::empty());
    assert_eq!(seen(&zones)[128..192], [0; 64], "the old one is not shown");
    let mut none = Zones::new(&ZonedIdentity { descriptor_extension_bytes: 0, ..shape() }, LBA_BYTES, 2);
    assert_eq!(set(&mut none, Some(&[9; 64])), Err(Status::INVALID_FIELD));
}

fn report(zones: &Zones, start: u64, filter: ZoneReportFilter, partial: bool, bytes: u32) -> (u64, Vec<u64>, usize) {
    let mut out = vec![0xff; 3];
    zones.report(Lba(start), ZoneReceiveAction::Report, filter, partial, bytes, &mut out).unwrap();
    let count = out.get(..8).map_or(0, |head| u64::from_le_bytes(head.try_into().unwrap()));
    let starts = out.get(64..).unwrap_or_default().chunks_exact(64);
    let starts = starts.map(|bytes| u64::from_le_bytes(bytes[16..24].try_into().unwrap())).collect();
    (count, starts, out.len())
}

#[test]
fn reports() {
    let mut zones = Zones::new(&shape(), LBA_BYTES, 7);
    for (index, state) in STATES.into_iter().enumerate() {
        bring(&mut zones, index as u32, state);
    }
    use ZoneReportFilter as F;
    assert_eq!(report(&zones, 0, F::All, false, 4096), (7, (0..7).map(|zone| zone * 16).collect(), 64 * 8));
    assert_eq!(report(&zones, 33, F::All, false, 4096).1[0], 32, "any block of the first zone");
    let filters = [F::Empty, F::ImplicitlyOpened, F::ExplicitlyOpened, F::Closed, F::Full, F::ReadOnly, F::Offline];
    for (index, filter) in filters.into_iter().enumerate() {
        assert_eq!(report(&zones, 0, filter, false, 4096), (1, vec![index as u64 * 16], 128), "{filter:?}");
    }
    // The buffer ends within the third descriptor: whole ones only.
    assert_eq!(report(&zones, 0, F::All, false, 64 * 4 - 4), (7, vec![0, 16], 192));
    assert_eq!(report(&zones, 0, F::All, true, 64 * 4 - 4), (2, vec![0, 16], 192));
    assert_eq!(report(&zones, 0, F::All, true, 64), (0, vec![], 64));
    assert_eq!(report(&zones, 0, F::All, false, 8), (7, vec![], 8));
    assert_eq!(report(&zones, 0, F::AttributeSet, false, 4096), (0, vec![], 64));
    assert!(zones.controller_event(4, ControllerEvent::ResetRecommended));
    assert_eq!(report(&zones, 0, F::AttributeSet, false, 4096), (1, vec![64], 128));

    let mut out = Vec::new();
    let beyond = zones.report(Lba(112), ZoneReceiveAction::Report, F::All, false, 64, &mut out);
    assert_eq!(beyond, Err(Status::LBA_OUT_OF_RANGE));
    let none = Zones::new(&ZonedIdentity { descriptor_extension_bytes: 0, ..shape() }, LBA_BYTES, 2);
    let extended = none.report(Lba(0), ZoneReceiveAction::ExtendedReport, F::All, false, 64, &mut out);
    assert_eq!(extended, Err(Status::INVALID_FIELD));
    let pointer = |index: u32| zones.zone(index).valid_write_pointer();
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(pointer), [Some(0), Some(2), Some(2), Some(2), None, None, None]);
}

#[test]
fn zrwas() {
    let mut zones = Zones::new(&with_zrwa(), LBA_BYTES, 4);
    open_with_zrwa(&mut zones, 0).unwrap();
    assert!(zones.zone(0).has_zrwa());
    assert_eq!(zones.append(Lba(0), 1), Err(Status::INVALID_ZONE_OPERATION_REQUEST));
    // In any order and again, within twice the area from the write pointer on.
    for (start, count, committed) in [(3, 1, 0..0), (0, 4, 0..0), (1, 2, 0..0), (4, 1, 0..2), (9, 1, 2..6)] {
        assert_eq!(write(&mut zones, start, count).unwrap().committed, committed, "{start}");
    }
    assert_eq!(write(&mut zones, 5, 1), Err(Status::ZONE_INVALID_WRITE), "committed");
    assert_eq!(zones.zone(0).written_blocks, 10);
    // Explicitly: by the granularity, within the area.
    let flush = |zones: &mut Zones, last| send(zones, last, ZoneSendAction::FlushZrwa);
    for last in [5, 6, 8, 10, 15] {
        assert_eq!(flush(&mut zones, last), Err(Status::INVALID_ZONE_OPERATION_REQUEST), "{last}");
    }
    let change =
        Change { zone: 0, what: Changed::Committed(6..8), written_blocks: 10, was: ZoneState::ExplicitlyOpened };
    assert_eq!(flush(&mut zones, 7), Ok(vec![change]));
    // The end of the zone is reached by a commit only.
    assert!(!write(&mut zones, 11, 1).unwrap().filled);
    assert_eq!(write(&mut zones, 11, 2), Err(Status::ZONE_BOUNDARY_ERROR));
    flush(&mut zones, 11).unwrap();
    assert_eq!((zones.zone(0).state, zones.zone(0).has_zrwa()), (ZoneState::Full, false));
}

#[test]
fn zrwas_are_few_and_for_empty_zones() {
    let mut zones = Zones::new(&with_zrwa(), LBA_BYTES, 4);
    write(&mut zones, 0, 1).unwrap();
    assert_eq!(open_with_zrwa(&mut zones, 0), Err(Status::INVALID_ZONE_OPERATION_REQUEST));
    open_with_zrwa(&mut zones, 16).unwrap();
    open_with_zrwa(&mut zones, 32).unwrap();
    assert_eq!(open_with_zrwa(&mut zones, 48), Err(Status::ZRWA_RESOURCES_UNAVAILABLE));
    // Closed zones keep theirs; reset and finish give it back.
    send(&mut zones, 16, ZoneSendAction::Close).unwrap();
    assert_eq!(open_with_zrwa(&mut zones, 48), Err(Status::ZRWA_RESOURCES_UNAVAILABLE));
    write(&mut zones, 18, 1).unwrap();
    let changes = send(&mut zones, 16, ZoneSendAction::Finish).unwrap();
    assert_eq!(
        changes.iter().map(|change| &change.what).collect::<Vec<_>>(),
        [&Changed::Committed(0..3), &Changed::Finished]
    );
    open_with_zrwa(&mut zones, 48).unwrap();
    send(&mut zones, 32, ZoneSendAction::Reset).unwrap();
    open_with_zrwa(&mut zones, 32).unwrap();
    let mut none = Zones::new(&shape(), LBA_BYTES, 4);
    assert_eq!(open_with_zrwa(&mut none, 0), Err(Status::INVALID_ZONE_OPERATION_REQUEST));
}

#[test]
fn the_changed_zone_list() {
    let mut zones = Zones::new(&shape(), LBA_BYTES, 600);
    let listed = |list: ChangedZoneList| list.zones().map(|zones| zones.map(|lba| lba.0 / ZONE).collect::<Vec<_>>());
    write(&mut zones, 0, 1).unwrap();
    send(&mut zones, 16, ZoneSendAction::Finish).unwrap();
    assert_eq!(listed(zones.changed_zone_list(false)), Some(vec![]), "commands are no events");
    assert!(zones.controller_event(1, ControllerEvent::ResetRecommended));
    assert!(zones.controller_event(0, ControllerEvent::FinishRecommended));
    assert!(zones.controller_event(0, ControllerEvent::Finished));
    assert!(!zones.controller_event(0, ControllerEvent::Finished), "full already");
    assert_eq!(zones.zone(0).attributes, ZoneAttributes::FINISHED_BY_CONTROLLER);
    assert_eq!(listed(zones.changed_zone_list(true)), Some(vec![0, 1]));
    assert_eq!(listed(zones.changed_zone_list(false)), Some(vec![0, 1]));
    assert_eq!(listed(zones.changed_zone_list(false)), Some(vec![]));
    for index in 0..511 {
        assert!(zones.controller_event(index, ControllerEvent::ReadOnly));
    }
    assert_eq!(listed(zones.changed_zone_list(true)).map(|list| list.len()), Some(511));
    assert!(zones.controller_event(511, ControllerEvent::Offline));
    assert_eq!(listed(zones.changed_zone_list(false)), None);
    assert_eq!(ZoneDescriptor::BYTES, 64);
}
