//! I/O per core-second through the block layer: 4 KiB random reads and writes
//! at a queue depth, on a device of fixed latency (`null`) or on the reference
//! SSD, full (`ssd`).
//!
//! `cargo run --release -p plumb-block --example block_rate -- [null|ssd] [none|mq-deadline|zinc|zinc-lifo] [I/Os] [depth]`

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use block::{Bio, BioFlags, BioOp, BlockDevice, QueueConfig, SchedulerKind, Sector};
use sim::Executor;
use ssd::{Device, NullDevice, Ssd, SsdConfig};
use trace::{Recorder, RequestId};
use units::Nanos;

/// CPU time of this process in seconds, or of the wall clock where the system does not say.
fn cpu_seconds(start: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    match text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()) {
        Some(ns) => ns / 1e9,
        None => start.elapsed().as_secs_f64(),
    }
}

/// Runs `total` I/Os at `depth` and returns I/O per core-second and the mean depth at the device.
fn rate(device: Box<dyn Device>, config: QueueConfig, op: BioOp, total: u64, depth: u16) -> (f64, f64) {
    let mut executor = Executor::new_virtual();
    let handle = executor.handle();
    let blocks = device.identity().namespace_blocks[0] * u64::from(device.identity().lba_bytes) / 4096;
    let device = BlockDevice::new(&handle, device, config, Recorder::default());
    let left = Rc::new(Cell::new(total));
    for task in 0..depth {
        let (device, left) = (device.clone(), left.clone());
        let mut state = u64::from(task) + 1;
        handle.spawn(async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                // Any cheap mixing will do: the addresses only have to miss each other.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let bio = Bio {
                    nsid: nvme::NamespaceId::FIRST,
                    op,
                    sector: Sector((state >> 20) % blocks * 8),
                    bytes: 4096,
                    flags: BioFlags::empty(),
                    data: None,
                    order: None,
                    request: RequestId::default(),
                };
                let result = device.submit(task, bio).await;
                assert!(result.status.is_success(), "{:?}", result.status);
            }
        });
    }
    let start = Instant::now();
    let before = cpu_seconds(start);
    assert_eq!(executor.run(), 0, "tasks wait for ever");
    let seconds = cpu_seconds(start) - before;
    let statistics = device.statistics();
    assert_eq!(statistics.bios, total);
    (total as f64 / seconds, statistics.mean_device_depth(handle.now()))
}

/// A device of 512 GiB by name.
fn device(name: &str) -> Box<dyn Device> {
    match name {
        "null" => Box::new(NullDevice::new(1 << 27, 4096, Nanos::from_micros(80))),
        "ssd" => {
            let mut config = SsdConfig::reference();
            config.initial.fill = 1.0;
            Box::new(Ssd::new(&config).unwrap_or_else(|error| panic!("the reference device: {error}")))
        }
        other => panic!("`{other}` is no device here; write null or ssd"),
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "null".to_owned());
    let scheduler = arguments.next().unwrap_or_else(|| "none".to_owned());
    let scheduler = SchedulerKind::ALL
        .into_iter()
        .find(|kind| kind.name() == scheduler)
        .unwrap_or_else(|| panic!("`{scheduler}` is no scheduler; write none, mq-deadline, zinc or zinc-lifo"));
    let total: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(2_000_000);
    let depth: u16 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(32);
    for op in [BioOp::Read, BioOp::Write] {
        let config = QueueConfig { scheduler: Some(scheduler), ..QueueConfig::default() };
        let (rate, mean_depth) = rate(device(&name), config, op, total, depth);
        println!("{name}, {scheduler:?}, {op:?}: {rate:.0} I/O per core-second, mean depth {mean_depth:.1}");
    }
}
