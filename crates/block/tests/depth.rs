//! Throughput by depth through the block layer: more I/Os outstanding never make a device slower, and the device has
//! no more to do for each of them.

use std::cell::Cell;
use std::rc::Rc;

use block::{Bio, BioFlags, BioOp, BlockDevice, QueueConfig, SchedulerKind, Sector};
use nvme::NamespaceId;
use sim::Executor;
use ssd::profile::{BuildOptions, Profile, builtin_text};
use ssd::{Completion, Device, Wrapper};
use trace::{Recorder, RequestId};
use units::Nanos;

/// How far throughput may be below the best at a lower depth.
const TOLERANCE: f64 = 0.05;

/// The times at which a device has something to do, counted.
struct Counted {
    device: Box<dyn Device>,
    events: Rc<Cell<u64>>,
}

impl Wrapper for Counted {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }
    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.device
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.events.set(self.events.get() + 1);
        self.device.advance(now, completions);
    }
    fn advance_unseen(&mut self, _limit: Nanos) -> Option<Nanos> {
        // Every event counts.
        None
    }
}

#[derive(Clone, Copy, Debug)]
struct Work {
    op: BioOp,
    random: bool,
    block_bytes: u64,
    /// Zones, or regions of the device.
    streams: u64,
}

/// A number that has nothing to do with those before and after it (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

struct Progress {
    warm_up: u64,
    count: u64,
    completed: Cell<u64>,
    from: Cell<(Nanos, u64)>,
    until: Cell<(Nanos, u64)>,
    events: Rc<Cell<u64>>,
}

/// A built-in profile's device; of a zoned one, the zones that are read are full.
fn device(profile: &str, work: Work) -> Box<dyn Device> {
    let mut table: toml::Table = builtin_text(profile).unwrap().parse().unwrap();
    if table["kind"].as_str() == Some("zoned") && work.op == BioOp::Read {
        let initial: toml::Table = format!("full_zones = [{}]", work.streams).parse().unwrap();
        table.insert("initial".to_owned(), initial.into());
    }
    Profile::from_table(profile, &table).unwrap().build(&BuildOptions::default()).unwrap()
}

/// Bytes a second, and events of the device for each I/O, with `depth` tasks that each have one outstanding.
fn measure(profile: &str, scheduler: SchedulerKind, work: Work, depth: u32, deepest: u32) -> (f64, f64) {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let device = device(profile, work);
    let identity = device.identity().clone();
    let events = Rc::new(Cell::new(0));
    let counted = Counted { device, events: Rc::clone(&events) };
    let config = QueueConfig { scheduler: Some(scheduler), ..QueueConfig::default() };
    let device = BlockDevice::new(&handle, Box::new(counted), config, Recorder::default());
    // The same volume at each depth, so that buffers and caches are as full.
    let least = (32 << 20) / work.block_bytes;
    let progress = Rc::new(Progress {
        warm_up: (4 * u64::from(deepest)).max(least) + 100,
        count: (4 * u64::from(deepest)).max(least).max(400),
        completed: Cell::new(0),
        from: Cell::default(),
        until: Cell::default(),
        events,
    });
    let sectors = work.block_bytes / 512;
    let lba_sectors = u64::from(identity.lba_bytes / 512);
    let (apart, room) = match &identity.zoned {
        Some(zoned) => (zoned.zone_blocks * lba_sectors, zoned.zone_capacity_blocks * lba_sectors),
        None => {
            let each = identity.namespace_blocks[0] * lba_sectors / work.streams / 8192 * 8192;
            (each, each)
        }
    };
    // Where each stream goes on.
    let at: Rc<Vec<Cell<u64>>> = Rc::new((0..work.streams).map(|_| Cell::new(0)).collect());
    for task in 0..depth {
        let (device, progress, at, handle) = (device.clone(), Rc::clone(&progress), Rc::clone(&at), handle.clone());
        let mut drawn = u64::from(task) << 32;
        executor.handle().spawn(async move {
            let stream = u64::from(task) % work.streams;
            while progress.completed.get() < progress.warm_up + progress.count {
                drawn += 1;
                let place = &at[stream as usize];
                let offset = if work.random { mixed(drawn) % (room / sectors) * sectors } else { place.get() };
                place.set(offset + sectors);
                let bio = Bio {
                    nsid: NamespaceId::FIRST,
                    op: work.op,
                    sector: Sector(stream * apart + offset),
                    bytes: work.block_bytes,
                    flags: BioFlags::empty(),
                    data: None,
                    order: None,
                    request: RequestId::default(),
                };
                let result = device.submit((task % 4) as u16, bio).await;
                assert!(result.status.is_success(), "{work:?}: {:?}", result.status);
                let completed = progress.completed.get() + 1;
                progress.completed.set(completed);
                let now = (handle.now(), progress.events.get());
                if completed == progress.warm_up {
                    progress.from.set(now);
                }
                if completed == progress.warm_up + progress.count {
                    progress.until.set(now);
                }
            }
        });
    }
    assert_eq!(executor.run(), 0, "{profile}, {work:?}, depth {depth}: tasks wait for ever");
    let ((from, first), (until, last)) = (progress.from.get(), progress.until.get());
    let seconds = until.since(from).as_secs_f64();
    let bytes = (progress.count * work.block_bytes) as f64;
    (bytes / seconds, (last - first) as f64 / progress.count as f64)
}

#[test]
fn more_outstanding_never_slow_the_block_layer_down() {
    let long = std::env::var_os("PLUMB_LONG").is_some();
    let depths: &[u32] = if long { &[1, 8, 32, 128, 512, 2048] } else { &[1, 16, 256, 1024] };
    let sizes: &[u64] = if long { &[4, 20, 64, 128] } else { &[4, 128] };
    let mut wrong = Vec::new();
    for profile in ["wd-zn540", "confznspp", "samsung-980pro-1tb"] {
        let zoned = profile != "samsung-980pro-1tb";
        for scheduler in [SchedulerKind::None, SchedulerKind::MqDeadline] {
            for kib in sizes {
                let works = [(BioOp::Read, true), (BioOp::Write, false), (BioOp::Write, true)];
                for (op, random) in works.into_iter().filter(|(op, random)| !(zoned && *random && *op == BioOp::Write))
                {
                    let work = Work { op, random, block_bytes: kib * 1024, streams: 4 };
                    let mut best = 0.0_f64;
                    for depth in depths.iter().filter(|depth| u64::from(**depth) >= work.streams) {
                        let (rate, events) = measure(profile, scheduler, work, *depth, depths[depths.len() - 1]);
                        println!("{profile}, {scheduler:?}, {work:?}, {depth}: {:.1} MB/s ({events:.1})", rate / 1e6);
                        if rate < best * (1.0 - TOLERANCE) {
                            wrong.push(format!(
                                "{profile}, {scheduler:?}, {work:?}: {rate:.0} B/s at {depth}, {best:.0} below"
                            ));
                        }
                        // As on the device alone; a bio may be split, and what follows in a zone or file may be merged.
                        let bound = 12.0 + 8.0 * *kib as f64 / 4.0;
                        if events > bound {
                            wrong.push(format!("{profile}, {scheduler:?}, {work:?}: {events:.1} events at {depth}"));
                        }
                        best = best.max(rate);
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
