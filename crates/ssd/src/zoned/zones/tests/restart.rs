//! Power cycles (ZNS 2.1.1.3).

use super::*;

#[test]
fn a_power_cycle_closes_what_was_open() {
    let mut zones = Zones::new(&with_zrwa(), LBA_BYTES, 10);
    for (index, state) in STATES.into_iter().enumerate() {
        bring(&mut zones, index as u32, state);
    }
    // Opened, nothing written; with an extension; with a ZRWA that holds blocks.
    send(&mut zones, 7 * ZONE, ZoneSendAction::Open).unwrap();
    send(&mut zones, 8 * ZONE, ZoneSendAction::SetDescriptorExtension).unwrap();
    open_with_zrwa(&mut zones, 9 * ZONE).unwrap();
    write(&mut zones, 9 * ZONE + 2, 1).unwrap();
    zones.power_loss();
    let after: Vec<_> = (0..10).map(|index| zones.zone(index).state).collect();
    assert_eq!(
        after,
        [
            ZoneState::Empty,
            ZoneState::Closed,
            ZoneState::Closed,
            ZoneState::Closed,
            ZoneState::Full,
            ZoneState::ReadOnly,
            ZoneState::Offline,
            ZoneState::Empty,
            ZoneState::Closed,
            ZoneState::Closed,
        ]
    );
    assert_eq!((zones.open_zones(), zones.active_zones()), (0, 5));
    assert!(zones.zone(9).has_zrwa());
    assert_eq!(zones.zone(1).write_pointer_blocks, 2);
}

#[test]
fn a_lost_tail_moves_the_write_pointer_back() {
    let mut zones = Zones::new(&ZonedIdentity { max_active: Some(2), ..shape() }, LBA_BYTES, 5);
    write(&mut zones, 0, 5).unwrap();
    write(&mut zones, 16, CAPACITY as u32).unwrap();
    write(&mut zones, 32, CAPACITY as u32).unwrap();
    write(&mut zones, 48, 3).unwrap();
    zones.power_loss();
    zones.set_write_pointer(0, 4);
    assert_eq!((zones.zone(0).state, zones.zone(0).write_pointer_blocks), (ZoneState::Closed, 4));
    // A full zone that lost its tail needs an active resource, or stays full.
    zones.set_write_pointer(1, 6);
    assert_eq!((zones.zone(1).state, zones.zone(1).written_blocks), (ZoneState::Full, 6));
    zones.set_write_pointer(3, 0);
    assert_eq!(zones.zone(3).state, ZoneState::Empty);
    zones.set_write_pointer(2, 6);
    assert_eq!((zones.zone(2).state, zones.zone(2).write_pointer_blocks), (ZoneState::Closed, 6));
    assert_eq!(zones.active_zones(), 2);
    write(&mut zones, 38, 1).unwrap();
}
