//! Several namespaces on one zoned device: limits of their own, flash in common.

use crate::common::{Rig, changed_profile};
use nvme::{Command, Lba, LbaRange, NamespaceId, Status, ZoneSendAction};
use ssd::profile::DeviceConfig;
use ssd::{Device, Zoned};
use units::Nanos;

const ZONE_BLOCKS: u64 = 524_288;

fn rig(changes: &str) -> Rig<Zoned> {
    let changes = format!("namespaces = [20, 30]\n{changes}");
    match changed_profile("wd-zn540", &changes).unwrap().config {
        DeviceConfig::Zoned(config) => Rig::new(Zoned::new(&config).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn write(nsid: u32, zone: u64, block: u64, count: u32) -> Command {
    let range = LbaRange { start: Lba(zone * ZONE_BLOCKS + block), count };
    Command::write(NamespaceId(nsid), range, false)
}

fn manage(nsid: u32, zone: u64, action: ZoneSendAction) -> Command {
    let (nsid, start) = (NamespaceId(nsid), Lba(zone * ZONE_BLOCKS));
    Command::ZoneManagementSend { nsid, start, action, all: false, zrwa: false }
}

#[test]
fn each_namespace_has_its_own_limits() {
    let mut rig = rig("");
    assert_eq!(rig.device.identity().namespace_blocks, [20 * ZONE_BLOCKS, 30 * ZONE_BLOCKS]);
    for nsid in [1, 2] {
        for zone in 0..14 {
            rig.once(manage(nsid, zone, ZoneSendAction::Open));
        }
        rig.submit(0, manage(nsid, 14, ZoneSendAction::Open));
        assert_eq!(rig.status(), Status::TOO_MANY_ACTIVE_ZONES);
    }
    rig.submit(0, write(2, 30, 0, 1));
    assert_eq!(rig.status(), Status::LBA_OUT_OF_RANGE);
    rig.submit(0, write(3, 0, 0, 1));
    assert_eq!(rig.status(), Status::INVALID_NAMESPACE);
}

#[test]
fn a_reset_or_finish_in_one_disturbs_writes_to_the_other() {
    let worst = |changes: &str, interferer: Option<Command>| {
        let mut rig = rig(changes);
        rig.once(write(2, 10, 0, 1));
        // Until writes go at the pace of the flash.
        let mut block = 0;
        let mut next = || {
            block += 32;
            write(1, 0, block - 32, 32)
        };
        rig.closed_loop(8, 500, &mut next);
        if let Some(command) = interferer {
            rig.submit(9, command);
        }
        let start = rig.now;
        let mut latest = Nanos::ZERO;
        while rig.now - start < Nanos::from_millis(40) {
            latest = latest.max(rig.once_beside(next()));
        }
        latest
    };
    let full = "initial.full_zones = [0, 5]";
    let reset = worst(full, Some(manage(2, 0, ZoneSendAction::Reset)));
    let alone = worst(full, None);
    assert!(reset > alone + Nanos::from_millis(5), "{reset:?} and {alone:?}");
    // A finish in the other namespace takes half of the flash.
    let rate = |finish: bool| {
        let mut rig = rig("");
        rig.once(write(2, 10, 0, 1));
        if finish {
            rig.submit(99, manage(2, 10, ZoneSendAction::Finish));
        }
        let mut block = 0;
        let mut done = Vec::new();
        for cid in 0..8 {
            rig.submit(cid, write(1, 0, block, 32));
            block += 32;
        }
        while rig.now < Nanos::from_millis(200) {
            rig.now = rig.device.next_event().unwrap();
            rig.device.advance(rig.now, &mut done);
            for completion in done.drain(..) {
                assert!(completion.status.is_success());
                rig.submit(completion.cid.0, write(1, 0, block, 32));
                block += 32;
            }
        }
        block as f64
    };
    let share = rate(true) / rate(false);
    assert!((0.45..0.6).contains(&share), "{share}");
}
