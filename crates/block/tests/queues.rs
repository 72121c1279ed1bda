//! Tags, fairness, requeues, power cuts, and what is counted and traced.

use std::cell::RefCell;
use std::num::{NonZeroU16, NonZeroU32};
use std::rc::Rc;

use crate::support::{Bench, CacheDevice, filled, read, write, write_with};
use block::{BioFlags, BlockDevice, QueueConfig, SchedulerKind};
use nvme::Status;
use sim::Executor;
use trace::{Recorder, RequestId, Step, Track};
use units::Nanos;

fn cpus(cpus: u16) -> QueueConfig {
    QueueConfig { cpus: NonZeroU16::new(cpus).unwrap(), ..Default::default() }
}

fn depth(depth: u16) -> QueueConfig {
    QueueConfig { queue_depth: NonZeroU16::new(depth), ..Default::default() }
}

#[test]
fn cpus_feed_their_hardware_queues() {
    let mut bench = Bench::new(cpus(8));
    assert_eq!(bench.device.hardware_queues(), 4, "the device has four");
    let futures = (0..8).map(|cpu| bench.device.submit(cpu, read(u64::from(cpu) * 10, 1))).collect();
    bench.wait(futures);
    let queues: Vec<_> = bench.log.borrow().commands.iter().map(|entry| entry.1).collect();
    assert_eq!(queues, [1, 1, 2, 2, 3, 3, 4, 4]);
    let statistics = bench.device.statistics();
    assert!(statistics.hardware_queues.iter().all(|queue| queue.dispatched == 2 && queue.in_flight == 0));
    // More CPUs than configured count modulo.
    let future = bench.device.submit(15, read(0, 1));
    bench.wait(vec![future]);
    assert_eq!(bench.log.borrow().commands.last().unwrap().1, 4);
}

/// block/elevator.c, elevator_get_default: one hardware queue gets mq-deadline, whether the device
/// has no more or the host has one processor; several get none.
#[test]
fn one_hardware_queue_gets_mq_deadline() {
    let order = |config: QueueConfig, queues: u16| {
        let config = QueueConfig { nr_requests: NonZeroU16::new(16), queue_depth: NonZeroU16::new(1), ..config };
        let mut bench = Bench::as_is(config, |device| device.identity_mut().queues = queues);
        let futures = [0, 5, 30, 20, 10].map(|block| bench.device.submit(0, read(block, 1))).into();
        bench.wait(futures);
        bench.commands()
    };
    let as_given = ["R 0+1", "R 5+1", "R 30+1", "R 20+1", "R 10+1"];
    let sorted = ["R 0+1", "R 5+1", "R 10+1", "R 20+1", "R 30+1"];
    assert_eq!(order(cpus(4), 4), as_given);
    assert_eq!(order(cpus(1), 4), sorted, "one processor");
    assert_eq!(order(cpus(4), 1), sorted, "a device of one queue");
    let one = QueueConfig { nr_hw_queues: NonZeroU16::new(1), ..cpus(4) };
    assert_eq!(order(one, 4), sorted);
}

#[test]
fn tags_bound_what_is_at_the_device() {
    for scheduler in [SchedulerKind::None, SchedulerKind::MqDeadline] {
        let held = (scheduler != SchedulerKind::None).then_some(NonZeroU16::new(16).unwrap());
        let mut bench = Bench::new(QueueConfig { scheduler: Some(scheduler), nr_requests: held, ..depth(3) });
        let futures = (0..10).map(|i| bench.device.submit(0, read(i * 10, 1))).collect();
        assert_eq!(bench.device.statistics().in_flight, 3);
        let results = bench.wait(futures);
        assert_eq!(bench.log.borrow().most_outstanding, 3);
        // Four rounds of three; the last holds one.
        assert_eq!(results.iter().map(|result| result.completed_at.0 / 1000).max(), Some(40));
        let statistics = bench.device.statistics();
        assert_eq!((statistics.requests, statistics.in_flight, statistics.bios), (0, 0, 10));
        if scheduler == SchedulerKind::None {
            assert_eq!(statistics.tag_waits, 7);
            let order: Vec<_> = bench.commands();
            assert_eq!(order, (0..10).map(|i| format!("R {}+1", i * 10)).collect::<Vec<_>>());
        } else {
            assert_eq!(statistics.tag_waits, 0, "the scheduler holds them");
            assert!(statistics.requeues > 0);
        }
    }
}

#[test]
fn a_freed_tag_is_used_at_once() {
    for scheduler in [SchedulerKind::None, SchedulerKind::MqDeadline] {
        let mut bench = Bench::new(QueueConfig { scheduler: Some(scheduler), ..depth(2) });
        let first = bench.device.submit(0, read(0, 1));
        let (handle, device) = (bench.executor.handle(), bench.device.clone());
        let later = bench.executor.handle().spawn(async move {
            handle.sleep(Nanos::from_micros(5)).await;
            let (second, third) = (device.submit(0, read(10, 1)), device.submit(0, read(20, 1)));
            (second.await.completed_at, third.await.completed_at)
        });
        bench.wait(vec![first]);
        let ends = bench.executor.block_on(later);
        // The third takes the first's tag at 10 us.
        assert_eq!(ends, (Nanos::from_micros(15), Nanos::from_micros(20)));
    }
}

#[test]
fn merged_reads_get_their_own_bytes() {
    let mut bench = Bench::new(QueueConfig::default());
    let futures =
        (0..6).map(|block| bench.device.submit(0, filled(block, 1, block as u8, BioFlags::empty()))).collect();
    bench.wait(futures);
    bench.commands();
    let mut plug = bench.device.plug(0);
    let futures = [(2, 1), (3, 2), (1, 1), (5, 1)].map(|(block, blocks)| plug.submit(read(block, blocks))).into();
    plug.finish();
    let results = bench.wait(futures);
    assert_eq!(bench.commands(), ["R 1+5"]);
    let bytes: Vec<Vec<u8>> =
        results.into_iter().map(|result| result.data.unwrap().chunks(4096).map(|block| block[9]).collect()).collect();
    assert_eq!(bytes, [vec![2], vec![3, 4], vec![1], vec![5]]);
}

#[test]
fn scheduler_tags_bound_what_the_scheduler_holds() {
    let config = QueueConfig {
        scheduler: Some(SchedulerKind::MqDeadline),
        nr_requests: NonZeroU16::new(4),
        queue_depth: NonZeroU16::new(1),
        ..Default::default()
    };
    let mut bench = Bench::new(config);
    let futures = (0..10).map(|i| bench.device.submit(0, read(1000 - i * 10, 1))).collect();
    let statistics = bench.device.statistics();
    assert_eq!((statistics.requests, statistics.tag_waits), (4, 6));
    let results = bench.wait(futures);
    assert!(results.iter().all(|result| result.status.is_success()));
    assert_eq!(bench.device.statistics().requests, 0);
}

#[test]
fn cpus_share_scarce_tags_fairly() {
    // CPU 0 queues 300 bios at once; CPU 1 keeps one outstanding. One hardware
    // queue, two tags: CPU 1 gets about every second command nonetheless.
    let config = QueueConfig { nr_hw_queues: NonZeroU16::new(1), queue_depth: NonZeroU16::new(2), ..cpus(2) };
    let mut bench = Bench::new(config);
    let flood: Vec<_> = (0..300).map(|i| bench.device.submit(0, read(i * 10, 1))).collect();
    let (device, handle) = (bench.device.clone(), bench.executor.handle());
    let latencies = Rc::new(RefCell::new(Vec::new()));
    let sink = latencies.clone();
    drop(handle.clone().spawn(async move {
        for i in 0..50 {
            let start = handle.now();
            device.submit(1, read(100_000 + i * 10, 1)).await;
            sink.borrow_mut().push(handle.now() - start);
        }
    }));
    bench.wait(flood);
    // At most one round of the device to wait, and one to be served.
    assert!(latencies.borrow().iter().all(|latency| *latency <= Nanos::from_micros(20)), "{latencies:?}");
}

#[test]
fn a_full_submission_queue_requeues_in_order() {
    // More driver tags than the device's queue of 64 holds.
    for scheduler in [SchedulerKind::None, SchedulerKind::MqDeadline] {
        let mut bench = Bench::new(QueueConfig { scheduler: Some(scheduler), ..depth(200) });
        let futures = (0..200).map(|i| bench.device.submit(0, read(i * 10, 1))).collect();
        bench.wait(futures);
        assert_eq!(bench.log.borrow().most_outstanding, 64);
        assert!(bench.device.statistics().requeues > 0);
        assert_eq!(bench.commands(), (0..200).map(|i| format!("R {}+1", i * 10)).collect::<Vec<_>>());
    }
}

#[test]
fn bios_merge_in_the_software_queue_while_the_driver_is_busy() {
    // block/blk-mq.c: a busy single queue inserts instead of issuing directly.
    let mut bench = Bench::new(depth(200));
    let mut futures: Vec<_> = (0..65).map(|i| bench.device.submit(0, read(i * 10, 1))).collect();
    futures.extend((0..16).map(|i| bench.device.submit(0, read(50_000 + i, 1))));
    bench.wait(futures);
    assert_eq!(bench.commands().last().map(String::as_str), Some("R 50000+16"));
    assert_eq!(bench.device.statistics().merges_back, 15);
}

#[test]
fn a_refused_merge_ends_the_search() {
    // blk_bio_list_merge: 102+4 is full and refuses 101+1, which 100+1 is not asked about.
    let mut bench = Bench::new(QueueConfig { max_sectors_kb: NonZeroU32::new(16), ..depth(200) });
    let mut futures: Vec<_> = (0..65).map(|i| bench.device.submit(0, read(1000 + i * 10, 1))).collect();
    futures.extend([(100, 1), (102, 4), (101, 1)].map(|(block, blocks)| bench.device.submit(0, read(block, blocks))));
    bench.wait(futures);
    assert_eq!(bench.commands()[65..], ["R 100+1", "R 102+4", "R 101+1"]);
}

#[test]
fn a_plug_that_runs_out_of_tags_goes_out() {
    let mut bench = Bench::new(depth(4));
    let mut plug = bench.device.plug(0);
    let futures: Vec<_> = (0..10).map(|i| plug.submit(read(i * 10, 1))).collect();
    assert_eq!(bench.device.statistics().in_flight, 4);
    // Before the plug ends: the four it held are at the device, the rest waits for tags.
    let results = bench.wait(futures);
    assert!(results.iter().all(|result| result.status.is_success()));
    drop(plug);
}

#[test]
fn a_plug_feeds_the_scheduler_at_once() {
    let config = QueueConfig { scheduler: Some(SchedulerKind::MqDeadline), ..Default::default() };
    let mut bench = Bench::new(config);
    let mut plug = bench.device.plug(0);
    let futures = [30, 10, 31, 20, 11].map(|block| plug.submit(write(block, 1))).into();
    plug.finish();
    bench.wait(futures);
    assert_eq!(bench.commands(), ["W 10+2", "W 20+1", "W 30+2"]);
    assert_eq!(bench.device.statistics().merges_request, 2);
}

#[test]
fn a_power_cut_fails_everything_everywhere() {
    for scheduler in [SchedulerKind::None, SchedulerKind::MqDeadline] {
        // In flight, in a flush sequence, in the scheduler, waiting for tags, plugged.
        let config = QueueConfig { scheduler: Some(scheduler), nr_requests: NonZeroU16::new(8), ..depth(2) };
        let mut bench = Bench::new(config);
        let mut futures: Vec<_> = (0..20).map(|i| bench.device.submit(0, read(i * 10, 1))).collect();
        futures.push(bench.device.submit(0, write_with(0, 200, BioFlags::PREFLUSH | BioFlags::FUA)));
        let other = Bench::new(QueueConfig::default());
        let mut plug = other.device.plug(0);
        let mut plugged = vec![plug.submit(write(5, 1))];
        other.device.power_cut();
        plugged.push(plug.submit(write(6, 1)));
        plug.finish();
        bench.device.power_cut();
        let late = bench.device.submit(0, read(0, 1));
        bench.device.power_on();
        let after = bench.device.submit(0, read(0, 1));
        futures.extend(plugged);
        futures.push(late);
        for result in bench.wait(futures) {
            assert_eq!(result.status, Status::ABORTED_POWER_LOSS);
        }
        assert!(bench.wait(vec![after])[0].status.is_success());
        let statistics = bench.device.statistics();
        assert_eq!((statistics.requests, statistics.in_flight), (0, 0));
        assert_eq!(other.device.statistics().requests, 0);
    }
}

#[test]
fn a_plug_from_before_a_power_cut_sends_nothing() {
    let mut bench = Bench::new(QueueConfig::default());
    let mut plug = bench.device.plug(0);
    let future = plug.submit(write(5, 1));
    bench.device.power_cut();
    bench.device.power_on();
    plug.finish();
    assert_eq!(bench.wait(vec![future])[0].status, Status::ABORTED_POWER_LOSS);
    assert!(bench.commands().is_empty());
    let future = bench.device.submit(0, read(0, 1));
    assert!(bench.wait(vec![future])[0].status.is_success());
}

#[test]
fn bios_with_and_without_data_stay_apart() {
    // A command carries data for all its blocks or for none.
    let mut bench = Bench::new(QueueConfig::default());
    let mut plug = bench.device.plug(0);
    let mut futures = vec![plug.submit(filled(0, 1, 7, BioFlags::empty())), plug.submit(write(1, 1))];
    futures.push(plug.submit(filled(2, 1, 9, BioFlags::empty())));
    plug.finish();
    bench.wait(futures);
    assert_eq!(bench.commands(), ["W 0+1", "W 1+1", "W 2+1"]);
}

#[test]
fn an_abandoned_future_leaves_the_io_alone() {
    let mut bench = Bench::new(depth(1));
    drop(bench.device.submit(0, filled(0, 1, 7, BioFlags::empty())));
    drop(bench.device.submit(0, filled(0, 300, 8, BioFlags::empty())));
    let future = bench.device.submit(0, read(0, 1));
    let result = bench.wait(vec![future]).remove(0);
    assert_eq!(result.data.unwrap()[0], 8);
    assert_eq!(bench.device.statistics().requests, 0);
}

#[test]
fn the_mean_depth_obeys_littles_law() {
    let mut bench = Bench::new(depth(4));
    let futures = (0..40).map(|i| bench.device.submit(0, read(i * 10, 1))).collect();
    let results = bench.wait(futures);
    let end = results.iter().map(|result| result.completed_at).max().unwrap();
    let statistics = bench.device.statistics();
    // 40 commands of 10 us each, four at a time, for 100 us.
    assert_eq!(end, Nanos::from_micros(100));
    assert_eq!(statistics.time_at_device, Nanos::from_micros(400));
    assert_eq!(statistics.mean_device_depth(end), 4.0);
    assert_eq!(statistics.dispatched.read, 40);
}

#[test]
fn a_request_can_be_followed_in_the_trace() {
    let mut executor = Executor::new_virtual();
    let recorder = Recorder::bounded(100);
    let (device, _) = CacheDevice::new(1000, Nanos::from_micros(10));
    let device = BlockDevice::new(&executor.handle(), Box::new(device), depth(1), recorder.clone());
    let mut plug = device.plug(0);
    let mut futures = Vec::new();
    for (id, block) in [(1, 0), (2, 1), (3, 50)] {
        futures.push(plug.submit(block::Bio { request: RequestId(id), ..write(block, 1) }));
    }
    plug.finish();
    executor.run();
    let (spans, dropped) = recorder.take();
    assert_eq!(dropped, 0);
    let seen: Vec<_> = spans
        .iter()
        .map(|span| (span.step, span.track, span.request.0, span.start.0 / 1000, span.end.0 / 1000, span.bytes / 4096))
        .collect();
    let (host, nvme) = (Track::HostQueue(0), Track::NvmeQueue(1));
    assert_eq!(
        seen,
        [
            (Step::Queued, host, 1, 0, 0, 1),
            (Step::Queued, host, 2, 0, 0, 1),
            (Step::Command, nvme, 1, 0, 10, 2),
            (Step::Queued, host, 3, 0, 10, 1),
            (Step::Command, nvme, 3, 10, 20, 1),
        ]
    );
}
