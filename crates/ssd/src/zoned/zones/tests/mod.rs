//! The state machine against tables written out, and against a naive model.

mod limits;
mod model;
mod places;
mod restart;

use nvme::{Lba, LbaRange, Status, ZoneReceiveAction, ZoneReportFilter, ZoneSendAction, ZoneState};

use super::{Change, ControllerEvent, Zones};
use crate::{ZonedIdentity, ZrwaIdentity};

const ZONE: u64 = 16;
const CAPACITY: u64 = 12;
const LBA_BYTES: u32 = 4096;

/// Every state of a zone, in the order of the tables' rows.
const STATES: [ZoneState; 7] = [
    ZoneState::Empty,
    ZoneState::ImplicitlyOpened,
    ZoneState::ExplicitlyOpened,
    ZoneState::Closed,
    ZoneState::Full,
    ZoneState::ReadOnly,
    ZoneState::Offline,
];

fn shape() -> ZonedIdentity {
    ZonedIdentity {
        zone_blocks: ZONE,
        zone_capacity_blocks: CAPACITY,
        max_open: None,
        max_active: None,
        append_limit_bytes: 8 * LBA_BYTES,
        reads_across_zones: true,
        descriptor_extension_bytes: 64,
        zrwa: None,
    }
}

fn with_zrwa() -> ZonedIdentity {
    ZonedIdentity { zrwa: Some(ZrwaIdentity { size_blocks: 4, commit_granularity_blocks: 2, zones_max: 2 }), ..shape() }
}

fn write(zones: &mut Zones, start: u64, count: u32) -> Result<super::Written, Status> {
    zones.write(LbaRange { start: Lba(start), count })
}

fn read(zones: &Zones, start: u64, count: u32) -> Result<(), Status> {
    zones.read(LbaRange { start: Lba(start), count })
}

fn send(zones: &mut Zones, start: u64, action: ZoneSendAction) -> Result<Vec<Change>, Status> {
    let mut changes = Vec::new();
    zones.manage(Lba(start), action, false, false, Some(&[7; 64]), &mut changes).map(|()| changes)
}

fn send_all(zones: &mut Zones, action: ZoneSendAction) -> Result<Vec<Change>, Status> {
    let mut changes = Vec::new();
    zones.manage(Lba(u64::MAX), action, true, false, None, &mut changes).map(|()| changes)
}

fn open_with_zrwa(zones: &mut Zones, start: u64) -> Result<Vec<Change>, Status> {
    let mut changes = Vec::new();
    zones.manage(Lba(start), ZoneSendAction::Open, false, true, None, &mut changes).map(|()| changes)
}

/// Everything that a host can see.
fn seen(zones: &Zones) -> Vec<u8> {
    let mut out = Vec::new();
    zones.report(Lba(0), ZoneReceiveAction::ExtendedReport, ZoneReportFilter::All, false, u32::MAX, &mut out).unwrap();
    out
}

/// Takes a zone that is empty to `state`, with two blocks written where the
/// state lets it.
fn bring(zones: &mut Zones, index: u32, state: ZoneState) {
    let start = u64::from(index) * ZONE;
    if state == ZoneState::Empty {
        return;
    }
    if state == ZoneState::ExplicitlyOpened {
        send(zones, start, ZoneSendAction::Open).unwrap();
    }
    write(zones, start, 2).unwrap();
    match state {
        ZoneState::Empty | ZoneState::ImplicitlyOpened | ZoneState::ExplicitlyOpened => {}
        ZoneState::Closed => drop(send(zones, start, ZoneSendAction::Close).unwrap()),
        ZoneState::Full => drop(send(zones, start, ZoneSendAction::Finish).unwrap()),
        ZoneState::ReadOnly => assert!(zones.controller_event(index, ControllerEvent::ReadOnly)),
        ZoneState::Offline => assert!(zones.controller_event(index, ControllerEvent::Offline)),
    }
    assert_eq!(zones.zone(index).state, state);
}
