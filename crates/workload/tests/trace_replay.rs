//! Traces replayed: timing to the nanosecond, queueing theory, what goes wrong.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write;
use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::rc::Rc;

use block::{BlockDevice, QueueConfig};
use nvme::{Command, Status, WriteCommand};
use rand::RngExt;
use sim::Executor;
use sim::cpu::{CpuConfig, Cpus};
use ssd::{Completion, Device, Identity, NullDevice, PowerCut, Submission, VolatileWrite};
use trace::{Recorder, Span, Step};
use units::Nanos;
use workload::fio::Direction;
use workload::fio::report::ShortfallReason;
use workload::replay::{
    Align, Fit, Pace, Placement, ReadOptions, Replay, ReplayError, ReplayOptions, ReplayReport, Speed, TraceReader,
};
use workload::{Host, IoCosts};

const BLOCKS: u64 = 1 << 20;
const LATENCY: Nanos = Nanos::from_micros(10);

/// Serves one command at a time, each in the same time, in order of arrival.
struct SingleServer {
    identity: Identity,
    service: Nanos,
    /// When what has arrived so far will be done.
    busy_until: Nanos,
    queue: VecDeque<Completion>,
    /// Commands that begin here fail.
    bad_lba: Option<u64>,
    commands: Rc<RefCell<Vec<Command>>>,
}

impl SingleServer {
    fn new(service: Nanos) -> Self {
        let identity = NullDevice::new(BLOCKS, 512, service).identity().clone();
        Self {
            identity,
            service,
            busy_until: Nanos::ZERO,
            queue: VecDeque::new(),
            bad_lba: None,
            commands: Rc::default(),
        }
    }
}

impl Device for SingleServer {
    fn identity(&self) -> &Identity {
        &self.identity
    }
    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.busy_until = self.busy_until.max(now) + self.service;
        let start = match &submission.command {
            Command::Read { range, .. } | Command::Write(WriteCommand { range, .. }) => Some(range.start.0),
            _ => None,
        };
        let bad = start.is_some() && start == self.bad_lba;
        self.commands.borrow_mut().push(submission.command);
        self.queue.push_back(Completion {
            queue: submission.queue,
            cid: submission.cid,
            status: if bad { Status::UNRECOVERED_READ } else { Status::SUCCESS },
            result: 0,
            data: None,
            at: self.busy_until,
        });
    }
    fn next_event(&self) -> Option<Nanos> {
        // A server of infinite service time never completes anything.
        self.queue.front().map(|completion| completion.at).filter(|at| *at != Nanos::MAX)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while self.queue.front().is_some_and(|completion| completion.at <= now) {
            completions.extend(self.queue.pop_front());
        }
    }
    fn power_cut(&mut self, _now: Nanos) -> PowerCut {
        self.queue.clear();
        PowerCut::default()
    }
    fn survive(&mut self, _write: &VolatileWrite) {}
    fn set_recorder(&mut self, _recorder: Recorder) {}
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// Replays `text` on `device`; the report, and each request as the trace shows it.
fn replay(
    device: impl Device + 'static,
    text: &str,
    options: &ReplayOptions,
) -> (Result<ReplayReport, ReplayError>, Vec<Span>) {
    let mut executor = Executor::new_virtual();
    let sim = executor.handle();
    let recorder = Recorder::bounded(1 << 20);
    let host = Host {
        disk: BlockDevice::new(
            &sim,
            Box::new(device),
            QueueConfig { scheduler: Some(block::SchedulerKind::None), ..QueueConfig::default() },
            Recorder::default(),
        ),
        cpus: Cpus::new(&sim, CpuConfig::free(NonZeroU16::MIN), Recorder::default()),
        costs: IoCosts::FREE,
        seed: 1,
        recorder: recorder.clone(),
        sim,
    };
    let input = std::io::Cursor::new(text.to_owned().into_bytes());
    let reader = TraceReader::new("sample", input, &ReadOptions::default()).unwrap();
    let replay = Replay::start(&host, "sample", reader, options);
    executor.run();
    let mut spans = recorder.take().0;
    spans.sort_by_key(|span| span.request);
    (replay.finish(), spans)
}

fn null() -> NullDevice {
    NullDevice::new(BLOCKS, 512, LATENCY)
}

fn iolog(lines: &str) -> String {
    format!("fio version 3 iolog\n0 d add\n0 d open\n{lines}")
}

fn open_loop(speed: f64, max_in_flight: u32) -> ReplayOptions {
    let speed = Speed::new(speed).unwrap();
    let pace = Pace::OpenLoop { speed, max_in_flight: NonZeroU32::new(max_in_flight).unwrap() };
    ReplayOptions { pace, ..ReplayOptions::default() }
}

fn closed_loop(in_flight: u32) -> ReplayOptions {
    let pace = Pace::ClosedLoop { in_flight: NonZeroU32::new(in_flight).unwrap() };
    ReplayOptions { pace, ..ReplayOptions::default() }
}

fn starts(spans: &[Span]) -> Vec<u64> {
    spans.iter().map(|span| span.start.0).collect()
}

#[test]
fn open_loop_issues_at_the_nanosecond() {
    // The clock of the trace begins anywhere; the first I/O is due at once.
    let text = "\
8,0 0 1 7.000000001 5 Q R 0 + 8 [a]
8,0 0 2 7.000000004 5 Q WS 64 + 8 [a]
8,0 0 3 7.000123457 5 Q DS 128 + 8 [a]
8,0 0 4 8.500000001 5 Q FWS [a]
";
    let (report, spans) = replay(null(), text, &ReplayOptions::default());
    let report = report.unwrap();
    assert_eq!(starts(&spans), [0, 3, 123_456, 1_500_000_000]);
    let steps: Vec<_> = spans.iter().map(|span| (span.step, span.offset, span.bytes)).collect();
    let want = [(Step::Read, 0, 4096), (Step::Write, 32_768, 4096), (Step::Discard, 65_536, 4096), (Step::Flush, 0, 0)];
    assert_eq!(steps, want);
    assert_eq!((report.counts.asked, report.counts.served), (4, 4));
    assert_eq!((report.lateness.count(), report.lateness.max()), (4, Nanos::ZERO));
    assert_eq!(report.traced, Nanos(1_500_000_000));
    for (direction, part) in report.job.directions.iter() {
        assert_eq!((part.ios, part.bytes, part.lat.max()), (1, 4096, LATENCY), "{}", direction.name());
    }
    assert_eq!(report.job.sync.count(), 1);
    assert_eq!(report.littles_law_error(), 0.0);
    assert!(report.job.is_clean());
}

#[test]
fn speed_divides_every_gap() {
    let text = iolog("0 d read 0 512\n1000 d read 512 512\n3001 d read 1024 512\n");
    let (_, spans) = replay(null(), &text, &open_loop(2.0, 8));
    assert_eq!(starts(&spans), [0, 500_000, 1_500_500]);
    let (_, spans) = replay(null(), &text, &open_loop(0.5, 8));
    assert_eq!(starts(&spans), [0, 2_000_000, 6_002_000]);
}

#[test]
fn a_timestamp_that_goes_back_is_due_at_once() {
    let text = iolog("50 d read 0 512\n90 d read 512 512\n20 d read 1024 512\n70 d read 1536 512\n100 d read 0 512\n");
    let (report, spans) = replay(null(), &text, &ReplayOptions::default());
    let report = report.unwrap();
    assert_eq!(starts(&spans), [0, 40_000, 40_000, 40_000, 50_000]);
    assert_eq!(report.counts.out_of_order, 2);
    assert_eq!(report.lateness.max(), Nanos::ZERO);
}

#[test]
fn the_bound_on_in_flight_makes_an_open_loop_late() {
    // An I/O every 5 us for a device that takes 10 us each, one at a time.
    let mut lines = String::new();
    for n in 0..100 {
        writeln!(lines, "{} d read {} 512", n * 5, n * 512).unwrap();
    }
    let (report, spans) = replay(null(), &iolog(&lines), &open_loop(1.0, 1));
    let report = report.unwrap();
    assert_eq!(starts(&spans), (0..100).map(|n| n * 10_000).collect::<Vec<_>>());
    assert_eq!(report.lateness.max(), Nanos::from_micros(99 * 5));
    assert_eq!(report.lateness.sum_ns(), (0..100).map(|n| n * 5_000).sum::<u128>());
    assert_eq!(report.in_flight.max(), 1);
    assert_eq!(report.counts.served, 100);
}

#[test]
fn closed_loop_keeps_its_depth_and_ignores_time() {
    let mut lines = String::new();
    for n in 0..100 {
        writeln!(lines, "{} d read {} 512", n * 1_000_000, n * 4096).unwrap();
    }
    let (report, spans) = replay(null(), &iolog(&lines), &closed_loop(4));
    let report = report.unwrap();
    assert_eq!(starts(&spans), (0..100).map(|n| n / 4 * 10_000).collect::<Vec<_>>());
    assert_eq!(report.job.runtime(), Nanos::from_micros(250));
    assert_eq!((report.in_flight.max(), report.in_flight.mean(report.job.runtime())), (4, 4.0));
    assert_eq!(report.littles_law_error(), 0.0);
    assert!(report.lateness.is_empty(), "nothing is due in a closed loop");
    assert_eq!(report.job.directions[Direction::Read].iops(), 400_000.0);
}

/// Poisson arrivals, one server, constant service: the mean wait is
/// rho / (2 (1 - rho)) services (Pollaczek-Khinchine).
#[test]
fn poisson_open_loop_is_m_d_1() {
    let service = Nanos::from_micros(100);
    for (rho, seed) in [(0.1, 1), (0.3, 2), (0.6, 3)] {
        let mut rng = sim::rng::stream(seed, "arrivals");
        let mut text = String::new();
        let mut at_ns = 0.0;
        let arrivals = 100_000;
        for n in 0..arrivals {
            at_ns -= (1.0 - rng.random::<f64>()).ln() * service.0 as f64 / rho;
            let (secs, nanos) = (at_ns as u64 / 1_000_000_000, at_ns as u64 % 1_000_000_000);
            // Far apart, so that the block layer merges nothing.
            let sector = n * 7919 % 100_000 * 8;
            writeln!(text, "8,0 0 {n} {secs}.{nanos:09} 1 Q R {sector} + 1 [m]").unwrap();
        }
        let (report, _) = replay(SingleServer::new(service), &text, &ReplayOptions::default());
        let report = report.unwrap();
        assert_eq!(report.lateness.max(), Nanos::ZERO, "the tags of the queue suffice");
        let reads = &report.job.directions[Direction::Read];
        assert_eq!(reads.ios, arrivals);
        let waited = reads.lat.mean_ns() - service.0 as f64;
        let theory = rho / (2.0 * (1.0 - rho)) * service.0 as f64;
        // The standard error of the mean over these arrivals is about 1 % of it.
        assert!((waited / theory - 1.0).abs() < 0.04, "rho {rho}: waited {waited} ns, theory {theory} ns");
        assert_eq!(report.littles_law_error(), 0.0);
    }
}

#[test]
fn flags_reach_the_device() {
    let text = "\
8,0 0 1 0.000000000 5 Q FWFS 0 + 8 [a]
8,0 0 2 1.000000000 5 Q WFS 8 + 8 [a]
8,0 0 3 2.000000000 5 Q W 16 + 8 [a]
8,0 0 4 3.000000000 5 Q FWS [a]
";
    let mut device = SingleServer::new(LATENCY);
    device.identity.volatile_write_cache = true;
    let commands = device.commands.clone();
    replay(device, text, &ReplayOptions::default()).0.unwrap();
    let seen: Vec<_> = commands
        .borrow()
        .iter()
        .map(|command| match command {
            Command::Flush { .. } => "flush",
            Command::Write(WriteCommand { fua: true, .. }) => "write fua",
            Command::Write(WriteCommand { fua: false, .. }) => "write",
            _ => "other",
        })
        .collect();
    assert_eq!(seen, ["flush", "write fua", "write fua", "write", "flush"]);
}

#[test]
fn out_of_range_names_the_line_and_wrapping_helps() {
    let end = BLOCKS * 512;
    let text = iolog(&format!("0 d read 0 512\n1 d read {end} 512\n"));
    let (result, spans) = replay(null(), &text, &ReplayOptions::default());
    let error = result.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "sample:5: 512 bytes at offset {end} end past the device, which has {end}; \
             replay on a larger device, or wrap or scale the offsets"
        )
    );
    assert_eq!(spans.len(), 1, "what was issued before completes");
    let wrap = Placement { fit: Fit::Wrap, ..Placement::default() };
    let (report, spans) = replay(null(), &text, &ReplayOptions { placement: wrap, ..ReplayOptions::default() });
    assert_eq!((report.unwrap().counts.adjusted, spans[1].offset), (1, 0));
    let scale = Placement { scale: NonZeroU64::new(2).unwrap(), ..Placement::default() };
    let (report, spans) = replay(null(), &text, &ReplayOptions { placement: scale, ..ReplayOptions::default() });
    assert_eq!((report.unwrap().counts.adjusted, spans[1].offset), (0, end / 2));
}

#[test]
fn zoned_devices_take_no_traces() {
    let (result, spans) = replay(crate::common::zoned(""), &iolog("0 d write 0 4096\n"), &open_loop(1.0, 1));
    let error = result.unwrap_err().to_string();
    assert!(error.starts_with("sample: ") && error.contains("zonemode=zbd"), "{error}");
    assert!(spans.is_empty());
}

#[test]
fn misaligned_io_is_an_error_or_rounded() {
    let text = iolog("0 d write 100 512\n1 d trim 100 600\n2 d trim 0 1000\n");
    let (result, _) = replay(null(), &text, &ReplayOptions::default());
    assert!(result.unwrap_err().to_string().starts_with("sample:4: 512 bytes at offset 100 are not whole logical"));
    let round = Placement { align: Align::Round, ..Placement::default() };
    let (report, spans) = replay(null(), &text, &ReplayOptions { placement: round, ..ReplayOptions::default() });
    let report = report.unwrap();
    let ranges: Vec<_> = spans.iter().map(|span| (span.step, span.offset, span.bytes)).collect();
    assert_eq!(ranges, [(Step::Write, 0, 1024), (Step::Discard, 0, 512)]);
    assert_eq!((report.counts.asked, report.counts.adjusted, report.counts.empty_trims), (2, 2, 1));
}

#[test]
fn a_trace_that_breaks_off_is_an_error() {
    let text = iolog("0 d read 0 512\n1 d read 51");
    let (result, _) = replay(null(), &text, &ReplayOptions::default());
    assert!(matches!(result, Err(ReplayError::Trace(_))));
    assert!(result.unwrap_err().to_string().contains("the file ends inside this line"));
}

#[test]
fn failed_io_is_a_loud_shortfall() {
    let mut device = SingleServer::new(LATENCY);
    device.bad_lba = Some(8);
    let text = iolog("0 d read 0 4096\n100 d read 4096 4096\n200 d read 8192 4096\n");
    let report = replay(device, &text, &ReplayOptions::default()).0.unwrap();
    assert_eq!((report.counts.asked, report.counts.served), (3, 2));
    assert_eq!((report.job.error_count, report.job.errors[0].offset), (1, 4096));
    let shortfall = report.job.shortfall.unwrap();
    assert!(matches!(shortfall.reason, ShortfallReason::Error(_)));
    assert!(shortfall.to_string().starts_with("served 8192 of 12288 bytes: read of 4096 bytes at offset 4096 failed"));
}

#[test]
fn a_device_that_never_answers_is_a_loud_shortfall() {
    let text = iolog("0 d read 0 4096\n100 d read 4096 4096\n");
    let report = replay(SingleServer::new(Nanos::MAX), &text, &closed_loop(1)).0.unwrap();
    assert_eq!(report.counts.served, 0);
    assert_eq!(report.job.shortfall.unwrap().reason, ShortfallReason::Stalled { in_flight: 1 });
}
