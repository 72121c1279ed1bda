//! Random zone traffic through every configuration against a model of what the
//! zones hold, on a device that takes commands in any order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::rc::Rc;

use crate::support::zoned::{CAPACITY, ZONE, ZonedDevice};
use crate::support::{BLOCK, bio};
use block::{
    Bio, BioFlags, BioOp, BlockDevice, NoMerges, QueueConfig, SchedulerKind, ZincClassConfig, ZincConfig, ZoneOp,
};
use nvme::{NamespaceId, Status};
use proptest::prelude::*;
use sim::{Executor, Handle, JoinHandle};
use trace::Recorder;
use units::Nanos;

/// Zones that are written and zones that are appended to, in each of two namespaces.
const ZONES: u64 = 4;

#[derive(Clone, Debug)]
enum Action {
    /// Write the next blocks of an even zone, or append to an odd one.
    Fill {
        nsid: u32,
        zone: u64,
        blocks: u64,
        flags: u16,
        cpu: u16,
    },
    Read {
        nsid: u32,
        zone: u64,
        cpu: u16,
    },
    Manage {
        nsid: u32,
        zone: u64,
        finish: bool,
        cpu: u16,
    },
    Plug(u16),
    Unplug,
    Pause(u64),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let place = || (1..3_u32, 0..ZONES, 0..4_u16);
    // FUA and PREFLUSH among others, on one in four.
    let flags = prop_oneof![3 => Just(0), 1 => 0..16_u16];
    let action = prop_oneof![
        14 => (place(), 1..6_u64, flags).prop_map(|((nsid, zone, cpu), blocks, flags)| Action::Fill { nsid, zone, blocks, flags, cpu }),
        3 => place().prop_map(|(nsid, zone, cpu)| Action::Read { nsid, zone, cpu }),
        1 => (place(), any::<bool>()).prop_map(|((nsid, zone, cpu), finish)| Action::Manage { nsid, zone, finish, cpu }),
        2 => (0..4_u16).prop_map(Action::Plug),
        2 => Just(Action::Unplug),
        2 => (1..60_u64).prop_map(Action::Pause),
    ];
    prop::collection::vec(action, 1..120)
}

fn configs() -> impl Strategy<Value = QueueConfig> {
    let scheduler = prop_oneof![
        Just(SchedulerKind::None),
        Just(SchedulerKind::MqDeadline),
        Just(SchedulerKind::Zinc),
        Just(SchedulerKind::ZincLifo)
    ];
    let nomerges = prop_oneof![4 => Just(NoMerges::All), 1 => Just(NoMerges::OneHit), 1 => Just(NoMerges::Never)];
    (scheduler, nomerges, 1..5_u16, 1..5_u16, 1..40_u16, 2..40_u16, 1..200_u64).prop_map(
        |(scheduler, nomerges, cpus, hw, depth, requests, epoch_us)| {
            let class = ZincClassConfig { epoch_interval: Nanos::from_micros(epoch_us), ..Default::default() };
            QueueConfig {
                scheduler: Some(scheduler),
                nomerges,
                cpus: NonZeroU16::new(cpus).unwrap(),
                nr_hw_queues: NonZeroU16::new(hw),
                queue_depth: NonZeroU16::new(depth),
                nr_requests: NonZeroU16::new(requests),
                zinc: ZincConfig { tick: Nanos::ZERO, reset: class.clone(), finish: class },
                ..Default::default()
            }
        },
    )
}

/// What the zones hold.
#[derive(Default)]
struct Model {
    /// By (namespace, zone).
    zones: BTreeMap<(u32, u64), Zone>,
    next_version: u64,
    submitted: usize,
    completed: usize,
    /// The power was cut: bios may fail with it.
    cut: bool,
}

/// What one zone holds.
#[derive(Default)]
struct Zone {
    /// Blocks that were submitted to it.
    filled: u64,
    /// Versions by block: of writes once submitted, of appends once they say where.
    versions: BTreeMap<u64, u64>,
}

fn pattern(version: u64) -> impl Iterator<Item = u8> {
    version.to_le_bytes().into_iter().cycle().take(BLOCK as usize)
}

type InFlight = Vec<JoinHandle<()>>;

/// Submits a bio; `check` sees its result unless the power was cut.
fn submit(
    (handle, device, model): (&Handle, &BlockDevice, &Rc<RefCell<Model>>),
    plug: &mut Option<block::Plug>,
    (cpu, bio): (u16, Bio),
    check: impl FnOnce(&mut Model, block::BioResult) + 'static,
) -> JoinHandle<()> {
    model.borrow_mut().submitted += 1;
    let future = match plug {
        Some(plug) => plug.submit(bio),
        None => device.submit(cpu, bio),
    };
    let model = model.clone();
    handle.spawn(async move {
        let result = future.await;
        let mut model = model.borrow_mut();
        model.completed += 1;
        if !model.cut || result.status != Status::ABORTED_POWER_LOSS {
            assert!(result.status.is_success(), "{:?}", result.status);
            check(&mut model, result);
        }
    })
}

/// The next bio for a zone that has room for it, and the versions it carries: a
/// write to an even zone, an append to an odd one.
fn fill(model: &mut Model, (nsid, zone): (u32, u64), blocks: u64, flags: u16) -> Option<(Bio, Vec<u64>)> {
    let known = model.zones.entry((nsid, zone)).or_default();
    let at = known.filled;
    if at + blocks > CAPACITY {
        return None;
    }
    known.filled += blocks;
    let versions: Vec<u64> = (model.next_version..model.next_version + blocks).map(|version| version + 1).collect();
    model.next_version += blocks;
    let (op, start) = if zone % 2 == 1 {
        (BioOp::ZoneAppend, 0)
    } else {
        known.versions.extend((at..).zip(versions.iter().copied()));
        (BioOp::Write, at)
    };
    let data = versions.iter().flat_map(|version| pattern(*version)).collect();
    let made = bio(op, zone * ZONE + start, blocks, BioFlags::from_bits_truncate(flags));
    Some((Bio { nsid: NamespaceId(nsid), data: Some(data), ..made }, versions))
}

async fn drain(plug: &mut Option<block::Plug>, in_flight: &mut InFlight) {
    *plug = None;
    for task in in_flight.drain(..) {
        task.await;
    }
}

async fn perform(handle: Handle, device: BlockDevice, model: Rc<RefCell<Model>>, actions: Vec<Action>) {
    let mut plug = None;
    let mut in_flight = InFlight::new();
    let ends = (&handle, &device, &model);
    for action in actions {
        match action {
            Action::Plug(cpu) => drop(plug.replace(device.plug(cpu))),
            Action::Unplug => drop(plug.take()),
            Action::Pause(micros) => {
                plug = None;
                handle.sleep(Nanos::from_micros(micros)).await;
            }
            Action::Fill { nsid, zone, blocks, flags, cpu } => {
                let made = fill(&mut model.borrow_mut(), (nsid, zone), blocks, flags);
                let Some((made, versions)) = made else { continue };
                in_flight.push(submit(ends, &mut plug, (cpu, made), move |model, result| {
                    let place = result.sector.0 * 512 / BLOCK - zone * ZONE;
                    let known = &mut model.zones.entry((nsid, zone)).or_default().versions;
                    for (place, version) in (place..).zip(versions) {
                        let before = known.insert(place, version);
                        assert!(before.is_none_or(|before| before == version), "two appends to one place");
                    }
                }));
            }
            Action::Read { nsid, zone, cpu } => {
                drain(&mut plug, &mut in_flight).await;
                let versions: Vec<u64> = match model.borrow().zones.get(&(nsid, zone)) {
                    Some(zone) => zone.versions.values().copied().collect(),
                    None => Vec::new(),
                };
                if versions.is_empty() {
                    continue;
                }
                let made = bio(BioOp::Read, zone * ZONE, versions.len() as u64, BioFlags::empty());
                let made = Bio { nsid: NamespaceId(nsid), ..made };
                in_flight.push(submit(ends, &mut plug, (cpu, made), move |_, result| {
                    let expected: Vec<u8> = versions.iter().flat_map(|version| pattern(*version)).collect();
                    assert!(
                        result.data.as_deref() == Some(expected.as_slice()),
                        "zone {zone} of {nsid} reads otherwise"
                    );
                }));
            }
            Action::Manage { nsid, zone, finish, cpu } => {
                drain(&mut plug, &mut in_flight).await;
                let op = BioOp::Zone(if finish { ZoneOp::Finish } else { ZoneOp::Reset });
                // A finished zone is reset at once, so that writes go on.
                for op in [op, BioOp::Zone(ZoneOp::Reset)] {
                    let made = Bio { nsid: NamespaceId(nsid), ..bio(op, zone * ZONE, 0, BioFlags::SYNC) };
                    in_flight.push(submit(ends, &mut plug, (cpu, made), |_, _| ()));
                    drain(&mut plug, &mut in_flight).await;
                }
                model.borrow_mut().zones.remove(&(nsid, zone));
            }
        }
    }
    drain(&mut plug, &mut in_flight).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every bio completes once, writes arrive in order whatever the device does
    /// with its queues, and reads return what was written.
    #[test]
    fn zones_hold_what_was_written(actions in actions(), config in configs(), jitter_us in 0..40_u64, fua: bool, seed: u64) {
        let mut executor = Executor::new_virtual();
        let (mut device, log) = ZonedDevice::new(&[ZONES, ZONES], Nanos::from_micros(jitter_us), seed);
        device.identity_mut().supports_fua = fua;
        let device = BlockDevice::new(&executor.handle(), Box::new(device), config, Recorder::default());
        let model = Rc::new(RefCell::new(Model::default()));
        drop(executor.handle().spawn(perform(executor.handle(), device.clone(), model.clone(), actions)));
        prop_assert_eq!(executor.run(), 0, "tasks wait for ever");
        prop_assert_eq!(model.borrow().completed, model.borrow().submitted);
        prop_assert!(log.borrow().most_writes <= 1);
        let statistics = device.statistics();
        prop_assert_eq!((statistics.requests, statistics.in_flight), (0, 0));
    }

    /// A power cut at any moment leaves nothing behind that waits.
    #[test]
    fn a_power_cut_ends_every_bio(actions in actions(), config in configs(), jitter_us in 0..40_u64, cut_us in 1..900_u64, seed: u64) {
        let mut executor = Executor::new_virtual();
        let (device, _) = ZonedDevice::new(&[ZONES, ZONES], Nanos::from_micros(jitter_us), seed);
        let device = BlockDevice::new(&executor.handle(), Box::new(device), config, Recorder::default());
        let model = Rc::new(RefCell::new(Model::default()));
        drop(executor.handle().spawn(perform(executor.handle(), device.clone(), model.clone(), actions)));
        executor.run_until(Nanos::from_micros(cut_us));
        model.borrow_mut().cut = true;
        device.power_cut();
        prop_assert_eq!(executor.run(), 0, "tasks wait for ever");
        prop_assert_eq!(model.borrow().completed, model.borrow().submitted);
        device.power_on();
        let statistics = device.statistics();
        prop_assert_eq!((statistics.requests, statistics.in_flight), (0, 0));
        // The queue works again: a zone takes its writes in order.
        let reset = device.submit(0, bio(BioOp::Zone(ZoneOp::Reset), 0, 0, BioFlags::SYNC));
        crate::support::wait(&mut executor, vec![reset]);
        let write = |block: u64| device.submit(block as u16, bio(BioOp::Write, block, 1, BioFlags::empty()));
        let futures = (0..5).map(write).collect();
        prop_assert!(crate::support::wait(&mut executor, futures).iter().all(|result| result.status.is_success()));
    }
}
