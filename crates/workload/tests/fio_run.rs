//! Job files on a device of fixed latency, against closed forms.

use crate::common::{free_host, null, parse, run, run_on};
use units::Nanos;
use workload::fio::report::{Operation, ShortfallReason};
use workload::fio::start;

const LATENCY: Nanos = Nanos::from_micros(80);

#[test]
fn depth_over_latency_is_the_rate() {
    for depth in [1, 4, 32] {
        for engine in ["libaio", "io_uring", "posixaio"] {
            let job = format!("[a]\nioengine={engine}\nrw=randread\niodepth={depth}\nsize=4m\ndirect=1");
            let report = run(&job, LATENCY).remove(0);
            let read = &report.directions.read;
            assert_eq!((read.ios, read.bytes), (1024, 4 << 20));
            assert_eq!(report.runtime(), LATENCY * (1024 / depth), "{engine} at depth {depth}");
            assert_eq!((read.clat.min(), read.clat.max()), (LATENCY, LATENCY));
            assert!(report.is_clean());
        }
    }
}

#[test]
fn synchronous_engines_keep_one_in_flight() {
    let report = run("[a]\nrw=write\niodepth=32\nsize=1m\nbs=64k", LATENCY).remove(0);
    assert_eq!(report.runtime(), LATENCY * 16);
    assert_eq!(report.depths.in_flight, [16, 0, 0, 0, 0, 0, 0]);
    assert!(report.directions.write.slat.is_empty() && report.directions.write.clat.count() == 16);
}

#[test]
fn host_costs_are_charged() {
    let costs = workload::IoCosts { submit: Nanos(1_400), complete: Nanos(1_000) };
    let cpus = sim::cpu::CpuConfig::default();
    let (syscall, switch) = (cpus.syscall, cpus.context_switch);
    let (mut executor, host) = crate::common::host(Box::new(null(LATENCY)), 1, cpus, costs);
    let run = start(&host, &parse("[a]\nrw=randread\nsize=1m")).unwrap();
    executor.run();
    let report = run.finish().remove(0);
    let clat = &report.directions.read.clat;
    // Submission, device, interrupt, switch back to the program, return from the call.
    let want = costs.submit + LATENCY + costs.complete + switch + syscall;
    assert_eq!(
        clat.percentile(50.0).0.abs_diff(want.0) * 1000 / want.0,
        0,
        "{:?}, not {want:?}",
        clat.percentile(50.0)
    );
    assert_eq!(clat.max(), want + switch, "the first comes from an idle core");
    assert_eq!(report.cpu.system, (costs.submit + switch + syscall) * 256 + switch);
}

#[test]
fn a_full_queue_is_bound_by_the_cpu_alone() {
    let costs = workload::IoCosts { submit: Nanos(1_400), complete: Nanos(1_000) };
    let cpus = sim::cpu::CpuConfig::default();
    // libaio enters the kernel to submit and to reap; io_uring only to submit.
    for (engine, calls) in [("libaio", 2), ("io_uring", 1)] {
        let (mut executor, host) = crate::common::host(Box::new(null(LATENCY)), 1, cpus.clone(), costs);
        let job = format!("[a]\nioengine={engine}\nrw=randread\niodepth=128\nsize=32m");
        let run = start(&host, &parse(&job)).unwrap();
        executor.run();
        let report = run.finish().remove(0);
        let each = (costs.submit + costs.complete + cpus.syscall * calls).0 as f64;
        let iops = report.directions.read.iops();
        assert!((iops * each / 1e9 - 1.0).abs() < 0.02, "{engine}: {iops:.0} IOPS, not {:.0}", 1e9 / each);
        assert!(report.cpu.context_switches < 20, "{} context switches: it never waits", report.cpu.context_switches);
    }
}

#[test]
fn rate_is_kept() {
    for (mode, depth) in [("inline", 1), ("inline", 8), ("offload", 8)] {
        let job = format!(
            "[a]\nioengine=libaio\nrw=randread\niodepth={depth}\nrate_iops=1000\nruntime=2\ntime_based\nio_submit_mode={mode}"
        );
        let report = run(&job, LATENCY).remove(0);
        assert_eq!(report.directions.read.ios, 2000, "{mode} at depth {depth}");
    }
    let mixed = |rates| {
        let report = run(&format!("[a]\nrw=randrw\nnorandommap\nrate_iops={rates}\nruntime=2\ntime_based"), LATENCY);
        (report[0].directions.read.ios, report[0].directions.write.ios)
    };
    assert_eq!(mixed("1000,500"), (2000, 1000));
    let (reads, writes) = mixed("1000,");
    assert_eq!((reads, reads + writes), (2000, 25_000), "writes fill what is left of the time");
    let report = run("[a]\nrw=write\nbs=64k\nrate=1m\nsize=4m", LATENCY).remove(0);
    // The last of 64 I/Os is due when the 63 before it would have taken their time.
    assert_eq!(report.runtime(), Nanos::transfer(63 * 65_536, 1 << 20) + LATENCY);
}

#[test]
fn poisson_arrivals_have_their_mean_and_spread() {
    let report = run(
        "[a]\nioengine=io_uring\nio_submit_mode=offload\nrw=randread\nnorandommap\niodepth=64\nrate_iops=10000\nrate_process=poisson\ntime_based\nruntime=10",
        LATENCY,
    )
    .remove(0);
    let ios = report.directions.read.ios as f64;
    assert!((ios - 1e5).abs() < 4.0 * 1e5_f64.sqrt(), "{ios} I/Os in 10 s at 10000/s");
    // An open loop on a device without queueing: every latency is the device's.
    assert_eq!(report.directions.read.lat.max(), LATENCY);
    // Index of dispersion of counts: 1 for a Poisson process.
    let counts: Vec<f64> = report.directions.read.series.iter().map(|(_, interval)| interval.ios as f64).collect();
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / (counts.len() - 1) as f64;
    assert!((variance / mean - 1.0).abs() < 0.15, "dispersion {}", variance / mean);
}

#[test]
fn thinktime_follows_each_group_of_ios() {
    let report = run("[a]\nrw=read\nsize=40k\nthinktime=500\nthinktime_blocks=2", LATENCY).remove(0);
    assert_eq!(report.runtime(), LATENCY * 10 + Nanos::from_micros(500) * 4, "no pause counts after the last");
    let report = run("[a]\nrw=read\nsize=40k\nthinktime=500\nthinktime_spin=200", LATENCY).remove(0);
    assert_eq!(report.cpu.user, Nanos::from_micros(200) * 10);
    let deep = "[a]\nioengine=libaio\niodepth=8\nrw=read\nsize=64k\nthinktime=1ms\nthinktime_blocks=8";
    assert_eq!(run(deep, LATENCY).remove(0).runtime(), LATENCY * 2 + Nanos::from_millis(1));
}

#[test]
fn the_mix_is_within_its_bounds() {
    let report = run("[a]\nrw=randrw\nrwmixread=70\nsize=32m", LATENCY).remove(0);
    let (reads, all) = (report.directions.read.ios as f64, report.ios() as f64);
    assert_eq!(all, 8192.0);
    // Five standard deviations of a binomial.
    assert!((reads - 0.7 * all).abs() < 5.0 * (all * 0.7 * 0.3).sqrt(), "{reads} reads of {all}");
}

#[test]
fn runtime_is_exact_and_ramp_is_not_counted() {
    let report = run("[a]\nrw=randwrite\ntime_based\nruntime=1\nramp_time=500ms", Nanos::from_micros(100)).remove(0);
    assert_eq!(report.measured_from, Nanos::from_millis(500));
    assert_eq!(report.finished_at, Nanos::from_millis(1500));
    // The one whose completion falls on the ramp's end is counted.
    assert_eq!(report.directions.write.ios, 10_001);
    // A job that is done earlier ends earlier.
    let report = run("[a]\nrw=randwrite\nsize=1m\nruntime=10", LATENCY).remove(0);
    assert_eq!(report.finished_at, LATENCY * 256);
}

#[test]
fn stonewall_and_delays_order_the_jobs() {
    let reports = run(
        "[global]\nsize=1m\n[a]\nrw=read\n[b]\nrw=read\nstartdelay=5ms\n[c]\nstonewall\nrw=read\nnumjobs=2\ngroup_reporting\n[d]\nrw=read",
        LATENCY,
    );
    let begins: Vec<Nanos> = reports.iter().map(|report| report.started_at).collect();
    let b_ends = Nanos::from_millis(5) + LATENCY * 256;
    assert_eq!(begins, [Nanos::ZERO, Nanos::from_millis(5), b_ends, b_ends, b_ends]);
    assert_eq!(reports.iter().map(|report| report.group).collect::<Vec<_>>(), [0, 0, 1, 1, 1]);
    let grouped = workload::fio::report::grouped(&reports);
    assert_eq!(
        grouped.iter().map(|r| (r.name.as_str(), r.threads)).collect::<Vec<_>>(),
        [("a", 1), ("b", 1), ("c", 2), ("d", 1)]
    );
    assert_eq!(grouped[2].directions.read.ios, 512);
}

/// I/Os and bytes as fio 3.33 reports them for the same options (`--ioengine=null`).
#[test]
fn amounts_are_fios() {
    for (options, ios, bytes) in [
        ("size=1m\nio_size=10k", 3, 12 << 10),
        ("size=10k", 2, 8 << 10),
        ("size=1m\nio_size=2m", 512, 2 << 20),
        ("size=1m\nnumber_ios=10", 10, 40 << 10),
        ("size=1m\nrw=read:12k", 256, 1 << 20),
        ("size=1m\nrw=read:-8k", 256, 1 << 20),
        ("size=1m\nrw=randread:8", 256, 1 << 20),
        ("size=1m\nrw=trimwrite", 512, 2 << 20),
        ("size=64k\nloops=3", 48, 192 << 10),
        ("size=1m\nrw=rw\nloops=2", 512, 2 << 20),
        ("size=64k\nbs=12k\nio_size=100k", 9, 108 << 10),
        ("size=1m\nrw=write\nverify=crc32c", 512, 2 << 20),
    ] {
        let report = run(&format!("[a]\n{options}"), LATENCY).remove(0);
        assert_eq!((report.ios(), report.bytes()), (ios, bytes), "{options}");
        assert!(report.is_clean());
    }
    let mixed = run("[a]\nsize=1m\nrw=randread\nbsrange=4k-16k", LATENCY).remove(0);
    assert_eq!(mixed.bytes(), 1 << 20);
}

#[test]
fn syncs_are_as_many_as_fios() {
    // fio 3.33 on psync: 256 writes with fsync=15 sync 17 times, with fsync=16
    // 15 times, since the last write ends the job.
    for (every, syncs) in [(15, 17), (16, 15), (1, 255)] {
        for engine in ["psync", "libaio", "io_uring"] {
            let job = format!("[a]\nioengine={engine}\nrw=write\nsize=1m\nfsync={every}");
            assert_eq!(run(&job, LATENCY).remove(0).sync.count(), syncs, "{engine}, fsync={every}");
        }
    }
    let report = run("[a]\nrw=randwrite\nsize=40k\nfdatasync=5\nend_fsync=1", LATENCY).remove(0);
    assert_eq!(report.sync.count(), 2);
}

/// What a job file sent to the device: (commands by kind).
fn dispatched(job: &str, write_cache: bool, fua: bool) -> block::Dispatched {
    let device = crate::common::WithCache { inner: null(LATENCY), identity: crate::common::identity(write_cache, fua) };
    let (mut executor, host) = free_host(device, 1);
    let run = start(&host, &parse(job)).unwrap();
    executor.run();
    assert!(run.finish().iter().all(workload::fio::JobReport::is_clean));
    host.disk.statistics().dispatched
}

#[test]
fn sync_writes_are_fua_and_flush_as_in_linux() {
    let job = |engine| format!("[a]\nrw=write\nsize=40k\nsync=dsync\nioengine={engine}");
    // FUA honoured by the device: one command; the synchronous call flushes as well.
    assert_eq!(dispatched(&job("psync"), true, true).flush, 10);
    assert_eq!(dispatched(&job("libaio"), true, true).flush, 0);
    // FUA emulated: a flush behind each write, and the call's own.
    assert_eq!(dispatched(&job("psync"), true, false).flush, 20);
    assert_eq!(dispatched(&job("libaio"), true, false).flush, 10);
    // Nothing to flush.
    assert_eq!(dispatched(&job("psync"), false, false).flush, 0);
}

#[test]
fn batches_are_submitted_and_reaped_as_asked() {
    let job = "[a]\nioengine=libaio\nrw=randread\nsize=1m\niodepth=16\niodepth_batch=8\niodepth_batch_complete_min=4\niodepth_batch_complete_max=16\niodepth_low=8";
    let report = run(job, LATENCY).remove(0);
    assert_eq!(report.directions.read.ios, 256);
    assert_eq!(report.depths.per_submit, [0, 0, 32, 0, 0, 0, 0], "32 submissions of 8");
    assert_eq!(
        report.depths.per_complete.iter().sum::<u64>(),
        report.depths.per_complete[2] + report.depths.per_complete[3]
    );
}

#[test]
fn trims_block_and_trimwrite_pairs() {
    let report = run("[a]\nrw=trimwrite\nsize=64k\nioengine=libaio\niodepth=8", LATENCY).remove(0);
    assert_eq!((report.directions.trim.bytes, report.directions.write.bytes), (64 << 10, 64 << 10));
    let report = run("[a]\nrw=randtrim\nsize=64k\nioengine=libaio\niodepth=8", LATENCY).remove(0);
    assert_eq!(report.runtime(), LATENCY * 16, "one at a time");
}

#[test]
fn regions_follow_size_and_offset() {
    let (mut executor, host) = free_host(null(LATENCY), 1);
    let file = parse("[a]\nrw=write\nsize=1m\noffset=10%\noffset_increment=1m\nnumjobs=2\nverify=crc32c");
    let run = start(&host, &file).unwrap();
    executor.run();
    let reports = run.finish();
    assert!(reports.iter().all(|r| r.is_clean() && r.verify.as_ref().unwrap().checked == 256));
    for bad in [
        "[a]\nsize=65m",
        "[a]\nsize=1m\noffset=64m",
        "[a]\nsize=1m\noffset_increment=32m\nnumjobs=3",
        "[a]\nsize=1m\nbs=1000",
        "[a]\nsize=4k\nbs=8k",
        "[a]\ncpus_allowed=4",
        "[a]\ncpus_allowed=0,1",
    ] {
        assert!(start(&host, &parse(bad)).is_err(), "{bad:?} was started");
    }
}

#[test]
fn verification_finds_a_corrupting_device() {
    let job = "[a]\nrw=randwrite\nsize=1m\nverify=crc32c\nioengine=libaio\niodepth=8";
    let report = run(job, LATENCY).remove(0);
    assert_eq!(report.verify.as_ref().map(|v| (v.checked, v.mismatches)), Some((256, 0)));
    assert_eq!(report.directions.read.ios, 256, "read back");
    for fault in [crate::common::Fault::FlipBit, crate::common::Fault::LoseWrite, crate::common::Fault::Misdirect] {
        let device = crate::common::Corrupting::new(null(LATENCY), fault, 100);
        let report = run_on(device, job, 1).remove(0);
        let verify = report.verify.clone().unwrap();
        assert!(verify.mismatches >= 1 && verify.mismatches <= 2, "{fault:?}: {verify:?}");
        assert!(!report.is_clean());
        let device = crate::common::Corrupting::new(null(LATENCY), fault, 100);
        let report = run_on(device, &format!("{job}\nverify_fatal=1"), 1).remove(0);
        assert!(matches!(report.shortfall.unwrap().reason, ShortfallReason::Verify(_)), "{fault:?}");
    }
}

#[test]
fn a_later_job_verifies_what_an_earlier_one_wrote() {
    let text = "[global]\nsize=1m\nbs=8k\nverify=crc64\n[w]\nrw=write\ndo_verify=0\n[r]\nstonewall\nrw=randread\n[bad]\nstonewall\nrw=read\nbs=4k";
    let reports = run(text, LATENCY);
    assert!(reports[0].verify.is_none());
    assert_eq!(reports[1].verify.as_ref().map(|v| (v.checked, v.mismatches)), Some((128, 0)));
    assert_eq!(reports[2].verify.as_ref().map(|v| (v.checked, v.mismatches)), Some((256, 256)), "halves of blocks");
    let pattern = "[a]\nrw=randwrite\nsize=1m\nverify=pattern\nverify_pattern=0xdeadbeef";
    assert_eq!(run(pattern, LATENCY)[0].verify.as_ref().map(|v| (v.checked, v.mismatches)), Some((256, 0)));
}

#[test]
fn an_error_ends_the_job_loudly() {
    let device = crate::common::Failing { inner: null(LATENCY), after: 10 };
    let report = run_on(device, "[a]\nrw=write\nsize=1m", 1).remove(0);
    let shortfall = report.shortfall.as_ref().unwrap();
    assert_eq!((shortfall.asked_bytes, shortfall.served_bytes), (Some(1 << 20), 10 * 4096));
    assert_eq!(report.errors[0].offset, 10 * 4096);
    assert_eq!(report.errors[0].operation, Operation::Write);
    assert!(
        shortfall.to_string().contains("served 40960 of 1048576 bytes: write of 4096 bytes at offset 40960 failed")
    );
}

#[test]
fn a_device_that_falls_silent_is_a_shortfall() {
    let (mut executor, host) = free_host(crate::common::Silent { inner: null(LATENCY), after: 100 }, 1);
    let run =
        start(&host, &parse("[a]\nrw=read\nsize=1m\nioengine=libaio\niodepth=4\n[b]\nstonewall\nrw=read\nsize=1m"))
            .unwrap();
    assert!(executor.run() > 0);
    let reports = run.finish();
    assert_eq!(reports[0].shortfall.as_ref().unwrap().reason, ShortfallReason::Stalled { in_flight: 4 });
    assert_eq!(reports[1].shortfall.as_ref().unwrap().reason, ShortfallReason::NeverStarted);
}

#[test]
fn progress_can_be_read_on_the_way() {
    let (mut executor, host) = free_host(null(LATENCY), 1);
    let run = start(&host, &parse("[a]\nrw=read\nsize=1m\n[b]\nrw=read\nstonewall\ntime_based\nruntime=1")).unwrap();
    executor.run_until(LATENCY * 128);
    let fractions: Vec<f64> = run.progress().iter().map(|progress| progress.fraction).collect();
    assert_eq!(fractions, [0.5, 0.0]);
    executor.run_until(LATENCY * 256 + Nanos::from_millis(250));
    assert_eq!(run.progress()[1].fraction, 0.25);
    executor.run();
    assert!(run.progress().iter().all(|progress| progress.fraction == 1.0));
}

#[test]
fn progress_is_of_the_bound_that_is_met_first() {
    let (mut executor, host) = free_host(null(LATENCY), 1);
    let run = start(&host, &parse("[a]\nrw=randread\nsize=32m\nnumber_ios=100")).unwrap();
    executor.run_until(LATENCY * 25);
    assert_eq!(run.fraction(), 0.25);
}
