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

    /// Its unit, for axes and headings.
    pub fn unit(&self) -> Unit {
        match &self.source {
            Source::Direction { statistic, .. } => match statistic {
                Statistic::Iops => Unit::Iops,
                Statistic::MibPerS => Unit::Named("MiB/s".to_owned()),
                Statistic::MbPerS => Unit::Named("MB/s".to_owned()),
                Statistic::MeanUs | Statistic::MaxUs | Statistic::PercentileUs(_) => Unit::Named("us".to_owned()),
            },
            Source::WriteAmplification => Unit::Factor,
            Source::Counter(_) => Unit::Plain,
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
