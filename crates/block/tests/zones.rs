//! Zones: where bios are cut, zone write plugging, appends, management, reports,
//! namespaces and passthrough.

use std::num::{NonZeroU16, NonZeroU32};

use crate::support::zoned::{CAPACITY, ZONE, ZoneBench, four_queues};
use crate::support::{BLOCK, bio, filled, read, write};
use block::{Bio, BioFlags, BioOp, NoMerges, QueueConfig, SchedulerKind, Sector, ZincClassConfig, ZincConfig, ZoneOp};
use nvme::{Command, NamespaceId, Status, ZoneState};
use units::Nanos;

const SECTORS: u64 = BLOCK / 512;
const EVERY_SCHEDULER: [SchedulerKind; 4] =
    [SchedulerKind::None, SchedulerKind::MqDeadline, SchedulerKind::Zinc, SchedulerKind::ZincLifo];

fn append(zone: u64, blocks: u64) -> Bio {
    bio(BioOp::ZoneAppend, zone * ZONE, blocks, BioFlags::empty())
}

fn manage(op: ZoneOp, zone: u64) -> Bio {
    bio(BioOp::Zone(op), zone * ZONE, 0, BioFlags::SYNC)
}

fn passthrough(bio: Bio) -> Bio {
    Bio { flags: bio.flags | BioFlags::PASSTHROUGH, ..bio }
}

fn in_second(bio: Bio) -> Bio {
    Bio { nsid: NamespaceId(2), ..bio }
}

fn scheduled(scheduler: SchedulerKind, config: QueueConfig) -> QueueConfig {
    QueueConfig { scheduler: Some(scheduler), ..config }
}

#[test]
fn limits_say_what_the_zones_are() {
    let bench = ZoneBench::new(QueueConfig::default());
    assert_eq!(bench.device.namespaces(), 2);
    assert_eq!(bench.device.limits_of(NamespaceId(3)), None);
    assert_eq!(bench.device.limits_of(NamespaceId(0)), None);
    let limits = bench.device.limits_of(NamespaceId(2)).unwrap();
    assert_eq!(limits.capacity_sectors, 8 * ZONE * SECTORS);
    let zones = limits.zoned.unwrap();
    assert_eq!((zones.zone_sectors, zones.zone_capacity_sectors, zones.zones), (ZONE * SECTORS, CAPACITY * SECTORS, 8));
    assert_eq!((zones.max_open, zones.max_active, zones.max_append_sectors), (Some(14), None, 64));
    assert_eq!(zones.zone_of(Sector(ZONE * SECTORS * 3 - 1)), 2);
    assert_eq!(zones.start_of(3), Sector(ZONE * SECTORS * 3));
}

#[test]
fn bios_are_cut_where_zones_meet() {
    // block/blk-merge.c: get_max_io_size; chunk_sectors is the zone size.
    let mut bench = ZoneBench::new(QueueConfig::default());
    let across = [read(ZONE - 4, 10), write(ZONE - 4, 10), bio(BioOp::WriteZeroes, ZONE - 4, 10, BioFlags::empty())];
    let futures = across.into_iter().map(|bio| bench.device.submit(0, bio)).collect();
    bench.wait(futures);
    assert_eq!(bench.commands(), ["R 60+4", "R 64+6", "W 60+4", "W 64+6", "Z 60+4", "Z 64+6"]);
    // blk_rq_get_max_sectors: nor do neighbours merge there; discards may.
    let mut plug = bench.device.plug(0);
    let discard = |block, blocks| bio(BioOp::Discard, block, blocks, BioFlags::empty());
    let bios = [read(62, 2), read(64, 1), read(65, 1), discard(62, 2), discard(64, 1), discard(32, 64)];
    let futures = bios.into_iter().map(|bio| plug.submit(bio)).collect();
    plug.finish();
    bench.wait(futures);
    assert_eq!(bench.commands(), ["R 62+2", "R 64+2", "D 62+2 64+1 32+64"]);
}

#[test]
fn an_append_says_where_it_wrote() {
    // block/blk-core.c: blk_check_zone_append. Appends are not plugged.
    for scheduler in EVERY_SCHEDULER {
        let mut bench = ZoneBench::new(scheduled(scheduler, QueueConfig::default()));
        let futures: Vec<_> = [2, 1, 3].map(|blocks| bench.device.submit(0, append(5, blocks))).into();
        assert_eq!(bench.device.statistics().in_flight, 3);
        let results = bench.wait(futures);
        let sectors: Vec<_> = results.iter().map(|result| result.sector.0 / SECTORS).collect();
        assert_eq!(sectors, [5 * ZONE, 5 * ZONE + 2, 5 * ZONE + 3]);
        assert_eq!(bench.commands(), ["A 320+2", "A 320+1", "A 320+3"]);
        assert_eq!(bench.device.statistics().dispatched.zone_append, 3);
    }
}

#[test]
fn an_append_without_device_fua_says_so_too() {
    let mut bench = ZoneBench::new(QueueConfig::default());
    let first = bench.device.submit(0, append(0, 2));
    let durable = bench.device.submit(0, Bio { flags: BioFlags::PREFLUSH | BioFlags::FUA, ..append(0, 1) });
    let results = bench.wait(vec![first, durable]);
    assert_eq!(results[1].sector, Sector(2 * SECTORS));
    assert_eq!(bench.commands(), ["A 0+2", "F", "A 0+1 fua"]);
}

#[test]
fn impossible_zone_bios_fail_alone() {
    let mut bench = ZoneBench::new(QueueConfig::default());
    let skew = Bio { sector: Sector(SECTORS), ..append(0, 1) };
    let late = Bio { sector: Sector(SECTORS), ..manage(ZoneOp::Reset, 0) };
    let with_data = Bio { bytes: BLOCK, ..manage(ZoneOp::Reset, 0) };
    let cases = [
        (append(0, 9), Status::INVALID_FIELD),
        (skew, Status::INVALID_FIELD),
        (late, Status::INVALID_FIELD),
        (with_data, Status::INVALID_FIELD),
        (manage(ZoneOp::ResetAll, 1), Status::INVALID_FIELD),
        (manage(ZoneOp::Open, 16), Status::LBA_OUT_OF_RANGE),
        (in_second(manage(ZoneOp::Open, 8)), Status::LBA_OUT_OF_RANGE),
        (Bio { nsid: NamespaceId(3), ..read(0, 1) }, Status::INVALID_NAMESPACE),
        (Bio { nsid: NamespaceId(0), ..read(0, 1) }, Status::INVALID_NAMESPACE),
        (Bio { nsid: NamespaceId::ALL, ..read(0, 1) }, Status::INVALID_NAMESPACE),
    ];
    for (bio, status) in cases {
        let name = format!("{bio:?}");
        let future = bench.device.submit(0, bio);
        assert_eq!(bench.wait(vec![future])[0].status, status, "{name}");
    }
    assert!(bench.commands().is_empty());
    // Without zones there are no zone operations.
    let mut plain = crate::support::Bench::new(QueueConfig::default());
    for bio in [append(0, 1), manage(ZoneOp::Reset, 0), passthrough(manage(ZoneOp::Finish, 0))] {
        let future = plain.device.submit(0, bio);
        assert_eq!(plain.wait(vec![future])[0].status, Status::INVALID_OPCODE);
    }
}

#[test]
fn management_reaches_the_device() {
    let mut bench = ZoneBench::new(QueueConfig::default());
    let bios = [
        manage(ZoneOp::Open, 1),
        manage(ZoneOp::Close, 1),
        manage(ZoneOp::Finish, 2),
        manage(ZoneOp::Reset, 2),
        passthrough(manage(ZoneOp::Reset, 3)),
        manage(ZoneOp::ResetAll, 0),
    ];
    let futures = bios.into_iter().map(|bio| bench.device.submit(0, bio)).collect();
    bench.wait(futures);
    assert_eq!(
        bench.commands(),
        ["M Open 64", "M Close 64", "M Finish 128", "M Reset 128", "M Reset 192", "M Reset all"]
    );
    let sent = bench.device.statistics().dispatched;
    assert_eq!((sent.zone_open, sent.zone_close, sent.zone_finish, sent.zone_reset, sent.write), (1, 1, 1, 3, 0));
}

/// Writes zone 0 and 1 of both namespaces a block at a time, all at once, each
/// block from another CPU; the statuses.
fn flood(bench: &mut ZoneBench, change: impl Fn(Bio) -> Bio) -> Vec<Status> {
    let mut futures = Vec::new();
    for block in 0..CAPACITY {
        for (cpu, zone, nsid) in [(0, 0, 1), (1, 1, 1), (2, 0, 2), (3, 1, 2)] {
            let write =
                Bio { nsid: NamespaceId(nsid), ..filled(zone * ZONE + block, 1, block as u8, BioFlags::empty()) };
            futures.push(bench.device.submit(cpu + block as u16, change(write)));
        }
    }
    bench.wait(futures).iter().map(|result| result.status).collect()
}

#[test]
fn writes_to_a_zone_arrive_in_order() {
    // Four hardware queues that the device empties in any order, few tags.
    for scheduler in EVERY_SCHEDULER {
        for nomerges in [NoMerges::All, NoMerges::Never] {
            for seed in 0..5 {
                let config = QueueConfig {
                    nomerges,
                    queue_depth: NonZeroU16::new(3),
                    nr_requests: NonZeroU16::new(6),
                    ..scheduled(scheduler, four_queues())
                };
                let mut bench = ZoneBench::with(config, Nanos::from_micros(50), seed);
                let statuses = flood(&mut bench, |bio| bio);
                assert!(statuses.iter().all(|status| status.is_success()), "{scheduler:?} {nomerges:?} {seed}");
                assert_eq!(bench.log.borrow().most_writes, 1);
                let statistics = bench.device.statistics();
                assert_eq!((statistics.requests, statistics.in_flight), (0, 0));
                assert!(statistics.zone_plug_waits > 0);
                let writes = statistics.dispatched.write;
                assert!(
                    if nomerges == NoMerges::Never { writes == 4 * CAPACITY } else { writes < 2 * CAPACITY },
                    "{writes}"
                );
            }
        }
    }
}

#[test]
fn without_plugging_they_do_not() {
    // The same writes as passthrough, which nothing keeps in order.
    let mut bench = ZoneBench::with(four_queues(), Nanos::from_micros(50), 1);
    let statuses = flood(&mut bench, passthrough);
    assert!(statuses.contains(&Status::ZONE_INVALID_WRITE));
    assert!(bench.log.borrow().most_writes > 1);
}

#[test]
fn waiting_writes_merge() {
    // blk_zone_write_plug_init_request: a released write takes along what continues it.
    let mut bench = ZoneBench::new(QueueConfig { max_sectors_kb: NonZeroU32::new(32), ..Default::default() });
    let futures: Vec<_> = (0..20).map(|block| bench.device.submit(0, write(block, 1))).collect();
    assert_eq!(bench.device.statistics().in_flight, 1);
    let results = bench.wait(futures);
    assert_eq!(bench.commands(), ["W 0+1", "W 1+8", "W 9+8", "W 17+3"]);
    assert_eq!(results[19].completed_at, Nanos::from_micros(40));
    let statistics = bench.device.statistics();
    assert_eq!((statistics.zone_plug_waits, statistics.merges_back), (19, 16));
    // What does not continue it, or must not merge, goes alone.
    let mut bench = ZoneBench::new(QueueConfig::default());
    let flags = [BioFlags::empty(), BioFlags::FUA, BioFlags::empty(), BioFlags::empty()];
    let futures =
        flags.iter().zip(0..).map(|(flags, block)| bench.device.submit(0, Bio { flags: *flags, ..write(block, 1) }));
    let futures = futures.collect();
    bench.wait(futures);
    assert_eq!(bench.commands(), ["W 0+1", "W 1+1 fua", "W 2+2"]);
}

#[test]
fn a_zone_takes_no_front_merge() {
    // bio_attempt_front_merge: what came out of order is left to fail.
    let config =
        QueueConfig { queue_depth: NonZeroU16::new(1), nr_requests: NonZeroU16::new(16), ..Default::default() };
    let mut bench = ZoneBench::new(scheduled(SchedulerKind::MqDeadline, config));
    let bios = [read(500, 1), read(600, 1), write(4, 1), write(3, 1), write(5, 1)];
    let futures = bios.into_iter().map(|bio| bench.device.submit(0, bio)).collect();
    bench.wait(futures);
    assert_eq!(bench.commands(), ["R 500+1", "R 600+1", "W 4+2", "W 3+1"]);
}

#[test]
fn a_failed_write_lets_the_next_go() {
    let mut bench = ZoneBench::new(QueueConfig { nomerges: NoMerges::Never, ..Default::default() });
    let futures = [5, 0, 1].map(|block| bench.device.submit(0, write(block, 1))).into();
    let statuses: Vec<_> = bench.wait(futures).iter().map(|result| result.status).collect();
    assert_eq!(statuses, [Status::ZONE_INVALID_WRITE, Status::SUCCESS, Status::SUCCESS]);
}

#[test]
fn a_reset_fails_the_writes_in_line() {
    // disk_zone_wplug_abort.
    for (op, all) in [(ZoneOp::Reset, false), (ZoneOp::Finish, false), (ZoneOp::ResetAll, true)] {
        let mut bench = ZoneBench::new(QueueConfig { nomerges: NoMerges::Never, ..Default::default() });
        let mut futures: Vec<_> = (0..3).map(|block| bench.device.submit(0, write(block, 1))).collect();
        futures.extend((0..2).map(|block| bench.device.submit(0, write(ZONE + block, 1))));
        futures.push(bench.device.submit(0, in_second(write(0, 1))));
        futures.push(bench.device.submit(0, in_second(write(1, 1))));
        futures.push(bench.device.submit(0, manage(op, 0)));
        let aborted: Vec<_> = bench.wait(futures).iter().map(|r| r.status == Status::ABORT_REQUESTED).collect();
        assert_eq!(aborted, [false, true, true, false, all, false, false, false], "{op:?}");
    }
}

#[test]
fn a_power_cut_fails_the_writes_in_line() {
    for scheduler in EVERY_SCHEDULER {
        let mut bench = ZoneBench::new(scheduled(scheduler, four_queues()));
        let mut futures: Vec<_> = (0..9).map(|block| bench.device.submit(block as u16, write(block, 1))).collect();
        futures.push(bench.device.submit(0, manage(ZoneOp::Reset, 3)));
        let mut plug = bench.device.plug(1);
        futures.push(plug.submit(write(ZONE, 1)));
        futures.push(plug.submit(write(ZONE + 2, 1)));
        bench.device.power_cut();
        plug.finish();
        bench.device.power_on();
        let after: Vec<_> = (0..9).map(|block| bench.device.submit(block as u16, write(block, 1))).collect();
        assert!(bench.wait(futures).iter().all(|result| result.status == Status::ABORTED_POWER_LOSS));
        assert!(bench.wait(after).iter().all(|result| result.status.is_success()), "{scheduler:?}");
        let statistics = bench.device.statistics();
        assert_eq!((statistics.requests, statistics.in_flight), (0, 0));
    }
}

#[test]
fn namespaces_are_disks_of_their_own() {
    for scheduler in [SchedulerKind::None, SchedulerKind::MqDeadline] {
        let mut bench = ZoneBench::new(scheduled(scheduler, QueueConfig::default()));
        let mut plug = bench.device.plug(0);
        let bios = [read(0, 1), in_second(read(1, 1)), in_second(read(2, 1)), read(3, 1)];
        let mut futures: Vec<_> = bios.into_iter().map(|bio| plug.submit(bio)).collect();
        plug.finish();
        // A flush covers one namespace.
        let flush = || bio(BioOp::Write, 0, 0, BioFlags::PREFLUSH);
        futures.push(bench.device.submit(0, flush()));
        futures.push(bench.device.submit(0, in_second(flush())));
        assert!(bench.wait(futures).iter().all(|result| result.status.is_success()));
        let log = bench.log.borrow();
        let mut seen: Vec<_> =
            log.commands.iter().map(|(_, _, command)| (command.nsid().0, crate::support::text(command))).collect();
        seen.sort();
        let expected = [(1, "F"), (1, "R 0+1"), (1, "R 3+1"), (2, "F"), (2, "R 1+2")];
        assert_eq!(seen, expected.map(|(nsid, text)| (nsid, text.to_owned())), "{scheduler:?}");
    }
}

#[test]
fn passthrough_is_left_alone() {
    // block/blk-mq.c: blk_mq_insert_request. No merges, no cuts.
    let mut bench = ZoneBench::new(QueueConfig::default());
    let mut plug = bench.device.plug(0);
    let mut futures: Vec<_> = (0..3).map(|block| plug.submit(passthrough(write(block, 1)))).collect();
    futures.push(plug.submit(write(3, 1)));
    plug.finish();
    futures.push(bench.device.submit(0, passthrough(read(ZONE - 8, 16))));
    bench.wait(futures);
    assert_eq!(bench.commands(), ["W 0+1", "W 1+1", "W 2+1", "W 3+1", "R 56+16"]);
    // Too large for the device: refused here. Anything else is for the device to say.
    let cases = [
        (passthrough(read(0, 17)), Status::INVALID_FIELD),
        (passthrough(bio(BioOp::Write, 0, 1, BioFlags::PREFLUSH)), Status::INVALID_FIELD),
        (passthrough(append(0, 9)), Status::SUCCESS),
        (passthrough(write(0, 1)), Status::ZONE_INVALID_WRITE),
        (passthrough(bio(BioOp::Write, 0, 0, BioFlags::PREFLUSH)), Status::SUCCESS),
    ];
    for (bio, status) in cases {
        let name = format!("{bio:?}");
        let future = bench.device.submit(0, bio);
        assert_eq!(bench.wait(vec![future])[0].status, status, "{name}");
    }
}

#[test]
fn passthrough_goes_before_the_scheduler() {
    for scheduler in EVERY_SCHEDULER {
        let config =
            QueueConfig { queue_depth: NonZeroU16::new(1), nr_requests: NonZeroU16::new(64), ..Default::default() };
        let mut bench = ZoneBench::new(scheduled(scheduler, config));
        let mut futures: Vec<_> = (0..4).map(|i| bench.device.submit(0, read(i * 10, 1))).collect();
        futures.push(bench.device.submit(0, passthrough(read(900, 1))));
        assert!(bench.wait(futures).iter().all(|result| result.status.is_success()));
        let commands = bench.commands();
        let place = commands.iter().position(|command| command == "R 900+1");
        // Without a scheduler the others have waited longer for the one tag.
        assert_eq!(place, Some(if scheduler == SchedulerKind::None { 4 } else { 2 }), "{scheduler:?} {commands:?}");
    }
}

#[test]
fn zones_are_reported() {
    let mut bench = ZoneBench::new(QueueConfig::default());
    let futures = vec![bench.device.submit(0, append(1, 3)), bench.device.submit(0, manage(ZoneOp::Finish, 2))];
    bench.wait(futures);
    bench.commands();
    let device = bench.device.clone();
    let report = bench.executor.handle().spawn(async move { device.report_zones(0, NamespaceId::FIRST).await });
    let zones = bench.executor.block_on(report).unwrap();
    assert_eq!(zones.len(), 16);
    let start = |zone| Sector(zone * ZONE * SECTORS);
    let states: Vec<_> = zones[..4].iter().map(|zone| (zone.start, zone.write_pointer, zone.state)).collect();
    let written = Some(Sector((ZONE + 3) * SECTORS));
    assert_eq!(
        states,
        [
            (start(0), Some(start(0)), ZoneState::Empty),
            (start(1), written, ZoneState::ImplicitlyOpened),
            (start(2), None, ZoneState::Full),
            (start(3), Some(start(3)), ZoneState::Empty),
        ]
    );
    assert!(zones.iter().all(|zone| zone.capacity_sectors == CAPACITY * SECTORS));
    assert_eq!(bench.commands(), ["Q 0"]);
    assert_eq!(bench.device.statistics().dispatched.zone_report, 1);
}

/// Writes eight zones for 100 ms and resets another again and again: the latency
/// of every reset.
fn resets_under_load(scheduler: SchedulerKind) -> Vec<Nanos> {
    let class =
        ZincClassConfig { epoch_interval: Nanos::from_millis(4), command_tokens: u64::MAX, ..Default::default() };
    let zinc = ZincConfig { tick: Nanos::from_millis(1), reset: class.clone(), finish: class };
    let bench = ZoneBench::new(QueueConfig { zinc, ..scheduled(scheduler, QueueConfig::default()) });
    let (handle, device) = (bench.executor.handle(), bench.device.clone());
    let end = Nanos::from_millis(100);
    for task in 0..8 {
        let (handle, device) = (handle.clone(), device.clone());
        drop(handle.clone().spawn(async move {
            // Not all at the same instants.
            handle.sleep(Nanos::from_micros(task)).await;
            while handle.now() < end {
                // They fail once the zone is full: no matter here.
                device.submit(0, write(task * ZONE, 2)).await;
            }
        }));
    }
    let mut executor = bench.executor;
    let resets = executor.handle().spawn(async move {
        let mut latencies = Vec::new();
        while handle.now() < end {
            let start = handle.now();
            device.submit(0, manage(ZoneOp::Reset, 15)).await;
            latencies.push(handle.now() - start);
        }
        latencies
    });
    executor.block_on(resets)
}

#[test]
fn zinc_holds_resets_back_in_virtual_time() {
    let free = resets_under_load(SchedulerKind::MqDeadline);
    assert!(free.iter().all(|latency| *latency == Nanos::from_micros(10)));
    let held = resets_under_load(SchedulerKind::Zinc);
    // Three holds: a reset leaves at the fourth end of an epoch, 20 ms after the last.
    let steady = &held[1..held.len() - 1];
    assert!(steady.len() > 2 && steady.iter().all(|latency| *latency == Nanos::from_millis(20)), "{held:?}");
}

#[test]
fn a_held_reset_needs_no_other_io_to_go() {
    let mut bench = ZoneBench::new(scheduled(SchedulerKind::Zinc, QueueConfig::default()));
    let mut futures: Vec<_> = (0..4).map(|zone| bench.device.submit(0, write(zone * ZONE, 4))).collect();
    futures.push(bench.device.submit(0, manage(ZoneOp::Reset, 9)));
    let results = bench.wait(futures);
    assert_eq!(results[4].completed_at, Nanos::from_millis(68) + Nanos::from_micros(10));
    // With nothing held the clock stands still: the run has ended.
    assert_eq!(bench.executor.handle().now(), results[4].completed_at);
    assert!(matches!(bench.log.borrow().commands.last().unwrap().2, Command::ZoneManagementSend { .. }));
}
