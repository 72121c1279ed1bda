//! What happens to zones without a command, as a host sees it.

use crate::common::{Rig, changed_profile};
use nvme::{ChangedZoneList, Command, Lba, LbaRange, NamespaceId, Status, ZoneState};
use ssd::profile::DeviceConfig;
use ssd::zoned::ControllerEvent;
use ssd::{Device, Zoned};

const NSID: NamespaceId = NamespaceId::FIRST;
const ZONE_BLOCKS: u64 = 524_288;

fn rig() -> Rig<Zoned> {
    match changed_profile("wd-zn540", "namespaces = [20]").unwrap().config {
        DeviceConfig::Zoned(config) => Rig::new(Zoned::new(&config).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn write(zone: u64, block: u64) -> Command {
    Command::write(NSID, LbaRange { start: Lba(zone * ZONE_BLOCKS + block), count: 1 }, false)
}

#[test]
fn a_zone_that_fails_is_listed_once_and_refuses_writes() {
    let mut rig = rig();
    rig.once(write(3, 0));
    let now = rig.now;
    assert!(rig.device.zone_event(now, NSID, 3, ControllerEvent::ReadOnly));
    assert!(!rig.device.zone_event(now, NSID, 3, ControllerEvent::ReadOnly), "it is read only already");
    assert!(!rig.device.zone_event(now, NSID, 20, ControllerEvent::Offline), "there is no such zone");
    assert!(!rig.device.zone_event(now, NamespaceId(2), 0, ControllerEvent::Offline), "nor such a namespace");
    assert_eq!(rig.device.zones(NSID)[3].state, ZoneState::ReadOnly);
    rig.submit(0, write(3, 1));
    assert_eq!(rig.status(), Status::ZONE_IS_READ_ONLY);
    let list = ChangedZoneList::of([Lba(3 * ZONE_BLOCKS)]);
    assert_eq!(rig.device.changed_zone_list(NSID, true), Some(list.clone()));
    assert_eq!(rig.device.changed_zone_list(NSID, false), Some(list));
    assert_eq!(rig.device.changed_zone_list(NSID, false), Some(ChangedZoneList::of([])));
    assert_eq!(rig.device.changed_zone_list(NamespaceId(2), false), None);
}

#[test]
fn zones_that_the_controller_takes_leave_the_buffer_to_others() {
    // Each holds a part of a program unit when it goes.
    let mut rig = rig();
    for zone in 0..19 {
        for block in 0..20 {
            rig.once(write(zone, block));
        }
        let now = rig.now;
        assert!(rig.device.zone_event(now, NSID, zone as u32, ControllerEvent::Finished));
    }
    let mut block = 0;
    rig.closed_loop(8, 10_000, || {
        block += 1;
        write(19, block - 1)
    });
    assert_eq!(rig.counter("padded_bytes"), 19 * 4 * 4096);
}
