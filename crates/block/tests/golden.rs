//! Golden command streams: bios in, NVMe commands out. Each case names the
//! kernel file its rule comes from.

use std::num::{NonZeroU16, NonZeroU32};

use crate::support::{Bench, bio, filled, read, write, write_with};
use block::{BioFlags, BioOp, NoMerges, QueueConfig, SchedulerKind};
use nvme::Status;
use units::Nanos;

const PRE: BioFlags = BioFlags::PREFLUSH;
const FUA: BioFlags = BioFlags::FUA;

/// Submits bios through one plug and gives the commands that come of it.
fn plugged(config: QueueConfig, bios: Vec<block::Bio>) -> Vec<String> {
    let mut bench = Bench::new(config);
    let mut plug = bench.device.plug(0);
    let futures: Vec<_> = bios.into_iter().map(|bio| plug.submit(bio)).collect();
    plug.finish();
    let results = bench.wait(futures);
    assert!(results.iter().all(|result| result.status.is_success()));
    bench.commands()
}

#[test]
fn neighbours_merge_in_a_plug() {
    // block/blk-merge.c: blk_try_merge; blk-mq.c: blk_attempt_plug_merge.
    type Case = (&'static str, Vec<block::Bio>, &'static [&'static str]);
    let cases: Vec<Case> = vec![
        ("back", vec![write(0, 1), write(1, 1), write(2, 2)], &["W 0+4"]),
        ("front", vec![read(10, 1), read(8, 2)], &["R 8+3"]),
        ("gap", vec![write(0, 1), write(2, 1)], &["W 0+1", "W 2+1"]),
        ("op differs", vec![write(0, 1), read(1, 1)], &["W 0+1", "R 1+1"]),
        (
            "only the last request is looked at",
            vec![write(0, 1), write(9, 1), write(1, 1)],
            &["W 0+1", "W 9+1", "W 1+1"],
        ),
        ("NOMERGE", vec![write(0, 1), write_with(1, 1, BioFlags::NOMERGE), write(2, 1)], &["W 0+1", "W 1+1", "W 2+1"]),
        ("FUA never merges", vec![write(0, 1), write_with(1, 1, FUA)], &["W 0+1", "W 1+1 fua"]),
        (
            "SYNC and META do not stand in the way",
            vec![write(0, 1), write_with(1, 1, BioFlags::SYNC | BioFlags::META)],
            &["W 0+2"],
        ),
        (
            "write zeroes never merge",
            vec![bio(BioOp::WriteZeroes, 0, 1, BioFlags::empty()), bio(BioOp::WriteZeroes, 1, 1, BioFlags::empty())],
            &["Z 0+1", "Z 1+1"],
        ),
        (
            "discards merge into ranges, adjacent or not",
            vec![
                bio(BioOp::Discard, 0, 8, BioFlags::empty()),
                bio(BioOp::Discard, 100, 8, BioFlags::empty()),
                bio(BioOp::Discard, 108, 1, BioFlags::empty()),
            ],
            &["D 0+8 100+8 108+1"],
        ),
    ];
    for (name, bios, commands) in cases {
        assert_eq!(plugged(QueueConfig::default(), bios), commands, "{name}");
    }
}

#[test]
fn nomerges_turns_merging_off() {
    let config = QueueConfig { nomerges: NoMerges::Never, ..Default::default() };
    assert_eq!(plugged(config, vec![write(0, 1), write(1, 1)]), ["W 0+1", "W 1+1"]);
}

#[test]
fn merges_stop_at_the_limits() {
    // block/blk-merge.c: ll_back_merge_fn. Limits: 16 KiB, then two segments.
    let sectors = QueueConfig { max_sectors_kb: NonZeroU32::new(16), ..Default::default() };
    let five = || (0..5).map(|block| write(block, 1)).collect::<Vec<_>>();
    assert_eq!(plugged(sectors, five()), ["W 0+4", "W 4+1"]);
    let segments = QueueConfig { max_segments: NonZeroU16::new(2).unwrap(), ..Default::default() };
    assert_eq!(plugged(segments, five()), ["W 0+2", "W 2+2", "W 4+1"]);
    // A request that refused a bio for size takes no other (req_set_nomerge).
    let config = QueueConfig { max_sectors_kb: NonZeroU32::new(16), ..Default::default() };
    assert_eq!(plugged(config, vec![write(4, 3), write(7, 2), write(3, 1)]), ["W 4+3", "W 7+2", "W 3+1"]);
}

#[test]
fn large_bios_are_cut() {
    // block/blk-merge.c: bio_split_rw; default 1280 KiB, device 1 MiB, 128 pages = 512 KiB.
    let mut bench = Bench::new(QueueConfig::default());
    let future = bench.device.submit(0, read(0, 300));
    assert!(bench.wait(vec![future])[0].status.is_success());
    assert_eq!(bench.commands(), ["R 0+128", "R 128+128", "R 256+44"]);
    assert_eq!(bench.device.statistics().splits, 2);
    // With huge pages the device's own limit rules.
    let config = QueueConfig { segment_bytes: NonZeroU32::new(2 << 20).unwrap(), ..Default::default() };
    let mut bench = Bench::new(config);
    let future = bench.device.submit(0, read(0, 300));
    bench.wait(vec![future]);
    assert_eq!(bench.commands(), ["R 0+256", "R 256+44"]);
    // Write zeroes: the transfer limit (nvme_init_non_mdts_limits).
    let future = bench.device.submit(0, bio(BioOp::WriteZeroes, 0, 300, BioFlags::empty()));
    bench.wait(vec![future]);
    assert_eq!(bench.commands(), ["Z 0+256", "Z 256+44"]);
    // Discards: a whole device at once.
    let future = bench.device.submit(0, bio(BioOp::Discard, 0, 1 << 20, BioFlags::empty()));
    bench.wait(vec![future]);
    assert_eq!(bench.commands(), ["D 0+1048575", "D 1048575+1"]);
}

#[test]
fn the_last_part_of_a_cut_bio_still_merges() {
    // bio_submit_split marks all parts but the last REQ_NOMERGE.
    assert_eq!(plugged(QueueConfig::default(), vec![write(0, 130), write(130, 1)]), ["W 0+128", "W 128+3"]);
}

#[test]
fn a_plug_goes_out_in_batches() {
    // block/blk-mq.c: blk_add_rq_to_plug; BLK_MAX_REQUEST_COUNT 32.
    let bench = Bench::new(QueueConfig::default());
    let mut plug = bench.device.plug(0);
    let mut futures: Vec<_> = (0..32).map(|i| plug.submit(read(i * 10, 1))).collect();
    assert_eq!(bench.commands().len(), 0);
    futures.push(plug.submit(read(5000, 1)));
    assert_eq!(bench.commands().len(), 32);
    drop(plug);
    assert_eq!(bench.commands(), ["R 5000+1"]);
    // BLK_PLUG_FLUSH_SIZE: a request of 128 KiB is not held back for another.
    let mut plug = bench.device.plug(0);
    futures.push(plug.submit(read(0, 32)));
    assert_eq!(bench.commands().len(), 0);
    futures.push(plug.submit(read(100, 1)));
    assert_eq!(bench.commands(), ["R 0+32"]);
}

#[test]
fn flush_sequences() {
    // block/blk-flush.c: blk_flush_policy. (volatile cache, FUA, bio, commands)
    let cases: [(bool, bool, block::Bio, &[&str]); 9] = [
        (true, true, write_with(0, 0, PRE), &["F"]),
        (true, true, write_with(0, 1, FUA), &["W 0+1 fua"]),
        (true, true, write_with(0, 1, PRE), &["F", "W 0+1"]),
        (true, true, write_with(0, 1, PRE | FUA), &["F", "W 0+1 fua"]),
        (true, false, write_with(0, 1, FUA), &["W 0+1", "F"]),
        (true, false, write_with(0, 1, PRE | FUA), &["F", "W 0+1", "F"]),
        (false, true, write_with(0, 1, PRE | FUA), &["W 0+1"]),
        (false, false, write_with(0, 1, FUA), &["W 0+1"]),
        (false, false, write_with(0, 0, PRE), &[]),
    ];
    for scheduler in [SchedulerKind::None, SchedulerKind::MqDeadline] {
        for (write_cache, fua, bio, commands) in &cases {
            let mut bench = Bench::with(QueueConfig { scheduler: Some(scheduler), ..Default::default() }, |device| {
                device.identity_mut().volatile_write_cache = *write_cache;
                device.identity_mut().supports_fua = *fua;
            });
            let copy = write_with(0, bio.bytes / crate::support::BLOCK, bio.flags);
            let future = bench.device.submit(0, copy);
            let result = bench.wait(vec![future]).remove(0);
            assert!(result.status.is_success());
            assert_eq!(bench.commands(), *commands, "{scheduler:?}, cache {write_cache}, FUA {fua}, {bio:?}");
            assert_eq!(result.completed_at, Nanos::from_micros(10) * commands.len() as u64);
            assert_eq!(bench.device.statistics().requests, 0);
        }
    }
}

#[test]
fn flushes_are_shared() {
    // C1: bios that come while a flush is under way share the next one.
    let mut bench = Bench::new(QueueConfig::default());
    let futures = (0..5).map(|_| bench.device.submit(0, write_with(0, 0, PRE))).collect();
    let results = bench.wait(futures);
    assert_eq!(bench.commands(), ["F", "F"]);
    let times: Vec<_> = results.iter().map(|result| result.completed_at.0 / 1000).collect();
    assert_eq!(times, [10, 20, 20, 20, 20]);
}

#[test]
fn a_flush_waits_for_data_of_other_sequences() {
    // C2: without FUA, writes share the flush behind them, although the first
    // is done earlier than the second.
    let mut bench = Bench::with(QueueConfig::default(), |device| device.identity_mut().supports_fua = false);
    let first = bench.device.submit(0, write_with(0, 1, FUA));
    let handle = bench.executor.handle();
    let device = bench.device.clone();
    drop(handle.clone().spawn(async move {
        handle.sleep(Nanos::from_micros(5)).await;
        device.submit(0, write_with(8, 1, FUA)).await;
    }));
    let results = bench.wait(vec![first]);
    assert_eq!(bench.commands(), ["W 0+1", "W 8+1", "F"]);
    assert_eq!(results[0].completed_at, Nanos::from_micros(25));
}

#[test]
fn a_flush_is_not_put_off_for_ever() {
    // C3: data takes 1 s, and every 0.6 s more comes, so that some is always
    // under way. The first write waits for its flush from 1 s; the first step
    // that ends 5 s later, at 6.4 s, lets it go.
    let mut bench = Bench::with(QueueConfig::default(), |device| {
        device.identity_mut().supports_fua = false;
        device.latencies(Nanos::from_secs(1), Nanos::from_secs(1));
    });
    let first = bench.device.submit(0, write_with(0, 1, FUA));
    let (handle, device) = (bench.executor.handle(), bench.device.clone());
    drop(handle.clone().spawn(async move {
        for _ in 0..14 {
            handle.sleep(Nanos::from_millis(600)).await;
            drop(device.submit(0, write_with(8, 1, FUA)));
        }
    }));
    let results = bench.wait(vec![first]);
    assert_eq!(results[0].completed_at, Nanos::from_millis(7400));
    let commands = bench.commands();
    assert_eq!(commands.iter().position(|command| command == "F"), Some(11));
}

#[test]
fn a_failed_step_ends_the_sequence() {
    // block/blk-flush.c: blk_flush_complete_seq with an error.
    let bios = [write_with(0, 1, PRE | FUA), write_with(8, 1, PRE | FUA), write_with(16, 1, PRE | FUA)];
    let expected: [&[&str]; 3] = [&["F"], &["F", "W 8+1"], &["F", "W 16+1", "F"]];
    for (failing, (bio, commands)) in bios.into_iter().zip(expected).enumerate() {
        let mut bench = Bench::with(QueueConfig::default(), |device| device.identity_mut().supports_fua = false);
        bench.log.borrow_mut().failures.insert(failing as u64);
        let future = bench.device.submit(0, bio);
        assert_eq!(bench.wait(vec![future])[0].status, Status::WRITE_FAULT);
        assert_eq!(bench.commands(), commands);
        assert_eq!(bench.device.statistics().requests, 0);
    }
}

#[test]
fn an_error_reaches_every_merged_bio() {
    let mut bench = Bench::new(QueueConfig::default());
    bench.log.borrow_mut().failures.insert(1);
    let mut plug = bench.device.plug(0);
    let futures: Vec<_> = [(0, 1), (9, 1), (10, 1), (11, 1), (20, 1)]
        .map(|(b, n)| plug.submit(filled(b, n, 1, BioFlags::empty())))
        .into();
    plug.finish();
    let failed: Vec<_> = bench.wait(futures).iter().map(|result| !result.status.is_success()).collect();
    assert_eq!(bench.commands(), ["W 0+1", "W 9+3", "W 20+1"]);
    assert_eq!(failed, [false, true, true, true, false]);
    // One failed part fails the bio that was cut.
    bench.log.borrow_mut().failures.insert(4);
    let future = bench.device.submit(0, read(0, 300));
    assert_eq!(bench.wait(vec![future])[0].status, Status::WRITE_FAULT);
}

#[test]
fn impossible_bios_fail_alone() {
    let mut bench = Bench::with(QueueConfig::default(), |device| device.identity_mut().supports_deallocate = false);
    let short = block::Bio { bytes: 512, ..read(0, 1) };
    let skew = block::Bio { sector: block::Sector(1), ..read(0, 1) };
    let mismatch = block::Bio { bytes: 8192, ..filled(0, 1, 7, BioFlags::empty()) };
    let far = block::Bio { sector: block::Sector(u64::MAX - 7), ..read(0, 1) };
    let cases = [
        (short, Status::INVALID_FIELD),
        (skew, Status::INVALID_FIELD),
        (mismatch, Status::INVALID_FIELD),
        (read(0, 0), Status::INVALID_FIELD),
        (bio(BioOp::Read, 0, 1, FUA), Status::INVALID_FIELD),
        (read(1 << 20, 1), Status::LBA_OUT_OF_RANGE),
        (read((1 << 20) - 1, 2), Status::LBA_OUT_OF_RANGE),
        (far, Status::LBA_OUT_OF_RANGE),
        (bio(BioOp::Discard, 0, 1, BioFlags::empty()), Status::INVALID_OPCODE),
    ];
    for (bio, status) in cases {
        let name = format!("{bio:?}");
        let future = bench.device.submit(0, bio);
        assert_eq!(bench.wait(vec![future])[0].status, status, "{name}");
    }
    assert!(bench.commands().is_empty());
}

#[test]
fn data_of_a_sequence_goes_before_the_scheduler_queue() {
    // BLK_MQ_INSERT_AT_HEAD for requeued flush data; one tag makes it visible.
    let config = QueueConfig {
        scheduler: Some(SchedulerKind::MqDeadline),
        queue_depth: NonZeroU16::new(1),
        nr_requests: NonZeroU16::new(64),
        ..Default::default()
    };
    let mut bench = Bench::new(config);
    let mut futures = vec![bench.device.submit(0, write_with(500, 1, PRE))];
    futures.extend([10, 20, 30].map(|block| bench.device.submit(0, read(block, 1))));
    bench.wait(futures);
    // The flush took the tag, the first read waits on the dispatch list, then the data.
    assert_eq!(bench.commands(), ["F", "R 10+1", "W 500+1", "R 20+1", "R 30+1"]);
}
