//! What the host does: every command, at places that make sense and at others.

use crash::Choice;
use nvme::{Command, Lba, LbaRange, NamespaceId, ZoneReceiveAction, ZoneReportFilter, ZoneSendAction, ZoneState};
use proptest::prelude::*;

use super::super::naive::{Model, ModelZone};
use super::super::zones::ControllerEvent;

/// One thing the host does.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A write `off` blocks from the zone's write pointer (mostly 0).
    Write {
        ns: bool,
        zone: u8,
        off: u8,
        blocks: u8,
        fua: bool,
        zeroes: bool,
    },
    Append {
        ns: bool,
        zone: u8,
        blocks: u8,
        fua: bool,
    },
    /// A Zone Send Action; commits end `off` blocks behind the write pointer.
    Send {
        ns: bool,
        zone: u8,
        action: ZoneSendAction,
        all: bool,
        zrwa: bool,
        off: u8,
    },
    Read {
        ns: bool,
        at: u16,
        blocks: u8,
    },
    Report {
        ns: bool,
        at: u16,
        action: ZoneReceiveAction,
        filter: ZoneReportFilter,
        partial: bool,
        bytes: u16,
    },
    Flush {
        ns: bool,
    },
    /// The controller does something to a zone by itself.
    Event {
        ns: bool,
        zone: u8,
        event: ControllerEvent,
    },
    Wait {
        micros: u16,
    },
    Drain,
    Cut {
        survivors: Choice,
    },
}

/// The command for an action, and the namespace's index.
pub(super) fn resolve(action: &Action, models: &[Model]) -> Option<(usize, Command)> {
    let pick = |ns: bool| {
        let index = usize::from(ns) % models.len();
        (index, NamespaceId(index as u32 + 1), &models[index])
    };
    Some(match *action {
        Action::Write { ns, zone, off, blocks, fua, zeroes } => {
            let (index, nsid, model) = pick(ns);
            let (first, zone) = zone_at(model, zone);
            let pointer = if zone.state == ZoneState::Full { model.shape.capacity - 1 } else { zone.pointer };
            let range = LbaRange { start: Lba(first + pointer + u64::from(off)), count: blocks.into() };
            let command = match zeroes {
                true => Command::WriteZeroes { nsid, range, fua, deallocate: false },
                false => Command::write(nsid, range, fua),
            };
            (index, command)
        }
        Action::Append { ns, zone, blocks, fua } => {
            let (index, nsid, model) = pick(ns);
            (index, Command::ZoneAppend { nsid, zone: Lba(zone_at(model, zone).0), blocks: blocks.into(), fua })
        }
        Action::Send { ns, zone, action, all, zrwa, off } => {
            let (index, nsid, model) = pick(ns);
            let (first, zone) = zone_at(model, zone);
            let start = match action {
                ZoneSendAction::FlushZrwa => first + (zone.pointer + u64::from(off)).saturating_sub(1),
                _ => first,
            };
            (index, Command::ZoneManagementSend { nsid, start: Lba(start), action, all, zrwa })
        }
        Action::Read { ns, at, blocks } => {
            let (index, nsid, model) = pick(ns);
            let start = Lba(u64::from(at) % model.shape.blocks());
            (index, Command::Read { nsid, range: LbaRange { start, count: blocks.into() }, fua: false })
        }
        Action::Report { ns, at, action, filter, partial, bytes } => {
            let (index, nsid, model) = pick(ns);
            let start = Lba(u64::from(at) % model.shape.blocks());
            (index, Command::ZoneManagementReceive { nsid, start, action, filter, partial, bytes: bytes.into() })
        }
        Action::Flush { ns } => {
            let (index, nsid, _) = pick(ns);
            (index, Command::Flush { nsid })
        }
        Action::Event { .. } | Action::Wait { .. } | Action::Drain | Action::Cut { .. } => return None,
    })
}

/// First block of a zone, and the zone.
fn zone_at(model: &Model, zone: u8) -> (u64, &ModelZone) {
    let index = u64::from(zone) % model.shape.zones;
    (index * model.shape.zone_blocks, &model.zones[index as usize])
}

/// Any action; power cuts only with `cuts`.
pub(super) fn actions(cuts: bool) -> impl Strategy<Value = Action> + Clone {
    let (ns, zone) = (prop::bool::weighted(0.3), 0..8_u8);
    let blocks = || prop_oneof![4 => 1..5_u8, 4 => 5..17_u8, 1 => Just(0_u8), 1 => 17..19_u8];
    let fua = || prop::bool::weighted(0.1);
    let off = prop_oneof![6 => Just(0_u8), 3 => 0..12_u8];
    let send = prop_oneof![
        3 => Just(ZoneSendAction::Open),
        3 => Just(ZoneSendAction::Close),
        3 => Just(ZoneSendAction::Finish),
        8 => Just(ZoneSendAction::Reset),
        1 => Just(ZoneSendAction::Offline),
        1 => Just(ZoneSendAction::SetDescriptorExtension),
        4 => Just(ZoneSendAction::FlushZrwa),
    ];
    let receive = prop::sample::select(ZoneReceiveAction::ALL);
    let filter = prop::sample::select(ZoneReportFilter::ALL);
    let event = prop::sample::select(ControllerEvent::ALL);
    let flag = |weight: f64| prop::bool::weighted(weight);
    prop_oneof![
        30 => (ns, zone.clone(), off, blocks(), fua(), flag(0.05)).prop_map(|(ns, zone, off, blocks, fua, zeroes)| {
            Action::Write { ns, zone, off, blocks, fua, zeroes }
        }),
        20 => (ns, zone.clone(), blocks(), fua())
            .prop_map(|(ns, zone, blocks, fua)| Action::Append { ns, zone, blocks, fua }),
        1 => (ns, zone.clone(), event).prop_map(|(ns, zone, event)| Action::Event { ns, zone, event }),
        16 => (ns, zone, send, flag(0.03), flag(0.4), 0..9_u8).prop_map(|(ns, zone, action, all, zrwa, off)| {
            let zrwa = zrwa && action == ZoneSendAction::Open;
            Action::Send { ns, zone, action, all, zrwa, off }
        }),
        14 => (ns, any::<u16>(), blocks()).prop_map(|(ns, at, blocks)| Action::Read { ns, at, blocks }),
        4 => (ns, any::<u16>(), receive, filter, any::<bool>(), 0..1024_u16).prop_map(
            |(ns, at, action, filter, partial, bytes)| Action::Report { ns, at, action, filter, partial, bytes }
        ),
        3 => ns.prop_map(|ns| Action::Flush { ns }),
        12 => (0..600_u16).prop_map(|micros| Action::Wait { micros }),
        2 => (0..30_000_u16).prop_map(|micros| Action::Wait { micros }),
        2 => Just(Action::Drain),
        2 => any::<u64>().prop_map(move |lot| if cuts { Action::Cut { survivors: Choice::Lot(lot) } } else { Action::Drain }),
    ]
}

/// The same actions for the same seed.
pub(super) fn sequence(seed: u8, length: usize, cuts: bool) -> Vec<Action> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    prop::collection::vec(actions(cuts), length).new_tree(&mut runner).unwrap().current()
}
