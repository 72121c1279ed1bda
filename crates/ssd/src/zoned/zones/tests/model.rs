//! Long random sequences of commands against the naive model.

use std::collections::BTreeSet;

use nvme::{Command, NamespaceId, WriteCommand};
use proptest::prelude::*;

use super::*;
use crate::zoned::naive::{self, Model, Reply, Shape};
use crate::zoned::zones::Changed;

const NSID: NamespaceId = NamespaceId(1);

#[derive(Clone, Debug)]
enum Step {
    Command(Command),
    /// A write at the zone's write pointer, plus an offset.
    WriteAt {
        zone: u64,
        offset: u64,
        blocks: u32,
    },
    /// An explicit commit of some blocks from the write pointer on.
    FlushAt {
        zone: u64,
        blocks: u64,
    },
    Event(u32, ControllerEvent),
    PowerLoss,
    /// A power loss that took part of a zone.
    LostTail {
        zone: u32,
        keep_share: u64,
    },
}

fn shapes() -> impl Strategy<Value = Shape> {
    let limits = prop_oneof![
        Just((None, None)),
        (1..5_u32, 0..4_u32).prop_map(|(open, more)| (Some(open), Some(open + more))),
        (1..5_u32).prop_map(|open| (Some(open), None)),
    ];
    let zrwa = prop_oneof![Just(None), Just(Some((4, 2, 2))), Just(Some((3, 1, 1))), Just(Some((4, 4, 3)))];
    (2..8_u64, 1..=16_u64, limits, 1..10_u64, any::<bool>(), prop_oneof![Just(0), Just(64)], zrwa).prop_map(
        |(zones, capacity, (max_open, max_active), append_limit_blocks, reads_across, extension_bytes, zrwa)| Shape {
            zones,
            zone_blocks: 16,
            capacity,
            max_open,
            max_active,
            append_limit_blocks,
            transfer_limit_blocks: u64::MAX,
            reads_across,
            extension_bytes,
            zrwa,
        },
    )
}

fn identity(shape: &Shape) -> ZonedIdentity {
    ZonedIdentity {
        zone_blocks: shape.zone_blocks,
        zone_capacity_blocks: shape.capacity,
        max_open: shape.max_open,
        max_active: shape.max_active,
        append_limit_bytes: shape.append_limit_blocks as u32 * LBA_BYTES,
        reads_across_zones: shape.reads_across,
        descriptor_extension_bytes: shape.extension_bytes as u32,
        zrwa: shape.zrwa.map(|(size, granularity, zones_max)| ZrwaIdentity {
            size_blocks: size as u32,
            commit_granularity_blocks: granularity as u32,
            zones_max,
        }),
    }
}

fn steps() -> impl Strategy<Value = Step> {
    let zone = 0..8_u64;
    let action = prop::sample::select(ZoneSendAction::ALL);
    let filter = prop::sample::select(ZoneReportFilter::ALL);
    let receive = prop::sample::select(ZoneReceiveAction::ALL);
    let event = prop::sample::select(ControllerEvent::ALL);
    let range = (0..140_u64, 0..40_u32).prop_map(|(start, count)| LbaRange { start: Lba(start), count });
    let send = (zone.clone(), 0..12_u64, action, 0..12_u8, 0..4_u8).prop_map(|(zone, off, action, all, zrwa)| {
        let start = Lba(zone * 16 + u64::from(off == 0));
        Command::ZoneManagementSend { nsid: NSID, start, action, all: all == 0, zrwa: zrwa == 0 }
    });
    let receive =
        (0..140_u64, receive, filter, any::<bool>(), 0..800_u32).prop_map(|(start, action, filter, partial, bytes)| {
            Command::ZoneManagementReceive { nsid: NSID, start: Lba(start), action, filter, partial, bytes }
        });
    prop_oneof![
        30 => (zone.clone(), prop_oneof![5 => Just(0), 3 => 0..10_u64], 1..8_u32)
            .prop_map(|(zone, offset, blocks)| Step::WriteAt { zone, offset, blocks }),
        5 => (zone.clone(), 0..6_u64).prop_map(|(zone, blocks)| Step::FlushAt { zone, blocks }),
        20 => (zone.clone(), 0..8_u32).prop_map(|(zone, blocks)| {
            Step::Command(Command::ZoneAppend { nsid: NSID, zone: Lba(zone * 16), blocks, fua: false })
        }),
        40 => send.prop_map(Step::Command),
        4 => range.clone().prop_map(|range| Step::Command(Command::Read { nsid: NSID, range, fua: false })),
        2 => range.prop_map(|range| Step::Command(Command::write(NSID, range, false))),
        5 => receive.prop_map(Step::Command),
        2 => (0..8_u32, event).prop_map(|(zone, event)| Step::Event(zone, event)),
        1 => Just(Step::PowerLoss),
        1 => (0..8_u32, 0..100_u64).prop_map(|(zone, keep_share)| Step::LostTail { zone, keep_share }),
    ]
}

/// The device's answer, and the zones whose state it says to have changed.
fn execute(zones: &mut Zones, command: &Command, data: Option<&[u8]>) -> Result<(Reply, BTreeSet<u32>), Status> {
    let mut touched = BTreeSet::new();
    let mut note = |written: &super::super::Written| {
        touched.extend(written.closed);
        if written.opened || written.filled {
            touched.insert(written.zone);
        }
    };
    let reply = match *command {
        Command::Read { range, .. } => zones.read(range).map(|()| Reply::Done)?,
        Command::Write(WriteCommand { range, .. }) => {
            note(&zones.write(range)?);
            Reply::Done
        }
        Command::ZoneAppend { zone, blocks, .. } => {
            let (lba, written) = zones.append(zone, blocks)?;
            note(&written);
            Reply::Appended(lba.0)
        }
        Command::ZoneManagementSend { start, action, all, zrwa, .. } => {
            let mut changes = Vec::new();
            zones.manage(start, action, all, zrwa, data, &mut changes)?;
            for change in &changes {
                if !matches!(change.what, Changed::Committed(_)) || zones.zone(change.zone).state != change.was {
                    touched.insert(change.zone);
                }
            }
            Reply::Done
        }
        Command::ZoneManagementReceive { start, action, filter, partial, bytes, .. } => {
            let mut out = Vec::new();
            zones.report(start, action, filter, partial, bytes, &mut out)?;
            Reply::Report(out)
        }
        _ => unreachable!(),
    };
    Ok((reply, touched))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_sequences(shape in shapes(), steps in prop::collection::vec(steps(), 1..400)) {
        let mut zones = Zones::new(&identity(&shape), LBA_BYTES, shape.zones as u32);
        let mut model = Model::new(shape.clone());
        let data = [0xa5; 64];
        for (number, step) in steps.into_iter().enumerate() {
            let command = match step {
                Step::Command(command) => command,
                Step::WriteAt { zone, offset, blocks } => {
                    let zone = zone % shape.zones;
                    let start = Lba(zone * 16 + model.zones[zone as usize].pointer.min(16) + offset);
                    Command::write(NSID, LbaRange { start, count: blocks }, false)
                }
                Step::FlushAt { zone, blocks } => {
                    let zone = zone % shape.zones;
                    let start = zone * 16 + model.zones[zone as usize].pointer + blocks;
                    naive::send(NSID, start.saturating_sub(1), ZoneSendAction::FlushZrwa)
                }
                Step::Event(zone, what) => {
                    let zone = zone % shape.zones as u32;
                    prop_assert_eq!(zones.controller_event(zone, what), model.event(zone as usize, what));
                    continue;
                }
                Step::PowerLoss => {
                    zones.power_loss();
                    model.power_loss();
                    compare(&zones, &model)?;
                    continue;
                }
                Step::LostTail { zone, keep_share } => {
                    let zone = zone % shape.zones as u32;
                    zones.power_loss();
                    model.power_loss();
                    let index = zone as usize;
                    if model.zones[index].state == ZoneState::Closed {
                        let keep = model.zones[index].high * keep_share / 100;
                        zones.set_write_pointer(zone, keep);
                        model.zones[index].high = keep;
                        model.zones[index].pointer = model.zones[index].pointer.min(keep);
                        model.settle(index);
                    }
                    compare(&zones, &model)?;
                    continue;
                }
            };
            let before: Vec<_> = model.zones.iter().map(|zone| zone.state).collect();
            let resets: Vec<_> = (0..shape.zones as u32).map(|zone| zones.zone(zone).reset_count).collect();
            let expected = model.execute(&command, number as u64 + 1, Some(&data));
            let seen_before = expected.is_err().then(|| super::super::Zones::clone(&zones));
            match (execute(&mut zones, &command, Some(&data)), expected) {
                (Ok((reply, touched)), Ok(expected)) => {
                    if !matches!(command, Command::Read { .. }) {
                        prop_assert!(reply == expected, "{command:?}: {reply:?}, not {expected:?}");
                    }
                    let changed: BTreeSet<_> = (0..shape.zones as u32)
                        .filter(|zone| before[*zone as usize] != zones.zone(*zone).state)
                        .collect();
                    prop_assert_eq!(&touched, &changed, "{:?}", command);
                    for zone in 0..shape.zones as u32 {
                        let emptied = zones.zone(zone).state == ZoneState::Empty && changed.contains(&zone);
                        prop_assert_eq!(zones.zone(zone).reset_count, resets[zone as usize] + u32::from(emptied));
                    }
                }
                (Err(status), Err(expected)) => {
                    prop_assert_eq!(status, expected, "{:?}", command);
                    let before = seen_before.unwrap();
                    prop_assert!(
                        (0..shape.zones as u32).all(|zone| {
                            format!("{:?}", before.zone(zone)) == format!("{:?}", zones.zone(zone))
                        }),
                        "{command:?} was refused and changed something"
                    );
                }
                (ours, expected) => prop_assert!(false, "{command:?}: {ours:?}, not {expected:?}"),
            }
            compare(&zones, &model)?;
        }
    }
}

/// The same zones, the same counts, and counts within the limits.
fn compare(zones: &Zones, model: &Model) -> Result<(), TestCaseError> {
    let report = Command::ZoneManagementReceive {
        nsid: NSID,
        start: Lba(0),
        action: ZoneReceiveAction::Report,
        filter: ZoneReportFilter::All,
        partial: false,
        bytes: u32::MAX,
    };
    let Ok(Reply::Report(expected)) = model.clone().execute(&report, 0, None) else { unreachable!() };
    let mut out = Vec::new();
    zones
        .report(Lba(0), ZoneReceiveAction::Report, ZoneReportFilter::All, false, u32::MAX, &mut out)
        .map_err(|status| TestCaseError::fail(status.to_string()))?;
    if let Some(zone) = out.chunks(64).zip(expected.chunks(64)).position(|(ours, theirs)| ours != theirs) {
        prop_assert!(false, "zone {}: {:?}, not {:?}", zone - 1, zones.zone(zone as u32 - 1), &model.zones[zone - 1]);
    }
    for (index, zone) in model.zones.iter().enumerate() {
        let ours = zones.zone(index as u32);
        if !matches!(zone.state, ZoneState::ReadOnly | ZoneState::Offline) {
            prop_assert_eq!(ours.written_blocks, zone.high, "zone {}", index);
        }
    }
    let (open, active) = (zones.open_zones(), zones.active_zones());
    prop_assert_eq!((open, active), (model.open(), model.active()));
    prop_assert!(open <= active && model.shape.max_open.is_none_or(|limit| open <= limit));
    prop_assert!(model.shape.max_active.is_none_or(|limit| active <= limit));
    Ok(())
}
