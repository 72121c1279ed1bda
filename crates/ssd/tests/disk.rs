//! The disk obeys the laws of disks.

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status, WriteCommand};
use ssd::disk::{DiskCache, DiskController, DiskGeometry, DiskLink, DiskScheduler, DiskSeek};
use ssd::profile::{Driver, Op, Pattern, Phase, Sample};
use ssd::{Contents, Device, Disk, DiskConfig, Store, Submission};
use trace::{Recorder, RequestId, Step};
use units::{ByteSize, Nanos};

const TURN_MS: f64 = 60_000.0 / 7200.0;

fn config() -> DiskConfig {
    DiskConfig {
        model: "test disk".to_owned(),
        lba: ByteSize(512),
        capacity: ByteSize(100_000_000_000),
        geometry: DiskGeometry {
            rpm: 7200,
            heads: 2,
            zones: 16,
            outer_rate: ByteSize(200_000_000),
            inner_rate: ByteSize(100_000_000),
        },
        seek: DiskSeek {
            track_to_track: Nanos::from_micros(800),
            average: Nanos::from_micros(8500),
            full_stroke: Nanos::from_millis(18),
            head_switch: Nanos::from_micros(700),
            write_settle: Nanos::from_micros(200),
        },
        cache: DiskCache { write: ByteSize(16 << 20), read_segments: 8, read_segment: ByteSize(1 << 20) },
        controller: DiskController {
            command_overhead: Nanos::from_micros(50),
            scheduler: DiskScheduler::ShortestPositioning,
        },
        link: DiskLink { bandwidth: ByteSize(550_000_000), queue_depth: 32, max_transfer: ByteSize(1 << 20) },
    }
}

fn disk(config: &DiskConfig, contents: &Contents) -> Disk {
    let store = Store::new(contents, config.lba.0 as u32, &[Disk::blocks(config)], true).unwrap();
    Disk::new(config, store).unwrap()
}

fn phase(op: Op, pattern: Pattern, block: u64, commands: u64) -> Phase {
    Phase {
        op,
        block: ByteSize(block),
        pattern,
        queue_depth: 1,
        fua: false,
        span: None,
        offset: ByteSize(0),
        bytes: None,
        commands: Some(commands),
        after_write: None,
        idle_before: None,
        duration: None,
    }
}

fn run(config: &DiskConfig, phase: &Phase, warm_up: u64) -> Sample {
    let mut disk = disk(config, &Contents::None);
    Driver::new(&mut disk, 1).run(phase, warm_up).unwrap()
}

#[test]
fn a_random_read_costs_a_seek_half_a_turn_and_the_transfer() {
    let sample = run(&config(), &phase(Op::Read, Pattern::Random, 4096, 2000), 0);
    // The average seek is over cylinders; the outer ones hold more blocks, so
    // random blocks lie a little closer together.
    let expected_ms = 0.05 + 8.5 + TURN_MS / 2.0 + 0.03;
    let mean_ms = sample.mean_latency_ns() / 1e6;
    assert!((0.95..1.0).contains(&(mean_ms / expected_ms)), "{mean_ms} ms, by cylinders {expected_ms} ms");
}

#[test]
fn deeper_queues_and_better_orders_read_faster() {
    let iops = |scheduler, queue_depth| {
        let mut config = config();
        config.controller.scheduler = scheduler;
        run(&config, &Phase { queue_depth, ..phase(Op::Read, Pattern::Random, 4096, 2000) }, 100).iops()
    };
    let alone = iops(DiskScheduler::Elevator, 1);
    let elevator = iops(DiskScheduler::Elevator, 32);
    let shortest = iops(DiskScheduler::ShortestPositioning, 32);
    assert!(elevator > 1.3 * alone, "{elevator} {alone}");
    assert!(shortest > 1.2 * elevator, "{shortest} {elevator}");
}

#[test]
fn sequential_reads_run_at_the_rate_of_their_zone() {
    let rate = |offset: u64| {
        let phase = Phase { offset: ByteSize(offset), ..phase(Op::Read, Pattern::Sequential, 128 << 10, 4000) };
        run(&config(), &phase, 100).throughput() / 1e6
    };
    // A track of 200 MB/s takes a turn; then a head switch and, every second
    // track, a cylinder switch.
    let switches_ms = (0.7 + 1.0) / 2.0;
    let expected = |media: f64| media * TURN_MS / (TURN_MS + switches_ms);
    let (outer, inner) = (rate(0), rate(99_000_000_000));
    assert!((outer / expected(200.0) - 1.0).abs() < 0.02, "{outer}");
    assert!((inner / expected(100.0) - 1.0).abs() < 0.02, "{inner}");
    let mut without = config();
    without.cache.read_segments = 0;
    let lost = run(&without, &phase(Op::Read, Pattern::Sequential, 128 << 10, 1000), 10).throughput() / 1e6;
    assert!(lost < outer / 5.0, "without read-ahead each read waits for the next turn: {lost}");
}

#[test]
fn writes_are_fast_until_the_cache_is_full() {
    let config = config();
    let cached = run(&config, &phase(Op::Write, Pattern::Random, 4096, 1000), 0);
    assert!(cached.latency_quantile_ns(0.99) < 100e3, "{}", cached.latency_quantile_ns(0.99));
    let full = run(&config, &phase(Op::Write, Pattern::Random, 4096, 2000), 8000);
    // 4096 dirty runs are 4096 short hops of the arm, the best of 32 each time.
    let uncached = 1e9 / 12.7e6;
    let iops = full.iops();
    assert!((2.0 * uncached..8.0 * uncached).contains(&iops), "destaging in elevator order: {iops} writes/s");
    let sequential = run(&config, &phase(Op::Write, Pattern::Sequential, 128 << 10, 4000), 1000).throughput() / 1e6;
    assert!((170.0..190.0).contains(&sequential), "{sequential} MB/s");
}

#[test]
fn a_flush_takes_as_long_as_the_cache_is_dirty_and_fua_a_positioning() {
    let flush = Phase { after_write: Some(ByteSize(4096)), ..phase(Op::Flush, Pattern::Random, 4096, 300) };
    let flush_ms = run(&config(), &flush, 0).mean_latency_ns() / 1e6;
    assert!((8.0..18.0).contains(&flush_ms), "{flush_ms}");
    let fua = Phase { fua: true, ..phase(Op::Write, Pattern::Random, 4096, 1000) };
    let fua_ms = run(&config(), &fua, 0).mean_latency_ns() / 1e6;
    assert!((fua_ms - (8.7 + TURN_MS / 2.0)).abs() < 0.4, "{fua_ms}");
    let clean = run(&config(), &phase(Op::Flush, Pattern::Random, 4096, 10), 0).mean_latency_ns() / 1e6;
    assert!(clean < 0.06, "a flush of a clean cache writes nothing: {clean}");
}

fn submit(disk: &mut Disk, now: Nanos, cid: u16, command: Command, fill: Option<u8>) {
    let data = match (&command, fill) {
        (Command::Write(WriteCommand { range, .. }), Some(fill)) => Some(vec![fill; range.count as usize * 512].into()),
        _ => None,
    };
    let (queue, cid, request) = (QueueId(1), CommandId(cid), RequestId(u64::from(cid)));
    disk.submit(now, Submission { queue, cid, command, data, request });
}

fn drain(disk: &mut Disk, now: &mut Nanos) -> Vec<(u16, Status, Option<u8>)> {
    let mut completions = Vec::new();
    while let Some(next) = disk.next_event() {
        *now = (*now).max(next);
        disk.advance(*now, &mut completions);
    }
    completions.into_iter().map(|done| (done.cid.0, done.status, done.data.map(|data| data[0]))).collect()
}

fn write(start: u64, count: u32, fua: bool) -> Command {
    Command::write(NamespaceId::FIRST, LbaRange { start: Lba(start), count }, fua)
}

fn read(start: u64, count: u32) -> Command {
    Command::Read { nsid: NamespaceId::FIRST, range: LbaRange { start: Lba(start), count }, fua: false }
}

#[test]
fn a_power_cut_takes_only_what_no_flush_covered() {
    let mut disk = disk(&config(), &Contents::Memory);
    let mut now = Nanos::ZERO;
    submit(&mut disk, now, 1, write(1000, 8, false), Some(1));
    submit(&mut disk, now, 2, Command::Flush { nsid: NamespaceId::FIRST }, None);
    assert_eq!(drain(&mut disk, &mut now), [(1, Status::SUCCESS, None), (2, Status::SUCCESS, None)]);
    submit(&mut disk, now, 3, write(1000, 8, false), Some(2));
    submit(&mut disk, now, 4, write(9_000_000, 8, true), Some(3));
    submit(&mut disk, now, 5, read(1000, 1), None);
    // Wait for the cached write, not for its destaging.
    let mut completions = Vec::new();
    while completions.len() < 3 {
        now = now.max(disk.next_event().unwrap());
        disk.advance(now, &mut completions);
    }
    let seen = completions.iter().find(|done| done.cid.0 == 5).unwrap();
    assert_eq!(seen.data.as_ref().unwrap()[0], 2, "a read sees the cache");
    submit(&mut disk, now, 6, write(5_000_000, 8, false), Some(4));
    now += Nanos::from_micros(70);
    let undecided = disk.power_cut(now).undecided;
    assert!(!undecided.is_empty() && undecided.iter().all(|write| write.start != Lba(9_000_000)), "{undecided:?}");
    let sixth = undecided.iter().find(|write| write.start == Lba(5_000_000)).unwrap().clone();
    disk.survive(&sixth);
    for (cid, start) in [(7, 1000), (8, 9_000_000), (9, 5_000_000)] {
        submit(&mut disk, now, cid, read(start, 8), None);
    }
    let mut after = drain(&mut disk, &mut now);
    after.sort_unstable_by_key(|done| done.0);
    // Write 3 was undecided unless it was destaged before the FUA write was done.
    let third = if undecided.iter().any(|write| write.start == Lba(1000)) { 1 } else { 2 };
    let values: Vec<_> = after.iter().map(|done| done.2).collect();
    assert_eq!(values, [Some(third), Some(3), Some(4)]);
}

#[test]
fn malformed_commands_are_refused_and_the_rest_goes_on() {
    let mut disk = disk(&config(), &Contents::None);
    let mut now = Nanos::ZERO;
    let blocks = disk.identity().namespace_blocks[0];
    submit(&mut disk, now, 1, read(blocks - 1, 2), None);
    submit(&mut disk, now, 2, Command::Flush { nsid: NamespaceId(2) }, None);
    submit(&mut disk, now, 3, read(0, 4096), None);
    submit(&mut disk, now, 4, Command::Deallocate { nsid: NamespaceId::FIRST, ranges: [].into() }, None);
    submit(&mut disk, now, 5, read(0, 8), None);
    let mut statuses: Vec<_> = drain(&mut disk, &mut now).into_iter().map(|done| (done.0, done.1)).collect();
    statuses.sort_unstable_by_key(|done| done.0);
    let expected = [
        (1, Status::LBA_OUT_OF_RANGE),
        (2, Status::INVALID_NAMESPACE),
        (3, Status::INVALID_FIELD),
        (4, Status::INVALID_OPCODE),
        (5, Status::SUCCESS),
    ];
    assert_eq!(statuses, expected);
}

#[test]
fn the_trace_shows_where_a_read_spent_its_time() {
    let mut disk = disk(&config(), &Contents::None);
    let recorder = Recorder::bounded(100);
    disk.set_recorder(recorder.clone());
    let mut now = Nanos::ZERO;
    submit(&mut disk, now, 1, read(100_000_000, 8), None);
    drain(&mut disk, &mut now);
    let (spans, dropped) = recorder.take();
    let steps: Vec<_> = spans.iter().filter(|span| span.request == RequestId(1)).map(|span| span.step).collect();
    assert_eq!(dropped, 0);
    assert_eq!(steps, [Step::Process, Step::Seek, Step::Rotate, Step::Transfer, Step::Transfer]);
}
