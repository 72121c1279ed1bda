//! What the model must give where a formula says what that is.

use crate::common::{Random, Rig, flush, read, write};
use ssd::config::{Duplex, Initial, SsdConfig};
use ssd::{Device, Ssd};
use units::{ByteSize, Nanos};

/// A small single-time device: every page reads in 50 us and programs in 500 us.
fn small() -> SsdConfig {
    let mut config = SsdConfig::reference();
    config.namespaces = vec![ByteSize(4 << 30)];
    config.over_provisioning = Some(0.6);
    config.geometry.pages_per_block = 96;
    config.cell.read = vec![Nanos::from_micros(50)];
    config.cell.program = vec![Nanos::from_micros(500)];
    config.link.bandwidth = ByteSize(1_000_000_000_000);
    config.channel.bandwidth = ByteSize(1_000_000_000_000);
    config.channel.command_overhead = Nanos::ZERO;
    config.controller.processors = 64;
    config.initial = Initial { fill: 1.0, ..Initial::default() };
    config
}

fn within(actual: f64, expected: f64, share: f64) {
    let error = actual / expected - 1.0;
    assert!(error.abs() <= share, "{actual} is {:.2} % off {expected}", error * 100.0);
}

#[test]
fn read_latency_is_the_sum_of_its_parts() {
    let config = SsdConfig { initial: Initial { fill: 1.0, ..Initial::default() }, ..SsdConfig::reference() };
    let mut rig = Rig::new(Ssd::new(&config).unwrap());
    let fixed = config.link.submission_latency + config.controller.read + config.link.completion_latency;
    let channel = |bytes| config.channel.command_overhead + Nanos::transfer(bytes, config.channel.bandwidth.0);
    let link = |bytes| Nanos::transfer(bytes, config.link.bandwidth.0);
    // The first three stripes of a sequentially filled device are pages 0, 1
    // and 2 of every die: LSB, CSB, MSB.
    let stripe_blocks = 64 * 8;
    for (page, array) in config.cell.read.iter().enumerate() {
        let lba = page as u64 * stripe_blocks + 77;
        assert_eq!(rig.once(read(lba, 1)), fixed + *array + channel(4096) + link(4096), "page type {page}");
    }
    // A superpage (8 units) on one die: one array read, one transfer each.
    assert_eq!(rig.once(read(8, 8)), fixed + config.cell.read[0] + channel(32_768) + link(32_768));
    // Nothing on flash: no flash time.
    let empty = SsdConfig::reference();
    let mut rig = Rig::new(Ssd::new(&empty).unwrap());
    assert_eq!(rig.once(read(0, 1)), fixed + link(4096));
    // A write: processing, link, buffer. Read back from the buffer.
    assert_eq!(rig.once(write(5, 1)), fixed + link(4096));
    assert_eq!(rig.once(read(5, 1)), fixed + link(4096));
    // Flush: firmware, the data's program, one journal page, one after the other.
    let flushed = rig.once(flush());
    let program = channel(16_384) + config.cell.program[0];
    let expected = fixed + config.controller.flush_overhead + program * 2;
    assert_eq!(flushed, expected);
    assert_eq!(rig.once(flush()), fixed, "a flush with nothing to do");
    assert_eq!(rig.once(read(5, 1)), fixed + config.cell.read[0] + channel(4096) + link(4096), "from flash now");
}

#[test]
fn saturation_is_the_least_of_dies_channel_and_link() {
    let random_reads = |config: &SsdConfig| {
        let mut rig = Rig::new(Ssd::new(config).unwrap());
        let mut random = Random(1);
        let blocks = rig.device.identity().namespace_blocks[0];
        rig.closed_loop(4096, 300_000, || read(random.below(blocks), 1)).per_s()
    };
    // Dies: 64 reads every 50 us.
    within(random_reads(&small()), 64.0 / 50e-6, 0.02);
    // Channels: 8 x 200 MB/s of 4 KiB.
    let mut channel = small();
    channel.channel.bandwidth = ByteSize(200_000_000);
    within(random_reads(&channel), 8.0 * 200e6 / 4096.0, 0.02);
    // Link: 1 GB/s.
    let mut link = small();
    link.link.bandwidth = ByteSize(1_000_000_000);
    within(random_reads(&link), 1e9 / 4096.0, 0.01);
    // Processors: one, 2 us a command.
    let mut processor = small();
    processor.controller.processors = 1;
    within(random_reads(&processor), 500e3, 0.01);
}

#[test]
fn sequential_writes_saturate_programs_or_the_link() {
    let sequential = |config: &SsdConfig, commands| {
        let mut rig = Rig::new(Ssd::new(config).unwrap());
        let mut at = 0;
        let next = || {
            at += 32;
            write((at - 32) % (1 << 20), 32)
        };
        rig.closed_loop(32, commands, next).per_s() * 131_072.0
    };
    let mut config = SsdConfig { initial: Initial::default(), ..small() };
    // Just enough to keep every die busy, so that filling it hardly counts.
    config.buffer.size = ByteSize(8 << 20);
    // 64 dies x 2 planes x 16 KiB every 500 us.
    within(sequential(&config, 8000), 64.0 * 32_768.0 / 500e-6, 0.02);
    // Half duplex changes nothing where all goes one way.
    config.link.duplex = Duplex::Half;
    config.link.bandwidth = ByteSize(500_000_000);
    within(sequential(&config, 8000), 500e6, 0.01);
}

#[test]
fn littles_law() {
    let mut rig = Rig::new(Ssd::new(&small()).unwrap());
    let mut random = Random(3);
    let depth = 48;
    let blocks = rig.device.identity().namespace_blocks[0];
    let measured = rig.closed_loop(depth, 100_000, || match random.below(4) {
        0 => write(random.below(blocks), 1),
        _ => read(random.below(blocks), 1),
    });
    // L = lambda W; the loop does not end with the commands it measures.
    within(measured.per_s() * measured.mean_latency_ns() / 1e9, depth.into(), 0.005);
}

#[test]
fn poisson_reads_of_one_die_wait_as_pollaczek_and_khinchine_say() {
    let mut config = small();
    config.namespaces = vec![ByteSize(512 << 20)];
    config.geometry.channels = 1;
    config.geometry.chips_per_channel = 1;
    config.geometry.dies_per_chip = 1;
    // M/G/1: two page types, 30 and 70 us, half of the reads each; no merging
    // to speak of, since addresses rarely meet.
    config.cell.bits = 2;
    config.cell.read = vec![Nanos::from_micros(30), Nanos::from_micros(70)];
    let mut rig = Rig::new(Ssd::new(&config).unwrap());
    let alone = (rig.once(read(0, 1)).0 + rig.once(read(8, 1)).0) as f64 / 2.0;
    let (mean, second) = (50e3, (30e3 * 30e3 + 70e3 * 70e3) / 2.0);
    let load = 0.5;
    let rate = load / mean;
    let expected_wait = rate * second / (2.0 * (1.0 - load));

    let blocks = rig.device.identity().namespace_blocks[0];
    let mut random = Random(9);
    let mut arrival = rig.now.0 as f64;
    let (total, mut completed, mut submitted) = (200_000, 0, 0_u64);
    let mut issued = vec![Nanos::ZERO; 1 << 16];
    let (mut sum, mut done) = (0_u64, Vec::new());
    while completed < total {
        let due = rig.device.next_event();
        if submitted < total && due.is_none_or(|due| due.0 > arrival as u64) {
            rig.now = Nanos(arrival as u64);
            let cid = submitted as u16;
            issued[usize::from(cid)] = rig.now;
            rig.submit(cid, read(random.below(blocks), 1));
            submitted += 1;
            arrival -= random.share().ln() / rate;
            continue;
        }
        rig.device.advance(due.unwrap(), &mut done);
        for completion in done.drain(..) {
            sum += (completion.at - issued[usize::from(completion.cid.0)]).0;
            completed += 1;
        }
    }
    let wait = sum as f64 / total as f64 - alone;
    within(wait, expected_wait, 0.03);
}
