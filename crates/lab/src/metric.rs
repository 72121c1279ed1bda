//! Metrics by name: what specs, plots and published values refer to.

use std::fmt;
use std::str::FromStr;

use crate::commands::CLASSES;
use crate::results::{CommandClass, DirectionResult, RunResult};
use crate::value::Unit;

/// A number that a run yields, named `WHAT.STATISTIC` or `counter.NAME`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    name: String,
    source: Source,
}

#[derive(Clone, Debug, PartialEq)]
enum Source {
    Work { work: Work, statistic: Statistic },
    WriteAmplification,
    CoresBusy,
    Counter(String),
    Program(String),
    Command { class: String, statistic: Statistic },
}

/// A part of what a run's jobs did: `write`, `job.NAME` or `job.NAME.write`.
///
/// A name that ends in `*` stands for every job that begins so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    job: Option<String>,
    /// One of `DIRECTIONS`.
    direction: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Count,
    Iops,
    IopsMean,
    MibPerS,
    MbPerS,
    MeanUs,
    MaxUs,
    PercentileUs(f64),
}

/// Directions by the names that specs may use, and by those of the results: an
/// append is a write, and a zone is reset by a trim or before it is written again.
const DIRECTIONS: [(&str, &[&str]); 8] = [
    ("read", &["read"]),
    ("write", &["write"]),
    ("append", &["write"]),
    ("trim", &["trim"]),
    ("reset", &["trim", "reset"]),
    ("finish", &["finish"]),
    ("management", &["trim", "reset", "finish"]),
    ("sync", &["sync"]),
];

/// Why a name is not a metric.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{name}` is not a metric; write read|write|append|trim|reset|finish|management|sync, or job.NAME, or job.NAME.write, a dot, and \
     iops|iops_mean|count|mib_per_s|mb_per_s|mean_us|max_us|p50_us|p99_us|p99.9_us (such as read.p99_us), or \
     device.write_amplification, or cpu.cores_busy, or counter.NAME, or program.NAME, or command.CLASS.count|mean_us|max_us|p50_us|... \
     (such as command.write_fua.mean_us, with run.commands = true)"
)]
pub struct MetricError {
    name: String,
}

impl MetricError {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// The name that means nothing.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for Metric {
    type Err = MetricError;

    fn from_str(name: &str) -> Result<Self, MetricError> {
        let source = match name {
            "device.write_amplification" => Some(Source::WriteAmplification),
            "cpu.cores_busy" => Some(Source::CoresBusy),
            _ => match (name.strip_prefix("counter."), name.strip_prefix("command.")) {
                _ if name.starts_with("program.") => name
                    .strip_prefix("program.")
                    .filter(|name| !name.is_empty())
                    .map(|name| Source::Program(name.to_owned())),
                (Some(counter), _) => (!counter.is_empty()).then(|| Source::Counter(counter.to_owned())),
                (_, Some(rest)) => command_statistic(rest),
                (None, None) => work_statistic(name),
            },
        };
        let source = source.ok_or_else(|| MetricError::new(name))?;
        Ok(Self { name: name.to_owned(), source })
    }
}

/// `WORK.STATISTIC`; a percentile's name may hold a dot of its own.
fn work_statistic(name: &str) -> Option<Source> {
    name.rmatch_indices('.').find_map(|(at, _)| {
        let statistic = Statistic::named(&name[at + 1..])?;
        Some(Source::Work { work: name[..at].parse().ok()?, statistic })
    })
}

/// `CLASS.STATISTIC`, of statistics that commands have.
fn command_statistic(name: &str) -> Option<Source> {
    let (class, statistic) = name.split_once('.')?;
    let statistic = Statistic::named(statistic)?;
    let known =
        matches!(statistic, Statistic::Count | Statistic::MeanUs | Statistic::MaxUs | Statistic::PercentileUs(_));
    let named = CLASSES.contains(&class);
    (known && named).then(|| Source::Command { class: class.to_owned(), statistic })
}

impl FromStr for Work {
    type Err = MetricError;

    fn from_str(text: &str) -> Result<Self, MetricError> {
        let direction =
            |name: &str| DIRECTIONS.iter().find(|(known, _)| *known == name).map(|(known, _)| (*known).to_owned());
        let Some(rest) = text.strip_prefix("job.") else {
            let direction = direction(text).ok_or_else(|| MetricError::new(text))?;
            return Ok(Self { job: None, direction: Some(direction) });
        };
        let (job, direction) = match rest.rsplit_once('.').and_then(|(job, name)| Some((job, direction(name)?))) {
            Some((job, direction)) => (job, Some(direction)),
            None => (rest, None),
        };
        if job.is_empty() {
            return Err(MetricError::new(text));
        }
        Ok(Self { job: Some(job.to_owned()), direction })
    }
}

impl Work {
    /// All of it in one run; `None` where the run has no such thing.
    pub fn of(&self, run: &RunResult) -> Option<DirectionResult> {
        let ours = |job: &str| match self.job.as_deref() {
            None => true,
            Some(name) => name.strip_suffix('*').map_or(job == name, |start| job.starts_with(start)),
        };
        let named = self.direction.as_deref();
        let (_, wanted) = DIRECTIONS.iter().find(|(known, _)| Some(*known) == named).copied().unwrap_or_default();
        let parts = run
            .jobs
            .iter()
            .filter(|job| ours(&job.name))
            .flat_map(|job| &job.directions)
            .filter(|part| named.is_none() || wanted.contains(&part.direction.as_str()));
        DirectionResult::together(parts)
    }

    fn words(&self) -> String {
        let direction = self.direction.as_deref().unwrap_or_default();
        match &self.job {
            None => direction.to_owned(),
            Some(job) => format!("{} {direction}", job.trim_end_matches(['*', '-'])).trim().to_owned(),
        }
    }
}

impl Statistic {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "iops" => Self::Iops,
            "iops_mean" => Self::IopsMean,
            "mib_per_s" => Self::MibPerS,
            "mb_per_s" => Self::MbPerS,
            "mean_us" => Self::MeanUs,
            "max_us" => Self::MaxUs,
            other => {
                let percent: f64 = other.strip_prefix('p')?.strip_suffix("_us")?.parse().ok()?;
                (0.0..=100.0).contains(&percent).then_some(Self::PercentileUs(percent))?
            }
        })
    }

    fn of_command(self, class: &CommandClass) -> f64 {
        let latency = &class.latency;
        match self {
            Self::MeanUs => latency.mean_ns / 1e3,
            Self::MaxUs => latency.max_ns as f64 / 1e3,
            Self::PercentileUs(percent) => latency.percentile_ns(percent) as f64 / 1e3,
            // The others are no metrics of commands.
            Self::Count | Self::Iops | Self::IopsMean | Self::MibPerS | Self::MbPerS => latency.count as f64,
        }
    }

    fn of(self, part: &DirectionResult) -> f64 {
        match self {
            Self::Count => part.ios as f64,
            Self::Iops => part.iops(),
            Self::IopsMean => part.iops_mean,
            Self::MibPerS => part.bytes_per_s() / f64::from(1 << 20),
            Self::MbPerS => part.bytes_per_s() / 1e6,
            Self::MeanUs => part.lat.mean_ns / 1e3,
            Self::MaxUs => part.lat.max_ns as f64 / 1e3,
            Self::PercentileUs(percent) => part.lat.percentile_ns(percent) as f64 / 1e3,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl Metric {
    /// The metrics that apply to `runs`, most looked-at first.
    pub fn defaults(runs: &[RunResult]) -> Vec<Self> {
        let mut metrics = Vec::new();
        for direction in directions(runs) {
            let statistics: &[&str] = match direction {
                "sync" => &["mean_us", "p99_us"],
                "finish" => &["iops", "mean_us", "p50_us", "p99_us"],
                _ => &["iops", "mib_per_s", "mean_us", "p50_us", "p99_us", "p99.9_us"],
            };
            metrics.extend(statistics.iter().filter_map(|name| format!("{direction}.{name}").parse().ok()));
        }
        for (name, _) in runs.iter().flat_map(|run| &run.values) {
            let metric = Self { name: format!("program.{name}"), source: Source::Program(name.clone()) };
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
        metrics
    }

    /// What it counts, and how many of that unit's base units one is: a metric
    /// in microseconds is a time, and one is 1000 ns.
    pub fn unit(&self) -> (Unit, f64) {
        match &self.source {
            Source::Work { statistic, .. } | Source::Command { statistic, .. } => match statistic {
                Statistic::Count => (Unit::Plain, 1.0),
                Statistic::Iops | Statistic::IopsMean => (Unit::Iops, 1.0),
                Statistic::MibPerS => (Unit::Bandwidth, f64::from(1 << 20)),
                Statistic::MbPerS => (Unit::Bandwidth, 1e6),
                Statistic::MeanUs | Statistic::MaxUs | Statistic::PercentileUs(_) => (Unit::Time, 1e3),
            },
            Source::WriteAmplification => (Unit::Factor, 1.0),
            Source::CoresBusy => (Unit::Plain, 1.0),
            Source::Program(name) => program_unit(name),
            Source::Counter(name) if name.ends_with("_ns") => (Unit::Time, 1.0),
            Source::Counter(name) if name.ends_with("_bytes") => (Unit::Bytes, 1.0),
            Source::Counter(_) => (Unit::Plain, 1.0),
        }
    }

    /// As a reader would say it: `Read p99 latency`.
    pub fn label(&self) -> String {
        match &self.source {
            Source::Work { work, statistic } => {
                let what = match statistic {
                    Statistic::Count => "operations in all".to_owned(),
                    Statistic::Iops | Statistic::IopsMean => "operations".to_owned(),
                    Statistic::MibPerS | Statistic::MbPerS => "bandwidth".to_owned(),
                    Statistic::MeanUs => "mean latency".to_owned(),
                    Statistic::MaxUs => "longest latency".to_owned(),
                    Statistic::PercentileUs(percent) => format!("p{percent} latency"),
                };
                sentence(&format!("{} {what}", work.words()))
            }
            Source::Command { class, statistic } => {
                let what = match statistic {
                    Statistic::MeanUs => "mean latency at the device".to_owned(),
                    Statistic::MaxUs => "longest latency at the device".to_owned(),
                    Statistic::PercentileUs(percent) => format!("p{percent} latency at the device"),
                    _ => "commands".to_owned(),
                };
                sentence(&format!("{class} {what}"))
            }
            Source::WriteAmplification => "Write amplification".to_owned(),
            Source::CoresBusy => "Processor cores busy".to_owned(),
            Source::Counter(name) | Source::Program(name) => sentence(name),
        }
    }

    /// Its value in one run; `None` where the run has no such thing.
    pub fn value(&self, run: &RunResult) -> Option<f64> {
        match &self.source {
            Source::Counter(name) => run.counter(name).map(|value| value as f64),
            Source::Program(name) => run.values.iter().find(|(known, _)| known == name).map(|(_, value)| *value),
            Source::WriteAmplification => {
                let host = run.counter("device.host_written_bytes").filter(|bytes| *bytes > 0)?;
                Some(run.counter("device.flash_written_bytes")? as f64 / host as f64)
            }
            Source::CoresBusy => {
                let busy = run
                    .counters
                    .iter()
                    .filter(|(name, _)| name.strip_prefix("cpu.core").is_some_and(|rest| rest.ends_with("_busy_ns")));
                let busy_ns: u64 = busy.map(|(_, value)| value).sum();
                (run.elapsed_ns > 0).then(|| busy_ns as f64 / run.elapsed_ns as f64)
            }
            Source::Work { work, statistic } => Some(statistic.of(&work.of(run)?)),
            Source::Command { class, statistic } => {
                let class = run.commands.iter().find(|known| known.class == *class)?;
                Some(statistic.of_command(class))
            }
        }
    }
}

/// A program's metric has the unit that its name ends in.
fn program_unit(name: &str) -> (Unit, f64) {
    const UNITS: [(&str, Unit, f64); 8] = [
        ("_mib_per_s", Unit::Bandwidth, 1_048_576.0),
        ("_mb_per_s", Unit::Bandwidth, 1e6),
        ("_iops", Unit::Iops, 1.0),
        ("_ms", Unit::Time, 1e6),
        ("_us", Unit::Time, 1e3),
        ("_ns", Unit::Time, 1.0),
        ("_per_s", Unit::Plain, 1.0),
        ("_s", Unit::Time, 1e9),
    ];
    let found = UNITS.iter().find(|(end, ..)| name.ends_with(end)).map(|(_, unit, factor)| (unit.clone(), *factor));
    found.unwrap_or(if name.ends_with("_bytes") { (Unit::Bytes, 1.0) } else { (Unit::Plain, 1.0) })
}

/// The directions in which `runs` did I/O, most looked-at first.
pub(crate) fn directions(runs: &[RunResult]) -> Vec<&'static str> {
    let parts = || runs.iter().flat_map(|run| &run.jobs).flat_map(|job| &job.directions);
    let did = |direction: &&str| parts().any(|part| part.direction == *direction && part.ios > 0);
    ["read", "write", "trim", "reset", "finish", "sync"].into_iter().filter(did).collect()
}

/// A name in code as a reader would say it: `gc_moved` is `Gc moved`.
pub(crate) fn sentence(name: &str) -> String {
    let mut text = name.replace(['_', '.'], " ");
    if let Some(first) = text.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in [
            "read.iops",
            "sync.p99.9_us",
            "device.write_amplification",
            "counter.block.merges",
            "program.elapsed_s",
            "finish.mean_us",
            "job.victim.iops",
            "job.victim-*.p99.9_us",
            "job.a.b.reset.iops_mean",
            "cpu.cores_busy",
            "command.write_fua.mean_us",
            "command.zone_reset.p99.9_us",
        ] {
            assert_eq!(good.parse::<Metric>().unwrap().to_string(), good);
        }
        for bad in [
            "iops",
            "read.",
            "read.p101_us",
            "read.pxx_us",
            "counter.",
            "erase.iops",
            "job..iops",
            "job.iops",
            "cpu.x",
            "command.sync.count",
            "command.read.iops",
        ] {
            assert!(bad.parse::<Metric>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn jobs_by_name_and_direction() {
        let work = |job: Option<&str>, direction: Option<&str>| Work {
            job: job.map(str::to_owned),
            direction: direction.map(str::to_owned),
        };
        for (text, want) in [
            ("reset", work(None, Some("reset"))),
            ("append", work(None, Some("append"))),
            ("job.a", work(Some("a"), None)),
            ("job.a.b", work(Some("a.b"), None)),
            ("job.a.reset", work(Some("a"), Some("reset"))),
            ("job.a*.read", work(Some("a*"), Some("read"))),
        ] {
            assert_eq!(text.parse::<Work>().unwrap(), want);
        }
    }
}
