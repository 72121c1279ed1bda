//! fio's JSON, as fio, its zoned fork and Plumb write it.
//!
//! What differs from a clean document, as found in the fork of K. Doekemeijer
//! et al. (artifact of SYSTOR 2024) and its published results:
//! - log lines stand before the first `{`;
//! - `trim` is called `ZNS Reset`;
//! - `write` is called `finish` as soon as any option has the value `0`, so
//!   that either key holds the writes, and only the job's options tell whether
//!   each of them was followed by a finish;
//! - a finish is in no latency: its writes' are there. Its time is run time by
//!   count;
//! - a percentile of 17112760.32 us, the top of fio's bins, was not collected.

use serde_json::{Deserializer, Map, Value};

use super::Operation;

/// What one entry of `jobs` did with one kind of operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Its `jobname`.
    pub job: String,
    /// What it did.
    pub operation: Operation,
    /// Operations done.
    pub ios: u64,
    /// Time that they took in all, in seconds.
    pub runtime_s: f64,
    /// fio's `iops_mean`, the mean of its samples; operations by run time where
    /// fio took no sample.
    pub iops_mean: f64,
    /// `numjobs` and `iodepth` in effect: `4x1`.
    pub load: String,
    /// Total latency.
    pub lat: Times,
    /// Completion latency.
    pub clat: Times,
}

/// A distribution of times, as far as fio printed it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Longest; `None` where nothing was timed.
    pub max_ns: Option<f64>,
    /// (percent, value) as printed, without those not collected.
    percentiles_ns: Vec<(f64, f64)>,
    /// (value, count), ascending: `json+` only.
    bins: Vec<(f64, u64)>,
}

/// Why a text is no fio result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FioJsonProblem {
    /// No object with `jobs`.
    #[error("no fio result in it; run fio with --output-format=json (or json+) and --output=FILE")]
    NoResult,
    /// It begins well and breaks off.
    #[error("its JSON is broken ({0}); was fio interrupted? Run it again")]
    Broken(String),
    /// Jobs without any I/O.
    #[error("none of its jobs did any I/O")]
    Idle,
}

/// What fio prints for a percentile that it did not collect.
const NOT_COLLECTED_NS: f64 = 17_112_760_320.0;

/// Places where a result may begin that are looked at.
const ATTEMPTS: usize = 256;

/// The streams of a result, in its order.
///
/// # Errors
/// When there is no result in `text`.
pub fn parse(text: &[u8]) -> Result<Vec<Stream>, FioJsonProblem> {
    let document = document(text)?;
    let global = options(document.get("global options"));
    let jobs = document.get("jobs").and_then(Value::as_array).ok_or(FioJsonProblem::NoResult)?;
    let streams: Vec<Stream> = jobs.iter().flat_map(|job| streams(job, &global)).collect();
    if streams.is_empty() { Err(FioJsonProblem::Idle) } else { Ok(streams) }
}

/// The first object with `jobs` that begins a line.
fn document(text: &[u8]) -> Result<Map<String, Value>, FioJsonProblem> {
    let begins_line = |at: &usize| {
        let before = text[..*at].iter().rev().find(|byte| !matches!(**byte, b' ' | b'\t'));
        text[*at] == b'{' && before.is_none_or(|byte| matches!(*byte, b'\n' | b'\r'))
    };
    let mut broken = None;
    for at in (0..text.len()).filter(begins_line).take(ATTEMPTS) {
        match Deserializer::from_slice(&text[at..]).into_iter::<Value>().next() {
            Some(Ok(Value::Object(object))) if object.contains_key("jobs") => return Ok(object),
            Some(Err(error)) if broken.is_none() => broken = Some(error.to_string()),
            _ => {}
        }
    }
    Err(broken.map_or(FioJsonProblem::NoResult, FioJsonProblem::Broken))
}

fn options(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

fn streams(job: &Value, global: &Map<String, Value>) -> Vec<Stream> {
    let mut own = global.clone();
    own.extend(options(job.get("job options")));
    let option = |name: &str| own.get(name).and_then(Value::as_str);
    let set = |name: &str| option(name).is_some_and(|value| value != "0");
    let load = format!("{}x{}", option("numjobs").unwrap_or("1"), option("iodepth").unwrap_or("1"));
    let name = job.get("jobname").and_then(Value::as_str).unwrap_or("(no name)");
    let section = |keys: &[&str]| keys.iter().find_map(|key| job.get(*key)).and_then(Value::as_object);
    let writing = if set("finish") {
        Operation::Finish
    } else if set("zone_append") {
        Operation::Append
    } else {
        Operation::Write
    };
    // Both keys: a program that tells the finishes apart, and times them.
    let apart = job.get("write").is_some() && job.get("finish").is_some();
    let write = match (apart, writing) {
        (true, Operation::Finish) => Operation::Write,
        (_, writing) => writing,
    };
    let mut found = vec![
        (Operation::Read, section(&["read"])),
        (write, section(&["write", "finish"])),
        (Operation::Reset, section(&["trim", "ZNS Reset"])),
    ];
    if apart {
        found.push((Operation::Finish, section(&["finish"])));
    }
    found
        .into_iter()
        .filter_map(|(operation, section)| {
            let section = section?;
            let number = |key: &str| section.get(key).and_then(Value::as_f64);
            let ios = section.get("total_ios").and_then(Value::as_u64).filter(|ios| *ios > 0)?;
            let runtime_s = number("runtime").unwrap_or(0.0) / 1e3;
            let over_runtime = if runtime_s > 0.0 { ios as f64 / runtime_s } else { number("iops").unwrap_or(0.0) };
            // The latencies of a finishing job are those of its writes.
            let timed = apart || operation != Operation::Finish;
            let times = |key: &str| if timed { times(section.get(key)) } else { Times::default() };
            Some(Stream {
                job: name.to_owned(),
                operation,
                ios,
                runtime_s,
                iops_mean: number("iops_mean").filter(|mean| *mean > 0.0).unwrap_or(over_runtime),
                load: load.clone(),
                lat: times("lat_ns"),
                clat: times("clat_ns"),
            })
        })
        .collect()
}

fn times(value: Option<&Value>) -> Times {
    let Some(object) = value.and_then(Value::as_object) else { return Times::default() };
    // A slight difference in rounding is no other value.
    let collected = |value: &f64| (value - NOT_COLLECTED_NS).abs() > 1e3;
    let pairs = |key: &str| object.get(key).and_then(Value::as_object).into_iter().flatten();
    let mut percentiles_ns: Vec<(f64, f64)> = pairs("percentile")
        .filter_map(|(percent, value)| Some((percent.parse().ok()?, value.as_f64().filter(collected)?)))
        .collect();
    percentiles_ns.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut bins: Vec<(f64, u64)> =
        pairs("bins").filter_map(|(value, count)| Some((value.parse().ok()?, count.as_u64()?))).collect();
    bins.sort_by(|a, b| a.0.total_cmp(&b.0));
    let max_ns = object.get("max").and_then(Value::as_f64).filter(|max| *max > 0.0 && collected(max));
    Times { max_ns, percentiles_ns, bins }
}

impl Times {
    /// A percentile as printed, or out of the bins; `None` where neither tells.
    pub fn percentile_ns(&self, percent: f64) -> Option<f64> {
        let printed = self.percentiles_ns.iter().find(|(known, _)| (known - percent).abs() < 1e-6);
        printed.map(|(_, value)| *value).or_else(|| {
            let all: u128 = self.bins.iter().map(|(_, count)| u128::from(*count)).sum();
            let wanted = (all as f64 * percent / 100.0).ceil().max(1.0);
            let mut seen = 0u128;
            let reached = |(_, count): &&(f64, u64)| {
                seen += u128::from(*count);
                seen as f64 >= wanted
            };
            self.bins.iter().find(reached).map(|(value, _)| *value)
        })
    }

    /// Several jobs' times as one: only bins can be put together, percentiles not.
    fn pooled<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let max_ns = parts.clone().map(|part| part.max_ns).try_fold(0.0, |max: f64, part| Some(max.max(part?)));
        let mut bins: Vec<(f64, u64)> = Vec::new();
        if parts.clone().all(|part| !part.bins.is_empty()) {
            bins.extend(parts.flat_map(|part| &part.bins));
            bins.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        Self { max_ns, percentiles_ns: Vec::new(), bins }
    }
}

impl Stream {
    /// Operations by run time.
    pub fn ops_per_s(&self) -> f64 {
        if self.runtime_s > 0.0 { self.ios as f64 / self.runtime_s } else { self.iops_mean }
    }

    /// Streams side by side as one: jobs that were not reported as a group.
    pub fn together(parts: &[&Self]) -> Option<Self> {
        let first = *parts.first()?;
        if parts.len() == 1 {
            return Some(first.clone());
        }
        Some(Self {
            job: first.job.clone(),
            operation: first.operation,
            ios: parts.iter().map(|part| part.ios).sum(),
            runtime_s: parts.iter().map(|part| part.runtime_s).fold(0.0, f64::max),
            iops_mean: parts.iter().map(|part| part.iops_mean).sum(),
            load: if first.load.starts_with("1x") {
                first.load.replacen('1', &parts.len().to_string(), 1)
            } else {
                first.load.clone()
            },
            lat: Times::pooled(parts.iter().map(|part| &part.lat)),
            clat: Times::pooled(parts.iter().map(|part| &part.clat)),
        })
    }
}
