//! Jobs on a modelled zoned device: commands issued, latencies counted.

use crate::common::{parse, run_noted, zoned};
use sim::cpu::CpuConfig;
use units::Nanos;
use workload::fio::report::{Shortfall, ShortfallReason};
use workload::fio::{JobReport, start};
use workload::{Host, IoCosts};

/// Time of a write of one page (transfer and program), of a full reset, and of
/// padding a page.
const PROGRAM: Nanos = Nanos::from_micros(725);
const RESET: Nanos = Nanos::from_micros(3_500);

fn run(device: &str, job: &str) -> (Vec<JobReport>, Vec<String>) {
    let (reports, notes) = run_noted(zoned(device), &format!("[a]\nzonemode=zbd\n{job}"));
    for report in &reports {
        assert!(report.is_clean(), "{job}: {:?} {:?} {:?}", report.shortfall, report.errors, report.verify);
    }
    (reports, notes)
}

fn near(time: Nanos, want: Nanos) -> bool {
    time.0.abs_diff(want.0) < want.0 / 50 + 2_000
}

#[test]
fn a_zone_is_reset_before_it_is_written_again() {
    let (reports, notes) = run("", "rw=write\nbs=256k\nsize=2z\nio_size=1792k");
    assert_eq!(notes, ["w0", "w256", "w512", "w1024", "w1280", "w1536", "R0", "w0"]);
    let report = &reports[0];
    assert_eq!((report.reset.ios, report.reset.bytes, report.zone_resets()), (1, 1 << 20, 1));
    assert!(near(report.reset.lat.max(), RESET), "{:?}", report.reset.lat.max());
    assert_eq!(report.directions.write.lat.count(), 7, "the reset is no write");
}

#[test]
fn trims_reset_zones() {
    let full = "initial.full_zones = [5]";
    let (reports, notes) = run(full, "rw=trim\nbs=1m");
    assert_eq!(notes, ["R0", "R1024", "R2048", "R3072", "R4096"], "an empty zone needs no command");
    let report = &reports[0];
    assert_eq!((report.directions.trim.ios, report.reset_by_trim, report.reset.ios), (8, 5, 0));
    assert!(near(report.directions.trim.lat.max(), RESET), "{:?}", report.directions.trim.lat.max());
    assert_eq!(report.directions.trim.lat.min(), Nanos::ZERO);
    let (reports, mut notes) = run(full, "rw=randtrim\nbs=1m\ntime_based\nruntime=10");
    notes.sort();
    assert_eq!(notes, ["R0", "R1024", "R2048", "R3072", "R4096"]);
    assert_eq!(reports[0].directions.trim.ios, 5, "a random one looks for data, and ends where none is left");
    assert!(reports[0].finished_at < Nanos::from_millis(30));
}

#[test]
fn a_rate_paces_resets_by_the_zone() {
    let (reports, _) = run("initial.full_zones = [8]", "rw=randtrim\nbs=1m\nrate=20m");
    // The last of 8 is due after 7 twentieths of a second.
    assert!(near(reports[0].finished_at, Nanos::from_millis(350) + RESET), "{:?}", reports[0].finished_at);
}

#[test]
fn finish_follows_the_first_write() {
    for engine in ["io_uring", "io_uring_cmd", "spdk"] {
        let (reports, notes) = run("", &format!("rw=write\nbs=4k\nsize=3z\nfinish=1\nioengine={engine}"));
        assert_eq!(notes, ["w0", "F0", "w1024", "F1024", "w2048", "F2048"], "{engine}");
        let report = &reports[0];
        assert_eq!((report.directions.write.ios, report.finish.ios), (3, 3));
        assert_eq!((report.finish.bytes, report.directions.write.bytes), ((3 * 764) << 10, (3 * 768) << 10));
        // The page written and 47 others, on four channels: 12 programs each; the
        // last channel begins three transfers late.
        let programs = Nanos::from_micros(700) * 12;
        assert!(report.finish.lat.min() > programs && report.finish.lat.max() < programs + Nanos::from_micros(200));
        assert!(near(report.directions.write.lat.max(), PROGRAM), "a write is no finish");
    }
}

#[test]
fn finish_waits_for_what_it_asks_to_be_left() {
    // A write of 128 KiB leaves 640 KiB.
    let (reports, notes) = run("", "rw=write\nbs=128k\nsize=1z\nfinish=640k\nioengine=io_uring");
    assert_eq!(notes, ["w0", "F0"]);
    assert_eq!(reports[0].finish.bytes, 640 << 10);
    let (_, notes) = run("", "rw=write\nbs=128k\nsize=1z\nfinish=641k\nioengine=io_uring");
    assert_eq!(notes, ["w0", "w128", "w256", "w384", "w512", "w640"], "the zone fills without");
}

#[test]
fn padding_counts_for_the_rate() {
    // Each write takes 768 KiB of the rate: 4 zones at 7.5 MiB/s, the last due
    // after 3 times 0.1 s.
    let (reports, _) = run("", "rw=write\nbs=4k\nsize=4z\nfinish\nioengine=io_uring_cmd\nrate=7680k");
    let last = reports[0].finished_at;
    assert!(last > Nanos::from_millis(300) && last < Nanos::from_millis(311), "{last:?}");
}

#[test]
fn softfinish_writes_to_the_end() {
    for (engine, pauses) in [("io_uring", 0), ("io_uring_cmd", 3)] {
        let job = format!("rw=write\nbs=4k\nsize=1z\nfinish=1\nsoftfinish=1\nsoftfinish_chunk=512\nioengine={engine}");
        let (reports, notes) = run("", &job);
        assert_eq!(notes, ["w0", "w4", "w260", "w516"], "{engine}");
        let report = &reports[0];
        assert_eq!((report.finish.ios, report.finish.bytes, report.directions.write.ios), (1, 764 << 10, 1));
        let lat = report.finish.lat.max();
        // Pages of 64 parts in three writes of 16 or 17 pages: 4 or 5 rows each.
        let programs = Nanos::from_micros(700);
        // usleep(50), and 50 us of timer slack.
        let pause = Nanos::from_micros(100) * pauses;
        let rows = lat.since(pause).0 as f64 / programs.0 as f64;
        assert!((12.0..15.0).contains(&rows), "{engine}: {rows} programs in {lat:?}");
    }
}

#[test]
fn appends_overlap_and_are_found_again() {
    let append =
        |job: &str| run("", &format!("{job}\nrw=write\nbs=16k\nsize=2z\nioengine=io_uring_cmd\nzone_append=1"));
    let (reports, notes) = append("iodepth=1");
    assert!(notes.iter().take(48).all(|note| note == "a0") && notes[48] == "a1024", "{notes:?}");
    assert_eq!(reports[0].directions.write.ios, 96);
    let rate = |depth: u32| append(&format!("iodepth={depth}")).0[0].directions.write.iops();
    let (one, four) = (rate(1), rate(4));
    assert!(four > 3.5 * one, "{one:.0} and {four:.0} per second: four dies take four appends");
}

#[test]
fn writes_at_depth_go_to_one_zone_in_order() {
    for engine in ["io_uring", "io_uring_cmd", "libaio"] {
        let (reports, notes) = run("", &format!("rw=write\nbs=16k\nsize=1z\niodepth=8\nioengine={engine}"));
        let want: Vec<String> = (0..48).map(|page| format!("w{}", page * 16)).collect();
        // The block layer may merge them.
        assert!(engine != "io_uring_cmd" || notes == want, "{notes:?}");
        assert_eq!(reports[0].directions.write.bytes, 768 << 10);
    }
}

#[test]
fn jobs_take_turns_in_a_zone() {
    let (reports, notes) =
        run("", "rw=write\nbs=16k\nsize=1z\nnumjobs=3\nioengine=io_uring_cmd\nio_size=512k\nmax_open_zones=1");
    assert_eq!(notes.iter().filter(|note| note.starts_with('w')).count(), 96);
    let ends: Vec<Nanos> = reports.iter().map(|report| report.finished_at).collect();
    assert!(ends.iter().all(|end| end.0.abs_diff(ends[0].0) < PROGRAM.0 * 3), "none starves: {ends:?}");
    let (reports, _) = run("initial.full_zones = [1]", "rw=randread\nbs=16k\nsize=1z\nnumjobs=2\nio_size=160k");
    // fio's lock keeps even readers of one zone apart.
    let alone = reports[0].directions.read.lat.max();
    assert!(near(reports[1].finished_at, alone * 20), "{:?} of {alone:?} each", reports[1].finished_at);
}

#[test]
fn the_device_limits_open_zones() {
    let limit = "zone = { max_open = 3, max_active = 3 }";
    let job = "rw=randwrite\nbs=64k\nioengine=libaio\niodepth=4\nio_size=12m";
    assert_eq!(run(limit, job).0[0].directions.write.bytes, 12 << 20);
    let (_, host) = crate::common::free_host(zoned(limit), 1);
    for (job, says) in [
        ("max_open_zones=4", "max_open_zones=4, but the device lets 3 be open"),
        ("size=1z\noffset_increment=1z\nnumjobs=4", "4 threads at a time write to zones of their own, but 3 zones"),
        ("zonesize=2m", "zonesize is 2097152 bytes, but a zone has 1048576"),
        ("ioengine=io_uring_cmd\nbs=1m", "bs is 1048576 bytes, but a zone takes 786432"),
        ("ioengine=io_uring_cmd\nbs=768k", "one passthrough command takes at most 524288"),
        ("ioengine=io_uring_cmd\nzone_append\nbs=256k", "an append takes at most 131072"),
        ("ioengine=io_uring_cmd\nfinish\nsoftfinish\nsoftfinish_chunk=2048", "softfinish_chunk is 1048576 bytes"),
        ("ioengine=io_uring\nfinish\nsoftfinish\nsoftfinish_chunk=1", "must be a multiple of the logical block, 4096"),
    ] {
        let error = start(&host, &parse(&format!("[a]\nrw=write\nzonemode=zbd\n{job}"))).err().unwrap().to_string();
        assert!(error.contains(says), "{job}: {error}");
    }
}

/// The most zones that are partly written at a time.
fn most_open(notes: &[String]) -> usize {
    let mut written = std::collections::BTreeMap::new();
    let partly =
        |written: &std::collections::BTreeMap<u64, u64>| written.values().filter(|kib| (1..768).contains(*kib)).count();
    let mut most = 0;
    for note in notes {
        let kib: u64 = note[1..].parse().unwrap();
        let zone = written.entry(kib / 1024).or_insert(0);
        *zone = if note.starts_with('R') { 0 } else { kib % 1024 + 64 };
        most = most.max(partly(&written));
    }
    most
}

#[test]
fn limits_are_used_up_and_kept() {
    let limit = "zone = { max_open = 2 }";
    for (job, open) in [
        ("", 2),
        ("max_open_zones=1", 1),
        ("max_open_zones=4\nignore_zone_limits=1", 4),
        ("job_max_open_zones=1", 1),
        ("job_max_open_zones=1\nnumjobs=2", 2),
        ("job_max_open_zones=2\nnumjobs=2\nmax_open_zones=5\nignore_zone_limits=1", 4),
    ] {
        let (_, notes) = run(limit, &format!("rw=randwrite\nbs=64k\nio_size=12m\n{job}"));
        assert_eq!(most_open(&notes), open, "{job}");
    }
}

#[test]
fn reads_go_where_they_are_let() {
    let some = "initial.full_zones = [2]";
    let beyond = |notes: &[String]| notes.iter().filter(|note| note[1..].parse::<u64>().unwrap() >= 1792).count();
    let (_, notes) = run(some, "rw=randread\nbs=64k\nsize=4z");
    assert_eq!((notes.len(), beyond(&notes)), (64, 0), "each stays in the nearest zone with data");
    let (_, notes) = run(
        "initial.full_zones = [2]\nzone = { capacity = \"1MiB\" }\ngeometry = { pages_per_block = 16 }",
        "rw=randread\nbs=64k\nsize=4z\nread_beyond_wp=1",
    );
    assert_eq!((notes.len(), beyond(&notes)), (64, 36));
    let (_, notes) = run(some, "rw=read\nbs=256k\nsize=4z\noffset=0");
    assert_eq!(notes, ["r0", "r256", "r512", "r1024", "r1280", "r1536"]);
}

#[test]
fn spdk_resets_first_where_asked() {
    let (reports, notes) =
        run("initial.full_zones = [3]", "rw=write\nbs=256k\nsize=2z\nioengine=spdk\ninitial_zone_reset=1");
    assert_eq!(notes, ["R0", "R1024", "w0", "w256", "w512", "w1024", "w1280", "w1536"]);
    assert!(near(reports[0].started_at, RESET * 2), "the job begins after");
}

#[test]
fn the_name_chooses_the_namespace() {
    let two = "namespaces = [4, 4]";
    let (_, notes) = run(two, "rw=write\nbs=256k\nsize=1z\nfilename=/dev/nvme0n2");
    assert_eq!(notes, ["2:w0", "2:w256", "2:w512"]);
    let job = "rw=write\nbs=256k\nsize=1z\nioengine=io_uring_cmd\nfilename=/dev/ng0n1\n[b]\nrw=write\nbs=256k\nsize=1z\nzonemode=zbd\nioengine=spdk\nfilename=trtype=PCIe traddr=0000.00.04.0 ns=2";
    let (_, mut notes) = run(two, job);
    notes.sort();
    assert_eq!(notes, ["2:w0", "2:w256", "2:w512", "w0", "w256", "w512"]);
}

#[test]
fn verified_zones_hold_what_was_written() {
    for job in [
        "rw=write\nbs=16k\nsize=3z",
        "rw=write\nbs=16k\nsize=3z\nloops=2",
        "rw=randwrite\nbs=16k\nsize=3z\nioengine=libaio\niodepth=4\nmax_open_zones=2",
        "rw=write\nbs=16k\nsize=3z\nioengine=io_uring_cmd\niodepth=8\nzone_append=1",
        "rw=write\nbs=16k\nsize=2z\noffset_increment=2z\nnumjobs=3\nioengine=io_uring_cmd\niodepth=4\nzone_append=1",
        // Two jobs append to one zone: each finds its own blocks.
        "rw=write\nbs=16k\nsize=1z\nio_size=256k\nnumjobs=2\nioengine=io_uring_cmd\niodepth=4\nzone_append=1\nverify_fatal=1",
    ] {
        let mut device = zoned("initial.full_zones = [2]");
        device.keep_contents(&ssd::Contents::Memory, false).unwrap();
        let (reports, _) = run_noted(device, &format!("[a]\nzonemode=zbd\nverify=crc32c\n{job}"));
        for report in &reports {
            assert!(report.is_clean(), "{job}: {:?} {:?}", report.shortfall, report.verify);
            let verify = report.verify.as_ref().unwrap();
            assert!(verify.checked >= 16, "{job}: {} blocks checked", verify.checked);
        }
    }
}

/// A host whose processors and I/O path cost something.
fn costly(job: &str) -> JobReport {
    let costs = IoCosts { submit: Nanos(1_400), complete: Nanos(1_000) };
    let (mut executor, host): (_, Host) =
        crate::common::host(Box::new(zoned("initial.full_zones = [1]")), 1, CpuConfig::default(), costs);
    let run =
        start(&host, &parse(&format!("[a]\nrw=randread\nzonemode=zbd\nbs=16k\nsize=1z\nio_size=1m\n{job}"))).unwrap();
    assert_eq!(executor.run(), 0, "tasks still wait");
    run.finish().remove(0)
}

#[test]
fn polling_saves_what_it_saves() {
    let cpus = CpuConfig::default();
    let device = costly("ioengine=spdk").directions.read.lat.percentile(50.0) - Nanos(2_400);
    let (syscall, switch) = (cpus.syscall, cpus.context_switch);
    for (job, slat, lat, user, system) in [
        ("ioengine=spdk", true, Nanos(2_400), 1.0, 0.0),
        ("ioengine=io_uring\nsqthread_poll", false, Nanos(2_400), 1.0, 0.0),
        ("ioengine=io_uring_cmd\nsqthread_poll=1", false, Nanos(2_400), 1.0, 0.0),
        ("ioengine=io_uring\nhipri", true, Nanos(2_400) + syscall * 2, 0.0, 1.0),
        ("ioengine=io_uring_cmd", true, Nanos(2_400) + syscall * 2 + switch, 0.0, -1.0),
    ] {
        let report = costly(job);
        let read = &report.directions.read;
        assert_eq!(read.slat.is_empty(), !slat, "{job}");
        let got = read.lat.percentile(50.0);
        assert!(got.0.abs_diff((device + lat).0) < 200, "{job}: {got:?}, not {:?}", device + lat);
        let elapsed = report.finished_at.since(report.started_at).0 as f64;
        let share = |time: Nanos| time.0 as f64 / elapsed;
        assert!((share(report.cpu.user) - user).abs() < 0.01, "{job}: {:?}", report.cpu);
        assert!(system < 0.0 || (share(report.cpu.system) - system).abs() < 0.01, "{job}: {:?}", report.cpu);
    }
}

#[test]
fn a_submission_thread_takes_one_after_the_other() {
    let costs = IoCosts { submit: Nanos(1_400), complete: Nanos(1_000) };
    let device = crate::common::null(Nanos::from_micros(10));
    let (mut executor, host) = crate::common::host(Box::new(device), 1, CpuConfig::default(), costs);
    let job = "[a]\nioengine=io_uring_cmd\nsqthread_poll\nrw=randread\niodepth=64\nsize=16m";
    let run = start(&host, &parse(job)).unwrap();
    executor.run();
    // Its core submits and takes the interrupts: 2.4 us for each I/O.
    let iops = run.finish()[0].directions.read.iops();
    assert!((iops * 2.4e-6 - 1.0).abs() < 0.02, "{iops:.0} a second");
}

mod any_job {
    use super::*;
    use proptest::prelude::*;

    fn job() -> impl Strategy<Value = String> {
        let pattern = prop::sample::select(vec!["write", "randwrite", "rw", "randrw", "read", "randread"]);
        let engine = prop::sample::select(vec![
            "psync",
            "libaio",
            "io_uring",
            "io_uring\nsqthread_poll",
            "io_uring_cmd",
            "io_uring_cmd\nzone_append",
            "io_uring_cmd\nsqthread_poll\nhipri",
            "spdk\nzone_append",
            "spdk\ninitial_zone_reset",
        ]);
        let blocks = prop::sample::select(vec!["4k", "16k", "20k", "128k", "4k,12k"]);
        let limits = prop::sample::select(vec!["", "job_max_open_zones=1", "job_max_open_zones=2", "read_beyond_wp=0"]);
        let more = prop::sample::select(vec![
            "",
            "zoneskip=1z",
            "zone_reset_frequency=0.1",
            "loops=2",
            "verify=meta",
            "rate_iops=2000",
            "thinktime=50\nthinktime_blocks=3",
            "time_based\nruntime=20ms\nramp_time=5ms",
            "iodepth_batch=2\niodepth_batch_complete_min=2",
            "io_submit_mode=inline\nrate=9m",
        ]);
        let place = (0_u32..3, 1_u32..4, 1_u32..3, 1_u32..6);
        (pattern, engine, blocks, limits, more, place).prop_map(
            |(pattern, engine, blocks, limits, more, (offset, zones, jobs, depth))| {
                format!(
                    "rw={pattern}\nioengine={engine}\nbs={blocks}\n{limits}\n{more}\noffset={offset}z\nsize={zones}z\n\
                     io_size=1m\nnumjobs={jobs}\niodepth={depth}"
                )
            },
        )
    }

    fn finisher() -> impl Strategy<Value = String> {
        let finish = prop::sample::select(vec!["finish=1", "finish=600k\nrw=randwrite", "finish=1\nsoftfinish", ""]);
        let engine = prop::sample::select(vec!["io_uring", "io_uring_cmd", "spdk"]);
        (finish, engine, 1_u32..4).prop_map(|(finish, engine, depth)| {
            format!("rw=write\nbs=4k\noffset=2z\nio_size=3m\nioengine={engine}\niodepth={depth}\n{finish}")
        })
    }

    proptest! {
        /// Jobs of any kind that share zones, beside one that resets and one that
        /// finishes: all end, and the device refuses no command.
        #[test]
        fn ends_without_an_error(jobs in prop::collection::vec(job(), 1..3), finisher in finisher(), trims in 0_u32..3) {
            let mut text = "[global]\nzonemode=zbd\nmax_open_zones=3\n".to_owned();
            for (index, job) in jobs.iter().enumerate() {
                text += &format!("[job{index}]\n{job}\n");
            }
            text += &format!("[finish]\n{finisher}\n");
            if trims > 0 {
                text += &format!("[trim]\nrw=randtrim\nbs=1m\nsize={trims}z\nrate_iops=200\ntime_based\nruntime=20ms\n");
            }
            let file = match workload::fio::JobFile::parse(&workload::fio::parse::Source {
                name: "any.fio",
                text: text.as_bytes(),
                variables: &Default::default(),
                overrides: &[],
            }) {
                Ok(file) => file,
                Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}"))),
            };
            let mut device = zoned("initial.full_zones = [2]\nzone = { max_open = 3, max_active = 3 }");
            device.keep_contents(&ssd::Contents::Memory, false).unwrap();
            let device = crate::common::Noting::new(device);
            let notes = device.notes.clone();
            let (mut executor, host) = crate::common::free_host(device, 1);
            let Ok(run) = start(&host, &file) else { return Ok(()) };
            prop_assert_eq!(executor.run_until(Nanos::from_secs(60)), 0, "tasks wait: {:?}\n{}", executor.waiting(), text);
            for report in run.finish() {
                let errors = &report.errors;
                // A job may find no zone for it (empty, or all open ones are others'), and says so.
                let idle = |shortfall: &Shortfall| {
                    matches!(shortfall.reason, ShortfallReason::NoZone { .. }) && shortfall.served_bytes == 0
                };
                let fell_short = report.shortfall.as_ref().is_some_and(|shortfall| !idle(shortfall));
                prop_assert!(errors.is_empty() && !fell_short, "{:?} {:?}\n{text}", report.shortfall, notes.borrow());
            }
        }
    }
}
