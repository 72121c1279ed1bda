//! What devices say of how things stand, held against what they did.

use crate::common::{Random, Rig, changed_profile, flush, read, write};
use nvme::{Command, Lba, NamespaceId, ZoneSendAction, ZoneState};
use ssd::profile::{BuildOptions, DeviceConfig, Profile};
use ssd::{Device, Ssd, SsdConfig, ZoneSummary, Zoned};
use units::{ByteSize, Nanos};

const NSID: NamespaceId = NamespaceId::FIRST;

/// A flash SSD of 86 MB, full from the start if `overwritten`.
fn small(overwritten: bool) -> Ssd {
    let mut config = SsdConfig::reference();
    config.geometry.channels = 2;
    config.geometry.chips_per_channel = 1;
    config.geometry.dies_per_chip = 1;
    config.geometry.blocks_per_plane = Some(20);
    config.geometry.pages_per_block = 66;
    config.namespaces = vec![ByteSize(48 << 20)];
    config.over_provisioning = None;
    config.buffer.size = ByteSize(1 << 20);
    config.buffer.destage_after = Nanos::from_secs(3600);
    config.initial.fill = if overwritten { 1.0 } else { 0.0 };
    Ssd::new(&config).unwrap()
}

#[test]
fn the_cache_fills_and_a_flush_empties_it() {
    let device = small(false);
    let lba_bytes = u64::from(device.identity().lba_bytes);
    let per_unit = (4096 / lba_bytes).max(1);
    let mut rig = Rig::new(device);
    let cache = |rig: &Rig<Ssd>| rig.device.live_state().write_cache.unwrap();
    assert_eq!(cache(&rig).dirty_bytes, 0);
    assert!(!cache(&rig).power_loss_protected);
    for unit in 0..3 {
        rig.once(write(unit * 64, per_unit as u32));
        assert_eq!(cache(&rig).dirty_bytes, (unit + 1) * 4096);
    }
    rig.submit(0, write(9 * 64, per_unit as u32));
    rig.submit(1, read(0, 1));
    assert_eq!(rig.device.live_state().outstanding_commands, 2);
    rig.settle(2);
    rig.once(flush());
    assert_eq!(cache(&rig).dirty_bytes, 0);
    assert!(cache(&rig).capacity_bytes >= 4 * 4096);
    assert_eq!(rig.device.live_state().outstanding_commands, 0);
}

#[test]
fn garbage_collection_is_seen_at_work() {
    let device = small(true);
    let blocks = device.identity().namespace_blocks[0];
    let mut rig = Rig::new(device);
    let mut random = Random(7);
    let before = rig.device.live_state().garbage_collection.unwrap();
    assert_eq!((before.moved_bytes, before.collecting_dies, before.total_dies), (0, 0, 2));
    let (mut worked, mut rested) = (false, false);
    for round in 0..1000_u16 {
        for cid in 0..32 {
            rig.submit(cid, write(random.below(blocks / 8) * 8, 8));
        }
        let state = rig.device.live_state().garbage_collection.unwrap();
        worked |= state.collecting_dies > 0;
        rested |= round > 0 && state.collecting_dies == 0;
        assert!(state.collecting_dies <= state.total_dies && state.free_blocks <= state.total_blocks);
        rig.settle(32);
    }
    let after = rig.device.live_state().garbage_collection.unwrap();
    assert!(worked, "it never ran: {after:?}");
    assert!(after.moved_bytes > 0 && after.moved_bytes == rig.counter("gc_moved_bytes"));
    rig.drain();
    let idle = rig.device.live_state().garbage_collection.unwrap();
    assert!(rested || idle.collecting_dies == 0, "it never rests");
}

#[test]
fn zones_are_counted_by_state() {
    let mut rig = match changed_profile("wd-zn540", "namespaces = [20, 12]").unwrap().config {
        DeviceConfig::Zoned(config) => Rig::new(Zoned::new(&config).unwrap()),
        other => panic!("{other:?}"),
    };
    let zone_blocks = rig.device.identity().zoned.as_ref().unwrap().zone_blocks;
    let send = |zone: u64, action| Command::ZoneManagementSend {
        nsid: NSID,
        start: Lba(zone * zone_blocks),
        action,
        all: false,
        zrwa: false,
    };
    rig.once(write(0, 1));
    rig.once(write(zone_blocks, 1));
    for (zone, action) in [(1, ZoneSendAction::Close), (2, ZoneSendAction::Open), (3, ZoneSendAction::Finish)] {
        rig.once(send(zone, action));
    }
    let now = rig.now;
    let event = ssd::ControllerEvent::Offline;
    assert!(Device::zone_event(&mut rig.device, now, NSID, 4, event));
    assert!(rig.device.has_zone_events(NSID) && !rig.device.has_zone_events(NamespaceId(2)));
    assert_eq!(rig.device.changed_zones(NSID, false).zones().unwrap().collect::<Vec<_>>(), [Lba(4 * zone_blocks)]);
    assert!(!rig.device.has_zone_events(NSID), "read, it is empty");

    let state = rig.device.live_state();
    let first = state.zones[0];
    assert_eq!(
        (first.implicitly_opened, first.explicitly_opened, first.closed, first.full, first.offline),
        (1, 1, 1, 1, 1)
    );
    assert_eq!((first.open(), first.active(), first.empty, first.zones), (2, 3, 15, 20));
    assert_eq!((first.max_open, first.max_active), (Some(14), Some(14)));
    assert_eq!((state.zones[1].nsid, state.zones[1].empty), (2, 12));
    // Counted apart from the zones themselves.
    for (nsid, summary) in (1..).zip(&state.zones) {
        let zones = rig.device.zones(NamespaceId(nsid));
        let again = ZoneSummary::of(nsid, zones.iter().map(|zone| zone.state), summary.max_open, summary.max_active);
        assert_eq!(*summary, again);
        assert_eq!(zones.iter().filter(|zone| zone.state == ZoneState::Full).count() as u32, summary.full);
    }
    let cache = state.write_cache.unwrap();
    assert!(cache.dirty_bytes > 0 && cache.dirty_bytes <= cache.capacity_bytes, "{cache:?}");
}

#[test]
fn a_disk_has_a_cache_and_a_card_has_none() {
    let build = |name: &str| Profile::builtin(name).unwrap().build(&BuildOptions::default()).unwrap();
    let mut done = Vec::new();
    let mut disk = build("hdd-7200-1tb");
    let call = |device: &mut Box<dyn Device>, now: Nanos, command| {
        let (queue, cid, request) = (nvme::QueueId(1), nvme::CommandId(0), trace::RequestId(0));
        device.submit(now, ssd::Submission { queue, cid, command, data: None, request });
    };
    call(&mut disk, Nanos::ZERO, write(0, 8));
    assert_eq!(disk.live_state().outstanding_commands, 1);
    let mut now = Nanos::ZERO;
    while done.is_empty() {
        now = disk.next_event().unwrap();
        disk.advance(now, &mut done);
    }
    let cache = disk.live_state().write_cache.unwrap();
    assert_eq!(cache.dirty_bytes, 8 * u64::from(disk.identity().lba_bytes));
    call(&mut disk, now, flush());
    while let Some(next) = disk.next_event() {
        disk.advance(next, &mut done);
    }
    assert_eq!(disk.live_state().write_cache.unwrap().dirty_bytes, 0);

    let card = build("microsd-evo-128gb");
    let state = card.live_state();
    assert_eq!((state.write_cache, state.garbage_collection, state.zones.len()), (None, None, 0));
}
