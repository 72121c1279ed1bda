//! Reports to look at, made of smooth formulas instead of runs.

use lab::report::*;
use trace::{RequestId, Span, Step, Track, follow};
use units::Nanos;

/// A direction whose latency is a floor and an exponential tail.
pub fn direction(name: &str, iops: f64, floor_ns: f64, tail_ns: f64, repeats: u32) -> DirectionData {
    let quantile = |fraction: f64| floor_ns - tail_ns * (1.0 - fraction).max(1e-6).ln();
    let estimate = |value: f64| Estimate { value, half_width: (repeats > 1).then_some(value * 0.012) };
    DirectionData {
        name: name.to_owned(),
        requests: (iops * 2.0).round(),
        iops: estimate(iops),
        bandwidth: estimate(iops * 4096.0),
        latency_mean_ns: estimate(floor_ns + tail_ns),
        latency_percentiles_ns: [1.0, 10.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99]
            .map(|percent| (percent, estimate(quantile(percent / 100.0))))
            .to_vec(),
        latency_cdf: (0..=2000).map(|n| f64::from(n) / 2000.0).map(|at| (quantile(at), at)).collect(),
        throughput: (0..200u32)
            .map(|n| {
                // A dip now and then, as garbage collection makes one.
                let share =
                    if n % 41 > 36 { 0.55 } else { 1.0 + 0.03 * f64::from(n * 7919 % 17 - 8.min(n * 7919 % 17)) / 8.0 };
                let rate = iops * share;
                let mean = floor_ns + tail_ns / share;
                ThroughputSample {
                    at_ns: f64::from(n) * 1e7 + 5e6,
                    bytes_per_s: rate * 4096.0,
                    iops: rate,
                    latency_mean_ns: Some(mean),
                    latency_max_ns: Some(mean * 6.0),
                }
            })
            .collect(),
    }
}

fn utilisation(channels: u32, dies: u32) -> Utilisation {
    let busy = |n: u32| 0.08 + 0.84 * f64::from(n * 2_654_435 % 1009) / 1009.0;
    Utilisation {
        channels: (0..channels)
            .map(|channel| ChannelUtilisation {
                bus: busy(channel + 900) * 0.5,
                dies: (0..dies).map(|die| busy(channel * dies + die)).collect(),
            })
            .collect(),
        parts: vec![("Host link".to_owned(), 0.412), ("Controller".to_owned(), 0.287), ("CPU 0".to_owned(), 0.953)],
    }
}

fn counters() -> Vec<CounterGroup> {
    let counter = |name: &str, value: f64, unit: Unit| Counter { name: name.to_owned(), value, unit };
    vec![
        CounterGroup {
            name: "Flash translation layer".to_owned(),
            counters: vec![
                counter("Write amplification", 2.134, Unit::Factor),
                counter("Host writes", 8.1e9, Unit::Bytes),
                counter("Blocks erased", 4211.0, Unit::Plain),
                counter("Pages moved by garbage collection", 1_234_567.0, Unit::Plain),
            ],
        },
        CounterGroup {
            name: "Block layer".to_owned(),
            counters: vec![
                counter("Requests merged", 12.0, Unit::Plain),
                counter("Mean queue wait", 812.0, Unit::Time),
                counter("Requests refused for want of a tag", 0.0, Unit::Plain),
            ],
        },
    ]
}

/// The way of a 16 KiB read over two channels.
pub fn read_story() -> Story {
    let request = RequestId(4711);
    let span = |start: u64, end: u64, track: Track, step: Step| Span {
        start: Nanos(1_200_000_000 + start),
        end: Nanos(1_200_000_000 + end),
        track,
        step,
        request,
        offset: 3 << 30,
        bytes: 16384,
    };
    let die = |channel: u16, die: u16| Track::Die { channel, die };
    let spans = [
        span(0, 98_400, Track::Job(0), Step::Read),
        span(0, 1_100, Track::Cpu(0), Step::CpuBusy),
        span(1_100, 3_000, Track::HostQueue(1), Step::Queued),
        span(3_000, 96_900, Track::NvmeQueue(1), Step::Command),
        span(4_100, 6_600, Track::Controller, Step::Process),
        span(6_600, 52_600, die(2, 17), Step::FlashRead),
        span(19_600, 65_600, die(5, 44), Step::FlashRead),
        span(52_600, 66_300, Track::Channel(2), Step::ChannelTransfer),
        span(71_000, 84_700, Track::Channel(5), Step::ChannelTransfer),
        span(84_700, 93_100, Track::Link, Step::Transfer),
        span(96_900, 98_400, Track::Cpu(0), Step::CpuBusy),
    ];
    Story { title: "A median 16 KiB read".to_owned(), path: follow(&spans, request).unwrap() }
}

/// The way of a write that the device buffers and programs later.
pub fn write_story() -> Story {
    let request = RequestId(1 << 40 | 12);
    let span = |start: u64, end: u64, track: Track, step: Step| Span {
        start: Nanos(24_300_000 + start),
        end: Nanos(24_300_000 + end),
        track,
        step,
        request,
        offset: 0,
        bytes: 4096,
    };
    let spans = [
        span(0, 19_200, Track::Job(0), Step::Write),
        span(0, 1_380, Track::Cpu(0), Step::CpuBusy),
        span(1_380, 16_700, Track::NvmeQueue(1), Step::Command),
        span(3_380, 8_380, Track::Controller, Step::Process),
        span(8_380, 10_700, Track::Link, Step::Transfer),
        span(10_700, 24_700, Track::Channel(0), Step::ChannelTransfer),
        span(24_700, 130_000, Track::Die { channel: 0, die: 0 }, Step::FlashProgram),
    ];
    Story { title: "A median 4 KiB write".to_owned(), path: follow(&spans, request).unwrap() }
}

fn frame() -> ReportData {
    ReportData {
        version: "0.1.0".to_owned(),
        spec_hash: "9f2c41d07ab3e655".to_owned(),
        seeds: vec![1, 2, 3, 4, 5],
        spec_text: "title = \"Random read and write on one drive\"\n\n[stack]\ndevice = \"samsung-980pro-1tb\"\n\n[workload]\nfio = \
                    '''\n[job]\nrw=randrw\nbs=4k\niodepth=32\nruntime=2s\n'''\n"
            .to_owned(),
        devices: vec![DeviceData {
            name: "samsung-980pro-1tb".to_owned(),
            description: "Consumer NVMe drive with a volatile write cache and no power-loss protection.".to_owned(),
            facts: [("Capacity", "1.00 TB"), ("Channels", "8"), ("Dies", "64, 8 a channel"), ("Page", "16 KiB"), ("Array read", "46 us")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
        }],
        ..ReportData::default()
    }
}

/// One point with everything in it.
pub fn single() -> ReportData {
    let comparison =
        |metric: &str, published: f64, to: Option<f64>, ours: Option<f64>, within: Option<f64>| Comparison {
            metric: metric.to_owned(),
            at: String::new(),
            unit: Unit::Named("us".to_owned()),
            published,
            published_to: to,
            ours: ours.map(|value| Estimate { value, half_width: Some(value * 0.01) }),
            within,
            source: "OPIMQ, EuroSys 2025, table 2".to_owned(),
            note: String::new(),
        };
    ReportData {
        title: "Random read and write on one drive".to_owned(),
        description:
            "What does a queue of 32 random 4 KiB requests, seven reads to three writes, do on a consumer drive in \
                      steady state?\n\nReads wait for dies that program or erase; the tail shows by how much."
                .to_owned(),
        source: Some("fio 3.36 on the device itself, run of 2026-03-02".to_owned()),
        command: Some("plumb run experiments/quickstart.toml".to_owned()),
        overrides: vec!["stack.device=samsung-980pro-1tb".to_owned(), "run.repeats=5".to_owned()],
        warnings: vec![
            Warning {
                severity: Severity::Shortfall,
                text: "Run 3 served 99,812 of 100,000 requests before its time limit of 60 s.".to_owned(),
            },
            Warning {
                severity: Severity::Note,
                text: "The trace kept the first 1,000,000 spans; 41,233 were dropped.".to_owned(),
            },
        ],
        points: vec![PointData {
            repeats: 5,
            duration_ns: 2e9,
            directions: vec![direction("read", 212_345.0, 58e3, 41e3, 5), direction("write", 91_012.0, 11e3, 9e3, 5)],
            utilisation: utilisation(8, 8),
            counters: counters(),
            ..PointData::default()
        }],
        comparisons: vec![
            comparison("write.mean_us", 11.0, Some(14.0), Some(12.3), Some(0.05)),
            comparison("read.mean_us", 70.0, None, Some(81.2), Some(0.1)),
            Comparison {
                note: "The profile's pSLC region is larger than the measured drive's.".to_owned(),
                ..comparison("sync.mean_us", 1560.0, Some(1620.0), Some(410.0), None)
            },
            comparison("sync.p99_us", 4100.0, None, None, Some(0.2)),
        ],
        stories: vec![read_story(), write_story()],
        ..frame()
    }
}

/// A sweep of queue depth on two devices.
pub fn sweep(depths: u32) -> ReportData {
    let names = ["samsung-980pro-1tb", "optane-905p-960gb"];
    let floors = [62e3, 10e3];
    let mut points = Vec::new();
    let mut lines = Vec::new();
    for (name, floor) in names.iter().zip(floors) {
        let mut line = SweepLine { name: (*name).to_owned(), ..SweepLine::default() };
        for power in 0..depths {
            let depth = 2f64.powi(power as i32);
            let iops = 1.0 / (floor / 1e9 / depth + 1.0 / 575e3);
            points.push(PointData {
                parameters: vec![
                    ("stack.device".to_owned(), (*name).to_owned()),
                    ("workload.set.iodepth".to_owned(), depth.to_string()),
                ],
                repeats: 5,
                duration_ns: 2e9,
                directions: vec![direction("read", iops, depth / iops * 0.8e9, depth / iops * 0.2e9, 5)],
                utilisation: utilisation(4, 16),
                counters: counters(),
            });
            line.points.push((depth, Estimate { value: iops, half_width: Some(iops * 0.04) }));
        }
        line.published =
            if *name == names[0] { vec![(1.0, 14e3, 17e3), (32.0, 420e3, 450e3)] } else { vec![(16.0, 560e3, 560e3)] };
        lines.push(line);
    }
    let plot = SweepPlot {
        title: "Random reads scale until the link is full".to_owned(),
        x_label: "Queue depth".to_owned(),
        log_x: true,
        y_label: "Operations".to_owned(),
        y_unit: Unit::Iops,
        lines,
        ..SweepPlot::default()
    };
    let by_name = SweepPlot {
        title: "Flush time by device".to_owned(),
        x_label: "Device".to_owned(),
        x_names: names.map(str::to_owned).to_vec(),
        y_label: "Mean latency".to_owned(),
        y_unit: Unit::Time,
        lines: vec![SweepLine { points: vec![(0.0, 1.59e6.into()), (1.0, 12e3.into())], ..SweepLine::default() }],
        ..SweepPlot::default()
    };
    ReportData {
        title: "Queue depth on flash and on 3D XPoint".to_owned(),
        description: "How deep must the queue be before a drive is full?".to_owned(),
        points,
        plots: vec![plot, by_name],
        ..frame()
    }
}
