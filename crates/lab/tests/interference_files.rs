//! Interference out of files a user has: fio's, its zoned fork's, Plumb's.

#![allow(clippy::unwrap_used)]

use std::fs;

use lab::interference::{LatencyKind, Measurement, MeasurementError, Operation, VictimChoice, compare, parse_fio_json};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A direction's section with these rates and percentiles.
fn section(ios: u64, runtime_ms: u64, p95_ns: f64, p999_ns: f64) -> Value {
    json!({
        "total_ios": ios, "runtime": runtime_ms, "iops": ios as f64 * 1e3 / runtime_ms as f64,
        "iops_mean": ios as f64 * 1e3 / runtime_ms as f64, "bw_bytes": 1,
        "lat_ns": {"min": 1, "max": 2.0 * p999_ns, "mean": p95_ns / 2.0, "percentile": {"95.000000": p95_ns, "99.900000": p999_ns}},
        "clat_ns": {"min": 1, "max": 2.0 * p999_ns, "mean": p95_ns / 2.0, "percentile": {"95.000000": p95_ns + 1.0}},
    })
}

fn idle() -> Value {
    json!({"total_ios": 0, "runtime": 0, "iops": 0, "iops_mean": 0, "lat_ns": {"max": 0}})
}

fn job(name: &str, options: Value, sections: &[(&str, Value)]) -> Value {
    let mut job = json!({"jobname": name, "groupid": 0, "job options": options});
    for (key, section) in sections {
        job[*key] = section.clone();
    }
    job
}

fn measurement(jobs: Vec<Value>) -> Measurement {
    Measurement::parse("test.json", json!({"fio version": "fio-3.35", "jobs": jobs}).to_string().as_bytes()).unwrap()
}

fn writers(ios: u64, p95_ns: f64) -> Value {
    job(
        "write",
        json!({"rw": "write", "numjobs": "3"}),
        &[("read", idle()), ("write", section(ios, 1000, p95_ns, 100.0 * p95_ns)), ("trim", idle())],
    )
}

#[test]
fn the_forks_habits_are_read() {
    let without = measurement(vec![writers(100_000, 20_000.0)]);
    let fill = job("fill", json!({"rw": "write", "bs": "64K"}), &[("write", section(9, 1000, 1.0, 1.0))]);
    let resets =
        job("trim", json!({"rw": "randtrim"}), &[("read", idle()), ("ZNS Reset", section(30, 1000, 2e7, 3e7))]);
    let text = json!({"jobs": [fill, resets, writers(80_000, 30_000.0)]}).to_string();
    // Log lines first, of which one begins like a document.
    let text = format!("note: both iodepth >= 1 and synchronous I/O engine\n{{oops\n{text}\nafterwards");
    let with = Measurement::parse("with.json", text.as_bytes()).unwrap();
    let found = compare(&[(without, with)], &VictimChoice::Last, None).unwrap();
    assert_eq!((found.victim, found.latency), (Operation::Write, LatencyKind::Total));
    // The fill's writes count among the others: it has a name of its own.
    assert_eq!(found.interferers, [Operation::Write, Operation::Reset]);
    assert_eq!(found.points[0].load, "3x1");
    assert!((found.z.mean - (0.5f64 * 0.04 + 0.5 * 0.25).sqrt()).abs() < 1e-9);
    assert!((found.signed.mean - 0.35).abs() < 1e-9);
    assert_eq!(found.points[0].operations_per_s, Some(30.0));
    assert!((found.mean_cost.unwrap().lost_ios - 20_000.0 / 30.0).abs() < 1e-6);
    assert!((found.stall.unwrap().with_ns - 6e6).abs() < 1e-3);
}

#[test]
fn the_finish_key_means_what_the_options_say() {
    // The fork renames `write` as soon as any option is 0.
    let appends =
        job("append", json!({"zone_append": "1", "ramp_time": "0"}), &[("finish", section(500, 1000, 1e4, 1e5))]);
    let finishes = job("finish", json!({"finish": "1"}), &[("write", section(2, 4000, 1e4, 1e5))]);
    let writes = job("write", json!({"finish": "0"}), &[("finish", section(7, 1000, 1e4, 1e5))]);
    // A program that times finishes keeps the keys apart.
    let apart = job(
        "both",
        json!({"finish": "1"}),
        &[("write", section(3, 1000, 1e4, 1e5)), ("finish", section(3, 1000, 9e8, 1e9))],
    );
    let streams = measurement(vec![appends, finishes, writes, apart]).streams;
    let operations: Vec<Operation> = streams.iter().map(|stream| stream.operation).collect();
    use Operation::{Append, Finish, Write};
    assert_eq!(operations, [Append, Finish, Write, Write, Finish]);
    assert_eq!(streams[1].ops_per_s(), 0.5);
    assert_eq!(streams[1].lat.percentile_ns(95.0), None, "those are the latencies of the writes");
    assert_eq!(streams[4].lat.percentile_ns(95.0), Some(9e8));
}

#[test]
fn percentiles_not_collected_are_missing() {
    let mut bare = section(10, 1000, 17_112_760_320.0, 17_112_760_320.0);
    bare["clat_ns"] = json!({"max": 5});
    let bare = measurement(vec![job("w", json!({}), &[("write", bare)])]);
    let said = compare(&[(bare.clone(), bare.clone())], &VictimChoice::Last, None).unwrap_err().to_string();
    assert!(said.contains("P95") && said.contains("lat_percentiles=1"), "{said}");
    let rates = lab::interference::Weights::RATE_ALONE;
    assert_eq!(compare(&[(bare.clone(), bare)], &VictimChoice::Last, Some(rates)).unwrap().z.mean, 0.0);
    // Only completion latencies: taken for both sides, and said.
    let mut clat = section(10, 1000, 5.0, 6.0);
    clat["lat_ns"] = json!({"max": 9});
    let clat = measurement(vec![job("w", json!({}), &[("write", clat)])]);
    let full = measurement(vec![job("w", json!({}), &[("write", section(10, 1000, 11.0, 12.0))])]);
    let found = compare(&[(clat, full)], &VictimChoice::Last, None).unwrap();
    assert_eq!((found.latency, found.tail), (LatencyKind::Completion, None));
    assert!((found.z.mean - 0.5f64.sqrt()).abs() < 1e-9, "from 6 to 12");
}

#[test]
fn jobs_reported_apart_need_bins() {
    let apart = |bins: bool| {
        let jobs = [100.0, 300.0].map(|value: f64| {
            let mut part = section(50, 1000, value, value);
            if bins {
                part["lat_ns"] = json!({"max": value, "bins": {format!("{value}"): 50}});
            }
            job("write", json!({"iodepth": "1"}), &[("write", part)])
        });
        measurement(jobs.to_vec())
    };
    let found = compare(&[(apart(true), apart(true))], &VictimChoice::Last, None).unwrap();
    assert_eq!(found.points[0].without.iops, 100.0);
    assert_eq!(found.points[0].without.p95_ns, Some(300.0));
    assert_eq!(found.points[0].load, "2x1");
    assert!(compare(&[(apart(false), apart(false))], &VictimChoice::Last, None).is_err());
}

#[test]
fn victims_by_choice() {
    let reads = || job("r", json!({}), &[("read", section(10, 1000, 5.0, 6.0))]);
    let pair = || (measurement(vec![reads(), writers(5, 1.0)]), measurement(vec![writers(4, 1.0), reads()]));
    let victim = |choice: &str| compare(&[pair()], &choice.parse().unwrap(), None).map(|found| found.victim);
    assert_eq!(victim("read").unwrap(), Operation::Read);
    assert_eq!(victim("r").unwrap(), Operation::Read);
    assert_eq!(compare(&[pair()], &VictimChoice::Last, None).unwrap().victim, Operation::Write);
    let said = victim("reset").unwrap_err().to_string();
    assert!(said.contains("test.json") && said.contains("stream of resets") && said.contains("`r` (read)"), "{said}");
    // A management operation is weighed by its rate, against both references.
    let resets = |ios| job("t", json!({}), &[("trim", section(ios, 1000, 1.0, 1.0))]);
    let alone = || measurement(vec![resets(60)]);
    let pairs = [(alone(), measurement(vec![resets(45)])), (alone(), measurement(vec![resets(30)]))];
    let found = compare(&pairs, &VictimChoice::Last, None).unwrap();
    assert!((found.z.mean - 0.375).abs() < 1e-9);
    let management = found.management.unwrap();
    assert!((management.against_isolated - 0.375).abs() < 1e-9);
    assert!((management.against_first_load - (1.0 / 3.0) / 2.0).abs() < 1e-9);
}

#[test]
fn folders_and_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("fio")).unwrap();
    let said = |path: &std::path::Path| Measurement::read(path).unwrap_err().to_string();
    assert!(said(folder.path()).contains("holds 0 fio results"));
    let document = json!({"jobs": [writers(5, 1.0)]}).to_string();
    fs::write(folder.path().join("fio/point0-repeat0.json"), &document).unwrap();
    assert_eq!(Measurement::read(folder.path()).unwrap().streams.len(), 1);
    fs::write(folder.path().join("fio/point1-repeat0.json"), &document).unwrap();
    assert!(said(folder.path()).contains("holds 2 fio results"));
    assert!(said(&folder.path().join("nothing.json")).contains("nothing.json"));
    fs::write(folder.path().join("cut.json"), &document[..document.len() - 5]).unwrap();
    let cut = said(&folder.path().join("cut.json"));
    assert!(cut.contains("cut.json") && cut.contains("interrupted"), "{cut}");
    fs::write(folder.path().join("idle.json"), json!({"jobs": []}).to_string()).unwrap();
    assert!(said(&folder.path().join("idle.json")).contains("did any I/O"));
}

proptest! {
    /// Whatever the bytes, there is an answer or an error that names the file.
    #[test]
    fn any_bytes(
        junk in proptest::collection::vec(any::<u8>(), 0..200),
        from in 0usize..700, to in 0usize..700, prepend in any::<bool>(),
    ) {
        let document = json!({"jobs": [writers(5, 1.0)]}).to_string().into_bytes();
        let mut damaged = document.clone();
        let (from, to) = (from.min(damaged.len()), to.min(damaged.len()));
        damaged.splice(from.min(to)..from.max(to), junk.clone());
        for text in [damaged, junk.clone(), if prepend { [junk, b"\n".to_vec(), document].concat() } else { junk }] {
            let _ = parse_fio_json(&text);
            match Measurement::parse("some.json", &text) {
                Ok(measurement) => {
                    let pair = (measurement.clone(), measurement);
                    if let Ok(found) = compare(&[pair], &VictimChoice::Last, None) {
                        prop_assert!(found.z.mean.abs() < 1e-9, "the same twice: {}", found.z.mean);
                    }
                }
                Err(MeasurementError::Result { origin, .. }) => prop_assert_eq!(origin, "some.json"),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
