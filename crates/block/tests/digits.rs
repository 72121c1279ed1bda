//! The same digits as ever: each command, result, span and counter of a fixed set of runs over every scheduler, with and without
//! zones, held against digests of the same runs earlier. What only moves code changes none of them.

use std::cell::RefCell;
use std::num::NonZeroU16;
use std::rc::Rc;

use crate::digest::{Digest, compare};
use crate::support::zoned::{CAPACITY, ZONE, ZonedDevice};
use crate::support::{BLOCK, CacheDevice, bio, text};
use block::{Bio, BioFlags, BioOp, BlockDevice, QueueConfig, SchedulerKind, ZincClassConfig, ZincConfig, ZoneOp};
use nvme::NamespaceId;
use rand::RngExt;
use sim::rng::{Rng, stream};
use sim::{Executor, Handle};
use ssd::config::SsdConfig;
use ssd::{Device, Ssd, Submission, Wrapper};
use trace::Recorder;
use units::{ByteSize, Nanos};

type Shared = Rc<RefCell<Digest>>;

/// A device whose commands go into the digest.
struct Seen {
    device: Box<dyn Device>,
    digest: Shared,
}

impl Wrapper for Seen {
    fn inner(&self) -> &dyn Device {
        self.device.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        self.device.as_mut()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let Submission { queue, cid, command, data, request } = &submission;
        let mut digest = self.digest.borrow_mut();
        digest.line(format_args!("{} {} {} {} {}", now.0, queue.0, cid.0, text(command), request.0));
        digest.bytes(data.as_deref());
        drop(digest);
        self.device.submit(now, submission);
    }
}

/// A bio with what the generator chose of modifiers.
fn flagged(rng: &mut Rng, bio: Bio, tag: u64) -> Bio {
    let one_of = |rng: &mut Rng, n| rng.random_range(0..n) == 0;
    let mut flags = BioFlags::empty();
    let likely = [
        (BioFlags::SYNC, 3),
        (BioFlags::META, 8),
        (BioFlags::NOMERGE, 16),
        (BioFlags::REALTIME, 12),
        (BioFlags::IDLE_PRIORITY, 12),
    ];
    for (flag, n) in likely {
        flags.set(flag, one_of(rng, n));
    }
    if bio.op == BioOp::Write {
        flags.set(BioFlags::FUA, one_of(rng, 12));
        flags.set(BioFlags::PREFLUSH, one_of(rng, 16));
    }
    let data = (bio.op == BioOp::Write && one_of(rng, 2)).then(|| vec![tag as u8; bio.bytes as usize].into());
    Bio { flags, data, request: trace::RequestId(tag), ..bio }
}

/// Any bio, mostly where others are.
fn plain_bio(rng: &mut Rng, tag: u64) -> Bio {
    let (block, blocks) = (rng.random_range(0..600), rng.random_range(1..12));
    let made = match rng.random_range(0..20) {
        0..8 => bio(BioOp::Read, block, blocks, BioFlags::empty()),
        8..15 => bio(BioOp::Write, block, blocks, BioFlags::empty()),
        15 => bio(BioOp::Discard, block, blocks, BioFlags::empty()),
        16 => bio(BioOp::WriteZeroes, block, blocks, BioFlags::empty()),
        17 => return bio(BioOp::Write, 0, 0, BioFlags::PREFLUSH),
        // Too large for one request.
        18 => bio(BioOp::Write, block, 400, BioFlags::empty()),
        _ => return bio(BioOp::Read, block, blocks, BioFlags::PASSTHROUGH),
    };
    flagged(rng, made, tag)
}

/// A bio to one of four zones: the next write or append, a read, or management.
fn zone_bio(rng: &mut Rng, filled: &mut [u64; 4], tag: u64) -> Bio {
    let zone = rng.random_range(0..4_usize);
    let (start, blocks) = (zone as u64 * ZONE, rng.random_range(1..8));
    let at = filled[zone];
    let made = match rng.random_range(0..24) {
        0..16 if at + blocks <= CAPACITY => {
            filled[zone] += blocks;
            let (op, at) = if zone == 3 { (BioOp::ZoneAppend, 0) } else { (BioOp::Write, at) };
            bio(op, start + at, blocks, BioFlags::empty())
        }
        16..20 => bio(BioOp::Read, start, blocks, BioFlags::empty()),
        20 => bio(BioOp::Zone(ZoneOp::Finish), start, 0, BioFlags::empty()),
        _ => {
            filled[zone] = 0;
            return bio(BioOp::Zone(ZoneOp::Reset), start, 0, BioFlags::SYNC);
        }
    };
    flagged(rng, made, tag)
}

/// One CPU's task: batches of bios, through a plug or not, each awaited, with pauses in between.
async fn task(handle: Handle, device: BlockDevice, digest: Shared, cpu: u16, zoned: bool, seed: u64) {
    let mut rng = stream(seed, "task");
    let mut filled = [0; 4];
    for round in 0..40_u64 {
        let mut plug = (rng.random_range(0..3) == 0).then(|| device.plug(cpu));
        let mut futures = Vec::new();
        for number in 0..rng.random_range(1..14) {
            let tag = (u64::from(cpu) << 32) + (round << 8) + number;
            // Zones belong to CPUs, so that each writes where it means to: namespace 1 to the even ones.
            let made = if zoned {
                Bio { nsid: NamespaceId(1 + u32::from(cpu % 2)), ..zone_bio(&mut rng, &mut filled, tag) }
            } else {
                plain_bio(&mut rng, tag)
            };
            futures.push(match &mut plug {
                Some(plug) => plug.submit(made),
                None => device.submit(cpu, made),
            });
        }
        drop(plug);
        for future in futures {
            let result = future.await;
            let mut digest = digest.borrow_mut();
            let (kind, code) = (result.status.code_type, result.status.code);
            let (sector, at) = (result.sector.0, result.completed_at.0);
            digest.line(format_args!("{cpu} {round} {kind} {code} {sector} {at}"));
            digest.bytes(result.data.as_deref());
        }
        if rng.random_range(0..3) == 0 {
            handle.sleep(Nanos::from_micros(rng.random_range(1..300))).await;
        }
    }
}

/// Runs a task on each of `tasks` CPUs, with a power cut in the middle.
fn drive(device: Box<dyn Device>, config: QueueConfig, tasks: u16) -> String {
    let mut executor = Executor::new_virtual();
    let digest = Shared::default();
    let recorder = Recorder::bounded(1 << 17);
    let zoned = device.identity().zoned.is_some();
    let seen = Seen { device, digest: digest.clone() };
    let device = BlockDevice::new(&executor.handle(), Box::new(seen), config, recorder.clone());
    let handle = executor.handle();
    for cpu in 0..tasks {
        drop(handle.spawn(task(handle.clone(), device.clone(), digest.clone(), cpu, zoned, cpu.into())));
    }
    executor.run_until(Nanos::from_micros(2_500));
    let cut = device.power_cut();
    digest.borrow_mut().line(format_args!("{} undecided, {:?}", cut.undecided.len(), device.statistics()));
    device.power_on();
    assert_eq!(executor.run(), 0, "tasks wait for ever");
    let mut digest = digest.borrow_mut();
    digest.line(format_args!("{:?} {:?}", device.statistics(), device.device_counters()));
    let (spans, dropped) = recorder.take();
    digest.line(format_args!("{dropped} more spans"));
    for span in spans {
        digest.line(format_args!("{span:?}"));
    }
    digest.text()
}

/// Settings of the queues: CPUs, hardware queues, driver tags, requests.
const QUEUES: [(u16, u16, u16, u16); 3] = [(1, 1, 4, 6), (4, 2, 3, 5), (4, 4, 32, 32)];

/// Every scheduler with every setting of the queues.
fn configs() -> impl Iterator<Item = (String, u16, QueueConfig)> {
    QUEUES.into_iter().flat_map(|(cpus, queues, depth, requests)| {
        SchedulerKind::ALL.into_iter().map(move |scheduler| {
            let epoch_interval = Nanos::from_micros(70);
            let class = ZincClassConfig { epoch_interval, command_tokens: 4, ..Default::default() };
            let config = QueueConfig {
                scheduler: Some(scheduler),
                cpus: NonZeroU16::new(cpus).unwrap(),
                nr_hw_queues: NonZeroU16::new(queues),
                queue_depth: NonZeroU16::new(depth),
                nr_requests: NonZeroU16::new(requests),
                zinc: ZincConfig { tick: Nanos::ZERO, reset: class.clone(), finish: class },
                ..Default::default()
            };
            (format!("{}, {cpus} CPUs, {queues} queues, depth {depth}", scheduler.name()), cpus, config)
        })
    })
}

#[test]
fn disks() {
    let mut now = Vec::new();
    for (name, cpus, config) in configs() {
        for fua in [true, false] {
            let (mut device, _) = CacheDevice::new(1 << 20, Nanos::from_micros(10));
            device.identity_mut().supports_fua = fua;
            device.latencies(Nanos::from_micros(10), Nanos::from_micros(35));
            let device_name = if fua { "cache with FUA" } else { "cache without FUA" };
            now.push((format!("{name}, {device_name}"), drive(Box::new(device), config.clone(), cpus)));
        }
        let mut reference = SsdConfig::reference();
        reference.namespaces = vec![ByteSize(1 << 30)];
        let device = Ssd::new(&reference).unwrap();
        now.push((format!("{name}, SSD"), drive(Box::new(device), config, cpus)));
    }
    compare(include_str!("data/disks.txt"), &now);
}

#[test]
fn zones() {
    let mut now = Vec::new();
    for (name, cpus, config) in configs() {
        let (device, _) = ZonedDevice::new(&[16, 16], Nanos::from_micros(20), 9);
        now.push((format!("{name}, zones of {}", ZONE * BLOCK), drive(Box::new(device), config, cpus)));
    }
    compare(include_str!("data/zones.txt"), &now);
}
