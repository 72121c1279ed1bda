//! fio's JSON and JSON+ as measurements: the jobs' own options say what was measured.
//!
//! The file is read as a stream: what stays in memory is a row for each job. Of
//! several results in one file (`--status-interval`) the last one holds.

mod job;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::case::Case;
use super::super::figure::{Figure, Figures};
use super::super::table::{Kind, Row, Table};

/// Why a file is no result of fio's.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No JSON object begins a line.
    #[error("{}: no fio result in it; run fio with --output-format=json+ and --output=FILE", path.display())]
    NoResult {
        /// The file.
        path: PathBuf,
    },
    /// It breaks off, or is something else.
    #[error("{}: it is no whole fio result ({problem}); was fio interrupted? Run it again", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// Jobs of one result that are taken.
const JOBS_MAX: usize = 1 << 16;
/// Entries of one map of a job: fio has some 2,000 bins.
const ENTRIES_MAX: usize = 1 << 14;
/// I/Os below which a job says little.
const IOS_MIN: u64 = 100;

/// The measurements in the file at `path`, a row for each job or group of equal jobs.
///
/// # Errors
/// When it cannot be read or holds no result.
pub fn read(path: &Path) -> Result<Table, FioError> {
    let fail = |source| FioError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::with_capacity(1 << 18, File::open(path).map_err(fail)?);
    if !skip_to_object(&mut reader).map_err(fail)? {
        return Err(FioError::NoResult { path: path.to_owned() });
    }
    let mut last: Option<Document> = None;
    let mut stream = serde_json::Deserializer::from_reader(reader).into_iter::<Document>();
    for document in &mut stream {
        match document {
            Ok(document) => last = Some(document),
            // Text after the last result says nothing; inside one it is missing.
            Err(error) if last.is_some() && !error.is_eof() && !error.is_io() => break,
            Err(error) => return Err(FioError::Broken { path: path.to_owned(), problem: error.to_string() }),
        }
    }
    let Some(Document { global, jobs: Some(jobs) }) = last else {
        return Err(FioError::NoResult { path: path.to_owned() });
    };
    let rows = rows(&global.0, &jobs.0);
    Ok(Table { origin: path.display().to_string(), kind: Kind::Drive, rows })
}

/// Whether a line begins with `{`; log lines before it are left behind.
fn skip_to_object(reader: &mut impl BufRead) -> io::Result<bool> {
    let mut line_start = true;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(false);
        }
        let mut used = 0;
        for byte in buffer {
            if line_start && *byte == b'{' {
                reader.consume(used);
                return Ok(true);
            }
            line_start = *byte == b'\n' || (line_start && matches!(byte, b' ' | b'\t' | b'\r' | 0xef | 0xbb | 0xbf));
            used += 1;
        }
        reader.consume(used);
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "global options", default)]
    global: Options,
    jobs: Option<Jobs>,
}

/// Options as fio prints them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Options(BTreeMap<String, String>);

/// A map's entries that can be read, up to [`ENTRIES_MAX`].
fn entries<'de, D, V>(deserializer: D) -> Result<Vec<(String, V)>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    struct Entries<V>(std::marker::PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
        type Value = Vec<(String, V)>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some(key) = map.next_key::<String>()? {
                if found.len() < ENTRIES_MAX {
                    found.push((key, map.next_value()?));
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    deserializer.deserialize_map(Entries(std::marker::PhantomData))
}

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        Ok(Self(entries(deserializer)?.into_iter().map(|(key, value)| (key, text(value))).collect()))
    }
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    jobname: String,
    #[serde(default)]
    groupid: i64,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: Options,
    #[serde(default)]
    read: Section,
    #[serde(default)]
    write: Section,
    #[serde(default)]
    trim: Section,
}

/// What a job did in one direction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Section {
    total_ios: u64,
    /// Milliseconds.
    runtime: f64,
    iops: f64,
    /// Bytes a second; fio 2 has KiB a second under `bw` alone.
    bw_bytes: Option<f64>,
    bw: f64,
    lat_ns: Times,
    clat_ns: Times,
    /// fio 2: microseconds.
    lat: Times,
    clat: Times,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Times {
    mean: f64,
    percentile: Numbers,
    bins: Numbers,
}

/// Numbers by number, ascending.
#[derive(Clone, Debug, Default)]
struct Numbers(Vec<(f64, f64)>);

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs: Vec<(String, serde_json::Value)> = entries(deserializer)?;
        let mut numbers: Vec<(f64, f64)> =
            pairs.into_iter().filter_map(|(key, value)| Some((key.parse().ok()?, value.as_f64()?))).collect();
        numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(Self(numbers))
    }
}

/// The jobs, equal ones of a group put together as they come.
struct Jobs(Vec<Group>);

/// Jobs that ran side by side as one load.
struct Group {
    name: String,
    group: i64,
    error: i64,
    entries: u32,
    options: Options,
    read: Done,
    write: Done,
    trimmed: bool,
}

/// What came of a direction, over the jobs of a group.
#[derive(Clone, Debug, Default)]
struct Done {
    ios: u64,
    /// Of the longest job, seconds.
    run_s: f64,
    iops: f64,
    bytes_per_s: f64,
    /// Sum over I/Os, so that means weigh right.
    latency_ns: f64,
    percentiles_ns: Vec<(f64, f64)>,
    completion: bool,
    bins: BTreeMap<u64, u64>,
}

impl<'de> Deserialize<'de> for Jobs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Groups;
        impl<'de> Visitor<'de> for Groups {
            type Value = Jobs;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of jobs")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Jobs, A::Error> {
                let mut groups: Vec<Group> = Vec::new();
                while let Some(job) = seq.next_element::<Job>()? {
                    let full = groups.len() >= JOBS_MAX;
                    let same = |group: &&mut Group| {
                        group.group == job.groupid && group.name == job.jobname && group.options == job.options
                    };
                    if let Some(group) = groups.last_mut().filter(same) {
                        group.add(&job);
                    } else if !full {
                        groups.push(Group::of(job));
                    }
                }
                Ok(Jobs(groups))
            }
        }
        deserializer.deserialize_seq(Groups)
    }
}

impl Group {
    fn of(job: Job) -> Self {
        let Job { jobname: name, groupid: group, error, options, read, write, trim } = job;
        let (read, write) = (Done::of(read), Done::of(write));
        Self { name, group, error, entries: 1, options, read, write, trimmed: trim.total_ios > 0 }
    }

    fn add(&mut self, job: &Job) {
        self.entries += 1;
        self.error = if self.error == 0 { job.error } else { self.error };
        self.trimmed |= job.trim.total_ios > 0;
        self.read.add(&Done::of(job.read.clone()));
        self.write.add(&Done::of(job.write.clone()));
    }
}

impl Done {
    fn of(section: Section) -> Self {
        let Section { total_ios: ios, runtime, iops, bw_bytes, bw, lat_ns, clat_ns, lat, clat } = section;
        let whole = [(&lat_ns, 1.0), (&lat, 1e3), (&clat_ns, 1.0), (&clat, 1e3)];
        let mean_ns = whole.iter().find(|(times, _)| times.mean > 0.0).map_or(0.0, |(times, unit)| times.mean * unit);
        let spread = [(&lat_ns, 1.0, false), (&lat, 1e3, false), (&clat_ns, 1.0, true), (&clat, 1e3, true)];
        let has = |times: &Times| !times.percentile.0.is_empty() || !times.bins.0.is_empty();
        let (times, unit, completion) =
            spread.into_iter().find(|(times, _, _)| has(times)).unwrap_or((&lat_ns, 1.0, false));
        Self {
            ios,
            run_s: runtime / 1e3,
            iops,
            bytes_per_s: bw_bytes.unwrap_or(bw * 1024.0),
            latency_ns: mean_ns * ios as f64,
            percentiles_ns: times.percentile.0.iter().map(|(percent, value)| (*percent, value * unit)).collect(),
            completion,
            bins: times.bins.0.iter().map(|(value, count)| ((value * unit) as u64, *count as u64)).collect(),
        }
    }

    fn add(&mut self, other: &Self) {
        let had_bins = !self.bins.is_empty() || self.ios == 0;
        self.ios += other.ios;
        self.run_s = self.run_s.max(other.run_s);
        self.iops += other.iops;
        self.bytes_per_s += other.bytes_per_s;
        self.latency_ns += other.latency_ns;
        // Percentiles of several jobs follow from bins alone.
        self.percentiles_ns.clear();
        if had_bins && !other.bins.is_empty() {
            for (value, count) in &other.bins {
                *self.bins.entry(*value).or_default() += count;
            }
        } else {
            self.bins.clear();
        }
    }

    fn percentile_us(&self, percent: f64) -> Option<f64> {
        let printed = self.percentiles_ns.iter().find(|(known, _)| (known - percent).abs() < 1e-6);
        printed.map(|(_, value)| value / 1e3).or_else(|| {
            let all: u64 = self.bins.values().sum();
            let wanted = (all as f64 * percent / 100.0).ceil().max(1.0) as u64;
            let mut seen = 0;
            let reached = |(_, count): &(&u64, &u64)| {
                seen += **count;
                seen >= wanted
            };
            self.bins.iter().find(reached).map(|(value, _)| *value as f64 / 1e3)
        })
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        let positive = |value: f64| Some(value).filter(|value| value.is_finite() && *value > 0.0);
        figures.put(Figure::Iops, positive(self.iops));
        figures.put(Figure::Bandwidth, positive(self.bytes_per_s / 1e6));
        figures.put(Figure::Mean, positive(self.latency_ns / self.ios.max(1) as f64 / 1e3));
        for (figure, percent) in Figure::PERCENTILES {
            figures.put(figure, self.percentile_us(percent).and_then(positive));
        }
        figures
    }
}

/// fio's other names of options.
const ALIASES: [(&str, &str); 2] = [("readwrite", "rw"), ("blocksize", "bs")];

fn rows(global: &BTreeMap<String, String>, groups: &[Group]) -> Vec<Row> {
    groups
        .iter()
        .enumerate()
        .map(|(index, group)| {
            let mut options: BTreeMap<&str, &str> = BTreeMap::new();
            for (key, value) in global.iter().chain(&group.options.0) {
                let key = ALIASES.iter().find(|(alias, _)| alias == key).map_or(key.as_str(), |(_, name)| *name);
                options.insert(key, value);
            }
            let beside = groups
                .iter()
                .enumerate()
                .find(|(other, job)| *other != index && job.group == group.group && job.read.ios + job.write.ios > 0);
            let case = job::drive(group, &options, beside.map(|(_, job)| job.name.as_str()));
            let done = if group.read.ios >= group.write.ios { &group.read } else { &group.write };
            let label = match &case {
                Ok(drive) => format!("{drive} ({})", group.name),
                Err(_) => group.name.clone(),
            };
            Row::new(index + 1, label, case.map(Case::Drive), done.figures())
        })
        .collect()
}
