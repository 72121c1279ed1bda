//! fio's `json+`.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use stats::Histogram;

use super::Header;
use super::summary::{GroupRates, LATENCY_BOUNDS, cpu_percent, errno, latency_table, percentiles, sections, share};
use crate::fio::report::{DirectionReport, JobReport, Samples, grouped};

/// The reports as `fio --output-format=json+` of version 3.33 writes them.
///
/// Bandwidths and IOPS come from nanoseconds where fio divides by whole
/// milliseconds. Finishes of zones, and resets other than trims, stand beside the
/// directions under `finish` and `reset`, where there were any. Page faults and
/// memory have no counterpart here: faults are 0. `disk_util` is left out, as fio does for devices it cannot ask.
pub fn json_plus(reports: &[JobReport], header: &Header) -> String {
    let shown = grouped(reports);
    let global = reports.first().map(|report| options(&report.setup.global)).unwrap_or_default();
    let mut top = Map::new();
    top.insert("fio version".to_owned(), json!("fio-3.33"));
    top.insert("plumb version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    top.insert("timestamp".to_owned(), json!(header.timestamp_ms / 1000));
    top.insert("timestamp_ms".to_owned(), json!(header.timestamp_ms));
    top.insert("time".to_owned(), json!(header.time));
    top.insert("global options".to_owned(), Value::Object(global));
    top.insert(JOBS.to_owned(), Value::Null);
    let rates = GroupRates::of(&shown);
    // Nothing in it can fail: strings and numbers, under keys that are strings.
    let mut text = serde_json::to_string_pretty(&Document { top, jobs: &shown, rates }).unwrap_or_default();
    text.push('\n');
    text
}

/// The key of the jobs.
const JOBS: &str = "jobs";

/// All of it. A job becomes a value only when it is written, since thousands of
/// jobs make a tree several times as large as the text.
struct Document<'a> {
    /// What stands above the jobs, and [`JOBS`] where they go.
    top: Map<String, Value>,
    jobs: &'a [Cow<'a, JobReport>],
    rates: GroupRates,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.top.len()))?;
        for (name, value) in &self.top {
            if name == JOBS {
                map.serialize_entry(name, &Jobs(self))?;
            } else {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

struct Jobs<'a>(&'a Document<'a>);

impl Serialize for Jobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document { jobs, rates, .. } = self.0;
        serializer.collect_seq(jobs.iter().map(|report| job(report, rates)))
    }
}

/// Options as given; the last of one name holds.
fn options(given: &[(String, String)]) -> Map<String, Value> {
    given.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}

fn job(report: &JobReport, rates: &GroupRates) -> Value {
    let mut job = Map::new();
    let mut put = |name: &str, value: Value| job.insert(name.to_owned(), value);
    put("jobname", json!(report.name));
    put("groupid", json!(report.group));
    put("error", json!(errno(report)));
    put("eta", json!(0));
    put("elapsed", json!(report.finished_at.0.div_ceil(1_000_000_000)));
    put("job options", Value::Object(options(&report.setup.options)));
    if let Some(description) = &report.setup.description {
        put("desc", json!(description));
    }
    for (name, figures) in sections(report) {
        put(name, direction(report, &figures, rates.bytes_per_s(report.group, name)));
    }
    let [_, clat, lat] = report.setup.percentiles_of;
    put("sync", json!({"total_ios": report.sync.count(), "lat_ns": times(report, &report.sync, clat || lat)}));
    let (user, system) = cpu_percent(report);
    put("job_runtime", json!(millis(report.finished_at.since(report.started_at).0)));
    put("usr_cpu", json!(user));
    put("sys_cpu", json!(system));
    put("ctx", json!(report.cpu.context_switches));
    put("majf", json!(0));
    put("minf", json!(0));
    put("iodepth_level", shares(["1", "2", "4", "8", "16", "32", ">=64"], &report.depths.in_flight));
    const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];
    put("iodepth_submit", shares(BATCHES, &report.depths.per_submit));
    put("iodepth_complete", shares(BATCHES, &report.depths.per_complete));
    for (name, row) in ["latency_ns", "latency_us", "latency_ms"].into_iter().zip(latency_table(report)) {
        let label = |bound: u64| if bound == u64::MAX { ">=2000".to_owned() } else { bound.to_string() };
        let row: Map<String, Value> =
            LATENCY_BOUNDS.into_iter().map(label).zip(row.into_iter().map(|share| json!(share))).collect();
        put(name, Value::Object(row));
    }
    put("latency_depth", json!(report.setup.depth));
    put("latency_target", json!(0));
    put("latency_percentile", json!(100.0));
    put("latency_window", json!(0));
    put("plumb", own(report));
    Value::Object(job)
}

/// What fio has no key for.
fn own(report: &JobReport) -> Value {
    json!({
        "zone_resets": report.zone_resets(),
        "started_ns": report.started_at.0,
        "measured_from_ns": report.measured_from.0,
        "finished_ns": report.finished_at.0,
        "errors": report.errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "total_errors": report.error_count,
        "verify": report.verify.as_ref().map(|verify| json!({
            "checked": verify.checked,
            "mismatches": verify.mismatches,
            "first": verify.first.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })),
        "shortfall": report.shortfall.as_ref().map(ToString::to_string),
    })
}

fn direction(report: &JobReport, figures: &DirectionReport, group_bytes_per_s: f64) -> Value {
    let [slat, clat, lat] = report.setup.percentiles_of;
    let (bandwidth, iops) = report.samples(figures);
    let bytes_per_s = figures.bytes_per_s();
    let of_group = 100.0 * bandwidth.mean * 1024.0 / group_bytes_per_s;
    let Samples { min: bw_min, max: bw_max, mean: bw_mean, stddev: bw_dev, count: bw_samples } = bandwidth;
    let Samples { min: iops_min, max: iops_max, mean: iops_mean, stddev: iops_stddev, count: iops_samples } = iops;
    json!({
        "io_bytes": figures.bytes,
        "io_kbytes": figures.bytes / 1024,
        "bw_bytes": bytes_per_s as u64,
        "bw": (bytes_per_s / 1024.0) as u64,
        "iops": figures.iops(),
        "runtime": millis(figures.runtime.0),
        "total_ios": figures.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": times(report, &figures.slat, slat),
        "clat_ns": times(report, &figures.clat, clat),
        "lat_ns": times(report, &figures.lat, lat),
        "bw_min": bw_min,
        "bw_max": bw_max,
        "bw_agg": if of_group.is_finite() { of_group.min(100.0) } else { 0.0 },
        "bw_mean": bw_mean,
        "bw_dev": bw_dev,
        "bw_samples": bw_samples,
        "iops_min": iops_min,
        "iops_max": iops_max,
        "iops_mean": iops_mean,
        "iops_stddev": iops_stddev,
        "iops_samples": iops_samples,
    })
}

fn times(report: &JobReport, times: &Histogram, with_bins: bool) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("min", json!(times.min().0));
    put("max", json!(times.max().0));
    put("mean", json!(times.mean_ns()));
    put("stddev", json!(times.stddev_ns()));
    put("N", json!(times.count()));
    if with_bins && !times.is_empty() {
        let list: Map<String, Value> =
            percentiles(report, times).into_iter().map(|(p, value)| (format!("{p:.6}"), json!(value.0))).collect();
        put("percentile", Value::Object(list));
        let bins: Map<String, Value> =
            times.fio_bins().into_iter().map(|(value, count)| (value.to_string(), json!(count))).collect();
        put("bins", Value::Object(bins));
    }
    Value::Object(object)
}

fn shares(names: [&str; 7], counts: &[u64; 7]) -> Value {
    let all = counts.iter().sum();
    let row = names.into_iter().zip(counts).map(|(name, count)| (name.to_owned(), json!(share(*count, all))));
    Value::Object(row.collect())
}

/// Whole milliseconds, and 1 for anything shorter that happened at all.
fn millis(ns: u64) -> u64 {
    (ns / 1_000_000).max(u64::from(ns > 0))
}
