//! Metrics by name: what specs, plots and published values refer to.

use std::fmt;
use std::str::FromStr;

use crate::report::Unit;
use crate::results::RunResult;

/// A number that a run yields, named `DIRECTION.STATISTIC` or `counter.NAME`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    name: String,
    source: Source,
}

#[derive(Clone, Debug, PartialEq)]
enum Source {
    Direction { direction: String, statistic: Statistic },
    WriteAmplification,
    Counter(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Iops,
    MibPerS,
    MbPerS,
    MeanUs,
    MaxUs,
    PercentileUs(f64),
}

/// Why a name is not a metric.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{name}` is not a metric; write read|write|trim|sync, a dot, and iops|mib_per_s|mb_per_s|mean_us|max_us|p50_us|p99_us|p99.9_us \
     (such as read.p99_us), or device.write_amplification, or counter.NAME"
)]
pub struct MetricError {
    name: String,
}

impl FromStr for Metric {
    type Err = MetricError;

    fn from_str(name: &str) -> Result<Self, MetricError> {
        let fail = || MetricError { name: name.to_owned() };
        let (head, tail) = name.split_once('.').ok_or_else(fail)?;
        let source = match (head, tail) {
            ("device", "write_amplification") => Source::WriteAmplification,
            ("counter", counter) if !counter.is_empty() => Source::Counter(counter.to_owned()),
            ("read" | "write" | "trim" | "sync", statistic) => {
                let statistic = match statistic {
                    "iops" => Statistic::Iops,
                    "mib_per_s" => Statistic::MibPerS,
                    "mb_per_s" => Statistic::MbPerS,
                    "mean_us" => Statistic::MeanUs,
                    "max_us" => Statistic::MaxUs,
                    other => {
                        let percent = other.strip_prefix('p').and_then(|rest| rest.strip_suffix("_us"));
                        let percent: f64 = percent.and_then(|text| text.parse().ok()).ok_or_else(fail)?;
                        if !(0.0..=100.0).contains(&percent) {
                            return Err(fail());
                        }
                        Statistic::PercentileUs(percent)
                    }
                };
                Source::Direction { direction: head.to_owned(), statistic }
            }
            _ => return Err(fail()),
        };
        Ok(Self { name: name.to_owned(), source })
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
        for direction in ["read", "write", "trim", "sync"] {
            let present = runs.iter().flat_map(|run| &run.jobs).flat_map(|job| &job.directions);
            if present.into_iter().any(|part| part.direction == direction && part.ios > 0) {
                let statistics: &[&str] = match direction {
                    "sync" => &["mean_us", "p99_us"],
                    _ => &["iops", "mib_per_s", "mean_us", "p50_us", "p99_us", "p99.9_us"],
                };
                metrics.extend(statistics.iter().filter_map(|name| format!("{direction}.{name}").parse().ok()));
            }
        }
        metrics
    }

    /// What it counts, and how many of that unit's base units one is: a metric
    /// in microseconds is a time, and one is 1000 ns.
    pub fn unit(&self) -> (Unit, f64) {
        match &self.source {
            Source::Direction { statistic, .. } => match statistic {
                Statistic::Iops => (Unit::Iops, 1.0),
                Statistic::MibPerS => (Unit::Bandwidth, f64::from(1 << 20)),
                Statistic::MbPerS => (Unit::Bandwidth, 1e6),
                Statistic::MeanUs | Statistic::MaxUs | Statistic::PercentileUs(_) => (Unit::Time, 1e3),
            },
            Source::WriteAmplification => (Unit::Factor, 1.0),
            Source::Counter(name) if name.ends_with("_ns") => (Unit::Time, 1.0),
            Source::Counter(name) if name.ends_with("_bytes") => (Unit::Bytes, 1.0),
            Source::Counter(_) => (Unit::Plain, 1.0),
        }
    }

    /// As a reader would say it: `Read p99 latency`.
    pub fn label(&self) -> String {
        match &self.source {
            Source::Direction { direction, statistic } => {
                let what = match statistic {
                    Statistic::Iops => "operations".to_owned(),
                    Statistic::MibPerS | Statistic::MbPerS => "bandwidth".to_owned(),
                    Statistic::MeanUs => "mean latency".to_owned(),
                    Statistic::MaxUs => "longest latency".to_owned(),
                    Statistic::PercentileUs(percent) => format!("p{percent} latency"),
                };
                sentence(&format!("{direction} {what}"))
            }
            Source::WriteAmplification => "Write amplification".to_owned(),
            Source::Counter(name) => sentence(name),
        }
    }

    /// Its value in one run; `None` where the run has no such thing.
    pub fn value(&self, run: &RunResult) -> Option<f64> {
        match &self.source {
            Source::Counter(name) => run.counter(name).map(|value| value as f64),
            Source::WriteAmplification => {
                let host = run.counter("device.host_written_bytes").filter(|bytes| *bytes > 0)?;
                Some(run.counter("device.flash_written_bytes")? as f64 / host as f64)
            }
            Source::Direction { direction, statistic } => {
                let part = run.direction(direction)?;
                Some(match statistic {
                    Statistic::Iops => part.iops(),
                    Statistic::MibPerS => part.bytes_per_s() / f64::from(1 << 20),
                    Statistic::MbPerS => part.bytes_per_s() / 1e6,
                    Statistic::MeanUs => part.lat.mean_ns / 1e3,
                    Statistic::MaxUs => part.lat.max_ns as f64 / 1e3,
                    Statistic::PercentileUs(percent) => part.lat.percentile_ns(*percent) as f64 / 1e3,
                })
            }
        }
    }
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
        for good in ["read.iops", "sync.p99.9_us", "device.write_amplification", "counter.block.merges"] {
            assert_eq!(good.parse::<Metric>().unwrap().to_string(), good);
        }
        for bad in ["iops", "read.", "read.p101_us", "read.pxx_us", "counter.", "erase.iops"] {
            assert!(bad.parse::<Metric>().is_err(), "{bad} was accepted");
        }
    }
}
