//! The WD ZN540's profile against measurements of the drive, on the bare device.
//!
//! The host is reduced to two numbers per benchmark: what a command costs a job's
//! core, and the pause between a completion and the next command. Both follow from
//! the tables themselves: rate times (latency + pause) is the queue depth.

use crate::common::jobs::{Job, Outcome, Work, run};
use crate::common::table::{Errors, Row, Table};
use nvme::{Command, Lba, LbaRange, NamespaceId, ZoneSendAction};
use ssd::Device;
use ssd::profile::{BuildOptions, Profile, builtin_text};
use units::Nanos;

const NSID: NamespaceId = NamespaceId::FIRST;
const ZONE_BLOCKS: u64 = 524_288;
const CAPACITY_BLOCKS: u64 = 275_712;

/// SPDK: polling, one core per job.
const SPDK_THINK: Nanos = Nanos(420);
/// fio's `io_uring_cmd` with submission-queue polling: a job's core reaches 290,000
/// reads/s, and alone a read takes another 3.5 us until fio sees it.
const URING_CPU: Nanos = Nanos(2_900);
const URING_THINK: Nanos = Nanos(540);
const URING_NOTICE_READ: Nanos = Nanos(3_500);
const URING_NOTICE_WRITE: Nanos = Nanos(1_000);

/// A device whose first `full` zones the host has written to their ends.
fn device(full: u32) -> Box<dyn Device> {
    let mut table: toml::Table = builtin_text("wd-zn540").unwrap().parse().unwrap();
    table.insert("initial".to_owned(), format!("full_zones = [{full}]").parse::<toml::Table>().unwrap().into());
    Profile::from_table("wd-zn540", &table).unwrap().build(&BuildOptions::default()).unwrap()
}

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// A device with a clock, one command at a time.
struct Bench {
    device: Box<dyn Device>,
    now: Nanos,
}

impl Bench {
    fn new() -> Self {
        Self { device: device(0), now: Nanos::ZERO }
    }

    /// Runs one command alone and returns its latency.
    fn time(&mut self, command: Command) -> Nanos {
        let start = self.now;
        let submission = ssd::Submission {
            queue: nvme::QueueId(1),
            cid: nvme::CommandId(0),
            command,
            data: None,
            request: trace::RequestId(0),
        };
        self.device.submit(start, submission);
        let mut completions = Vec::new();
        while completions.is_empty() {
            self.now = self.now.max(self.device.next_event().unwrap());
            self.device.advance(self.now, &mut completions);
        }
        assert!(completions[0].status.is_success(), "{completions:?}");
        completions[0].at - start
    }

    fn idle(&mut self, time: Nanos) {
        let until = self.now + time;
        while let Some(next) = self.device.next_event().filter(|next| *next <= until) {
            self.device.advance(next, &mut Vec::new());
        }
        self.now = until;
    }

    fn write(&mut self, zone: u32, from: u64, blocks: u64) -> Nanos {
        let start = Lba(u64::from(zone) * ZONE_BLOCKS + from);
        self.time(Command::write(NSID, LbaRange { start, count: blocks as u32 }, false))
    }

    /// Writes a zone up to `blocks`, in large writes, and lets the device come to rest.
    fn fill(&mut self, zone: u32, blocks: u64) {
        let mut written = 0;
        while written < blocks {
            let count = (blocks - written).min(128);
            self.write(zone, written, count);
            written += count;
        }
        self.idle(millis(50));
    }

    fn manage(&mut self, zone: u32, action: ZoneSendAction) -> Nanos {
        let start = Lba(u64::from(zone) * ZONE_BLOCKS);
        self.time(Command::ZoneManagementSend { nsid: NSID, start, action, all: false, zrwa: false })
    }
}

/// Runs jobs on a device whose zones below `full` are full.
fn measure(full: u32, jobs: &[Job], warm_up: Nanos, length: Nanos) -> Vec<Outcome> {
    run(device(full).as_mut(), Nanos::ZERO, jobs, warm_up, length)
}

fn spdk(row: Row<'_>) -> Outcome {
    let work = match row.text("op") {
        "write" => Work::Write,
        "append" => Work::Append,
        _ => Work::Read,
    };
    let (zones, depth) = (row.number("concurrent_zones") as u32, row.number("queue_depth") as u32);
    let block_bytes = row.number("block_size_kib") as u64 * 1024;
    let (each, filled) = if work == Work::Read { (1, zones) } else { (60, 0) };
    let jobs: Vec<Job> = (0..zones)
        .map(|job| Job { think: SPDK_THINK, ..Job::new(work, block_bytes, depth, job * each..(job + 1) * each) })
        .collect();
    // Long enough for every outstanding command to come round several times.
    let outstanding = u64::from(zones * depth);
    let warm_up = millis(10 + outstanding / 30);
    let outcomes = measure(filled, &jobs, warm_up, millis(120 + outstanding / 20));
    Outcome::merge(&outcomes)
}

#[test]
fn rates_and_latencies_by_size_zones_and_queue_depth() {
    let (mut rates, mut means) = (Errors::default(), Errors::default());
    let (mut p50, mut p95) = (Errors::default(), Errors::default());
    for row in Table::load("zn540/spdk_4k_16k.csv").rows() {
        let [op, size, zones, depth] =
            ["op", "block_size_kib", "concurrent_zones", "queue_depth"].map(|column| row.text(column));
        // 14 polling threads share the cores of one NUMA node: the host's rows, not the drive's.
        if zones == "14" {
            continue;
        }
        let mut outcome = spdk(row);
        let what = format!("{op} {size} KiB, {zones} zones, QD {depth}");
        rates.note(&what, outcome.per_s(), row.number("iops_mean"));
        means.note(&what, outcome.mean_us(), row.number("lat_mean_us"));
        p50.note(&what, outcome.quantile_us(0.5), row.number("clat_p50_us"));
        p95.note(&what, outcome.quantile_us(0.95), row.number("clat_p95_us"));
    }
    rates.check("SPDK, commands per second", 0.05, 0.15);
    means.check("SPDK, mean latency", 0.05, 0.15);
    p50.check("SPDK, median latency", 0.05, 0.50);
    p95.check("SPDK, 95th percentile", 0.10, 0.60);
}

/// Mean over `n` zones of what `time` measures on each.
fn mean_us(n: u32, mut time: impl FnMut(&mut Bench, u32) -> Nanos) -> f64 {
    let mut bench = Bench::new();
    let sum: f64 = (0..n).map(|zone| time(&mut bench, zone).as_micros_f64()).sum();
    sum / f64::from(n)
}

#[test]
fn finishes_and_resets_by_occupancy() {
    let mut errors = Errors::default();
    for row in Table::load("zn540/partial_finish_run1_summary.csv").rows() {
        let blocks = row.number("occupancy_lba") as u64;
        let finish = row.text("op") == "finish";
        let modelled = mean_us(40, |bench, zone| {
            bench.fill(zone, blocks);
            let finished = bench.manage(zone, ZoneSendAction::Finish);
            if finish { finished } else { bench.manage(zone, ZoneSendAction::Reset) }
        });
        errors.note(format!("{} at {blocks} blocks", row.text("op")), modelled, row.number("latency_mean_us"));
    }
    for row in Table::load("zn540/partial_reset_run1_run2_summary.csv").rows() {
        let blocks = row.number("occupancy_lba") as u64;
        let modelled = mean_us(4, |bench, zone| {
            bench.fill(zone, blocks);
            bench.manage(zone, ZoneSendAction::Reset)
        });
        errors.note(format!("reset at {blocks} blocks"), modelled, row.number("latency_mean_us"));
    }
    errors.check("finish and reset by occupancy", 0.05, 0.15);
}

/// A zone without data has nothing to erase, whichever way it came into its state: its
/// reset takes what that of a zone finished while empty took the drive.
#[test]
fn resets_of_zones_that_hold_nothing() {
    let table = Table::load("zn540/partial_finish_run1_summary.csv");
    let is_it = |row: &Row<'_>| row.text("op") == "reset_after_finish" && row.number("occupancy_lba") == 0.0;
    let measured = table.rows().find(is_it).unwrap().number("latency_mean_us");
    let mut errors = Errors::default();
    let mut bench = Bench::new();
    use ZoneSendAction::{Close, Finish, Open, Reset};
    for (zone, (state, before)) in [
        ("never used", &[][..]),
        ("reset before", &[Open, Reset]),
        ("opened", &[Open]),
        ("opened and closed", &[Open, Close]),
        ("finished while empty", &[Finish]),
    ]
    .into_iter()
    .enumerate()
    {
        for action in before {
            bench.manage(zone as u32, *action);
        }
        bench.idle(millis(50));
        errors.note(state, bench.manage(zone as u32, Reset).as_micros_f64(), measured);
    }
    errors.check("reset of a zone that holds nothing", 0.05, 0.05);
    // All zones at once asks nothing of those that are empty.
    let all = Command::ZoneManagementSend { nsid: NSID, start: Lba(0), action: Reset, all: true, zrwa: false };
    assert!(bench.time(all) < Nanos::from_micros(20));
}

#[test]
fn closing_and_reopening() {
    let mut errors = Errors::default();
    for row in Table::load("zn540/open_close_run1_summary.csv").rows() {
        let op = row.text("op");
        let modelled = mean_us(8, |bench, zone| {
            if op.ends_with("explicit_open") {
                bench.manage(zone, ZoneSendAction::Open);
            }
            bench.fill(zone, CAPACITY_BLOCKS - 1);
            let closed = bench.manage(zone, ZoneSendAction::Close);
            bench.idle(millis(10));
            if op.starts_with("close") { closed } else { bench.write(zone, CAPACITY_BLOCKS - 1, 1) }
        });
        errors.note(op, modelled, row.number("latency_mean_us"));
    }
    errors.check("close, and write after it", 0.05, 0.15);
}

fn uring(work: Work, depth: u32, zones: std::ops::Range<u32>) -> Job {
    let notice = if work == Work::Read { URING_NOTICE_READ } else { URING_NOTICE_WRITE };
    Job { cpu: URING_CPU, think: URING_THINK, notice, ..Job::new(work, 8192, depth, zones) }
}

/// The victims' outcome and the interferer's, of a row of the interference table.
fn interfered(row: Row<'_>) -> (Outcome, Option<Outcome>) {
    let load = row.number("victim_load") as u32;
    let rate = row.number("interferer_rate_pct") / 100.0;
    let resets = row.text("interferer") == "reset";
    let (work, filled) = match (row.text("victim"), resets && rate > 0.0) {
        ("read", _) => (Work::Read, 60),
        (_, true) => (Work::Write, 40),
        (_, false) => (Work::Write, 0),
    };
    let mut jobs: Vec<Job> = match work {
        // Read apart from what is reset.
        Work::Read => vec![uring(work, load, 40..60)],
        _ => (0..load).map(|job| uring(work, 1, 100 + 40 * job..140 + 40 * job)).collect(),
    };
    let victims = jobs.len();
    if rate > 0.0 {
        // Resets as often as they came on average: beside reads they ended before the
        // reads did. Finishes as often as the limit allows: half of interferer_alone.csv.
        let (work, per_s, zones) = match resets {
            true => (Work::Reset, row.number("interferer_ops_per_s"), 0..40),
            false => (Work::Finish, 1.089_918 * rate, 700..720),
        };
        let pace = Some(Nanos((1e9 / per_s) as u64));
        jobs.push(Job { pace, ..Job::new(work, 4096, 1, zones) });
    }
    let mut outcomes = measure(filled, &jobs, millis(60), millis(1_000));
    let interferer = (outcomes.len() > victims).then(|| outcomes.remove(victims));
    (Outcome::merge(&outcomes), interferer)
}

#[test]
fn interference_of_resets_and_finishes() {
    let (mut rates, mut p95) = (Errors::default(), Errors::default());
    for row in Table::load("zn540/interference_0_50pct.csv").rows() {
        let [victim, interferer, load, rate] =
            ["victim", "interferer", "victim_load", "interferer_rate_pct"].map(|column| row.text(column));
        // More jobs than the host had cores for.
        if victim == "write" && row.number("victim_load") >= 14.0 {
            continue;
        }
        let (mut outcome, _) = interfered(row);
        let what = format!("{victim} beside {interferer} at {rate} %, load {load}");
        rates.note(&what, outcome.per_s(), row.number("victim_iops_mean"));
        p95.note(&what, outcome.quantile_us(0.95), row.number("victim_lat_p95_us"));
    }
    rates.check("interference, victim's rate", 0.05, 0.15);
    p95.check("interference, victim's 95th percentile", 0.10, 0.90);
}

/// What padding takes of the processors is calibrated on one writer, with and without
/// finishes beside it; the rows of two and more writers are held against it.
#[test]
fn writers_that_the_flash_keeps_up_with_hardly_wait_beside_finishes() {
    let mut errors = Errors::default();
    let table = Table::load("zn540/interference_0_50pct.csv");
    let beside = |row: &Row<'_>| row.text("interferer") == "finish" && row.number("interferer_rate_pct") > 0.0;
    for row in table.rows().filter(beside).filter(|row| row.number("victim_load") <= 2.0) {
        let (mut outcome, _) = interfered(row);
        let load = row.text("victim_load");
        for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            let measured = row.number(&format!("victim_lat_{name}_us"));
            errors.note(format!("{load} writers, {name}"), outcome.quantile_us(share), measured);
        }
    }
    errors.check("few writers beside finishes", 0.10, 0.15);
}

#[test]
fn reads_beside_writes_wait_for_suspended_programs() {
    let mut errors = Errors::default();
    // 95th percentile of 4 KiB reads at depth 1, by the rate of the writes: CLUSTER '23.
    for (write_pace_ns, p95_us) in [(None, 81.0), (Some(524_288), 222.0), (Some(131_072), 313.0)] {
        let mut jobs = vec![Job { think: SPDK_THINK, ..Job::new(Work::Read, 4096, 1, 0..8) }];
        if let Some(pace) = write_pace_ns {
            // 128 KiB at a time: 250 MB/s and 1 GB/s.
            jobs.push(Job { pace: Some(Nanos(pace)), ..Job::new(Work::Write, 131_072, 1, 100..140) });
        }
        let mut outcomes = measure(8, &jobs, millis(50), millis(2_000));
        errors.note(format!("beside 128 KiB writes every {write_pace_ns:?} ns"), outcomes[0].quantile_us(0.95), p95_us);
    }
    errors.check("reads beside writes, 95th percentile", 0.05, 0.15);
}

#[test]
fn a_finish_is_no_slower_where_zones_were_written_together() {
    let mut bench = Bench::new();
    let jobs: Vec<Job> = (0..8).map(|zone| Job::new(Work::Write, 65_536, 1, zone..zone + 1)).collect();
    run(bench.device.as_mut(), Nanos::ZERO, &jobs, millis(1), millis(3_500));
    bench.now = millis(3_600);
    bench.idle(millis(100));
    let left = CAPACITY_BLOCKS - bench.device.zones(NSID)[3].written_blocks;
    let padding_ms = 902.5 * left as f64 / CAPACITY_BLOCKS as f64;
    assert!((300.0..600.0).contains(&padding_ms), "{padding_ms}");
    let finish_ms = bench.manage(3, ZoneSendAction::Finish).as_micros_f64() / 1e3;
    assert!((finish_ms / padding_ms - 1.0).abs() < 0.1, "{finish_ms} ms for {padding_ms} ms of padding");
}
