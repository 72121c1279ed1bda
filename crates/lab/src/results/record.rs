//! One finished run, complete: everything tables, plots and reports are made from.

use serde::{Deserialize, Serialize};
use stats::{Histogram, PackedBins};

/// A finished run of one point under one seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Names this result: hash of spec, inputs, seed and version.
    pub key: String,
    /// The point's place in the sweep.
    pub point: usize,
    /// Which repeat.
    pub repeat: u32,
    /// The seed it ran under.
    pub seed: u64,
    /// Swept keys and their values, as text.
    pub parameters: Vec<(String, String)>,
    /// What the device calls itself.
    pub device_model: String,
    /// Virtual time the run took.
    pub elapsed_ns: u64,
    /// One for each job, or group of jobs under `group_reporting`.
    pub jobs: Vec<JobResult>,
    /// Counters of the device (`device.*`), the block layer (`block.*`) and the
    /// processors (`cpu.*`), in a fixed order. Names end in their unit.
    pub counters: Vec<(String, u64)>,
    /// What a program's output said of itself, by the names of the spec, and how long it ran (`elapsed_s`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, f64)>,
    /// The commands that the device got, by class, where the spec asks for them
    /// (`run.commands`).
    #[serde(default)]
    pub commands: Vec<CommandClass>,
    /// Requests that were asked for and not served, and errors: one line each.
    /// Empty on a run that did what was asked.
    pub failures: Vec<String>,
    /// What changes the meaning of the numbers: one line each, its kind before
    /// the first colon.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// What the reader should know: one line each.
    pub notes: Vec<String>,
    /// What fio would have printed.
    pub text: String,
    /// fio's json+ output, for fio jobs.
    pub fio_json: Option<String>,
    /// The paths of a few requests through the stack.
    pub stories: Vec<StoryRecord>,
}

/// Commands of one class as the device saw them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandClass {
    /// An opcode's name in a command log, such as `write`; with FUA set
    /// `write_fua`; of a zone's management the action, such as `zone_reset`.
    pub class: String,
    /// Logical blocks in all.
    pub blocks: u64,
    /// Time in the device.
    pub latency: Latency,
}

/// The path of one request through the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoryRecord {
    /// Which request, and why this one.
    pub title: String,
    /// Its spans.
    pub path: trace::Path,
}

/// What one job did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// Its name.
    pub name: String,
    /// Its directions, those without I/O left out: `read`, `write`, `trim`, `reset`, `finish`,
    /// `sync`.
    pub directions: Vec<DirectionResult>,
}

/// What one job did in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// `read`, `write`, `trim`, `reset` (of a zone before it is written again),
    /// `finish` or `sync`.
    pub direction: String,
    /// Requests completed.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Time the direction ran.
    pub runtime_ns: u64,
    /// fio's `iops_mean`: the mean of its samples, empty ones left out.
    pub iops_mean: f64,
    /// Submission latency; absent where the engine has none.
    pub slat: Option<Latency>,
    /// Completion latency.
    pub clat: Option<Latency>,
    /// Total latency.
    pub lat: Latency,
    /// Throughput over time.
    pub series: Series,
}

/// What completed over time, by intervals.
///
/// Interval `i` covers the run's clock from `(first + i) * interval_ns` on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of an interval.
    pub interval_ns: u64,
    /// Number of the first interval kept.
    pub first: u64,
    /// Bytes completed in each.
    pub bytes: Vec<u64>,
    /// Requests completed in each.
    pub ios: Vec<u64>,
    /// Sum of their latencies in each.
    #[serde(default)]
    pub lat_sum_ns: Vec<u64>,
    /// The longest of their latencies in each.
    #[serde(default)]
    pub lat_max_ns: Vec<u64>,
}

/// What completed in one interval of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Where it begins on the run's clock.
    pub start_ns: u64,
    /// Bytes completed.
    pub bytes: u64,
    /// Requests completed.
    pub ios: u64,
    /// Mean of their latencies; none without a request, or where it was not kept.
    pub lat_mean_ns: Option<f64>,
    /// The longest of their latencies.
    pub lat_max_ns: Option<u64>,
}

/// A latency distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Requests.
    pub count: u64,
    /// Exact mean.
    pub mean_ns: f64,
    /// Exact standard deviation.
    pub stddev_ns: f64,
    /// Smallest.
    pub min_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// How many took how long.
    pub bins: PackedBins,
}

impl From<&Histogram> for Latency {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            mean_ns: histogram.mean_ns(),
            stddev_ns: histogram.stddev_ns(),
            min_ns: histogram.min().0,
            max_ns: histogram.max().0,
            bins: histogram.bins().map(|bin| (bin.high.0, bin.count)).collect(),
        }
    }
}

impl Latency {
    /// The latency that `percent` of the requests do not exceed; 0 without requests.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let wanted = ((self.count as f64 * percent / 100.0).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (value, count) in self.bins.iter() {
            seen += count;
            if seen >= wanted {
                return value.min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// One distribution out of several.
    pub fn merged<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut bins = std::collections::BTreeMap::new();
        let (mut count, mut sum, mut squares) = (0, 0.0, 0.0);
        let (mut min_ns, mut max_ns) = (u64::MAX, 0);
        for part in parts.into_iter().filter(|part| part.count > 0) {
            let n = part.count as f64;
            count += part.count;
            sum += part.mean_ns * n;
            squares += (part.stddev_ns * part.stddev_ns + part.mean_ns * part.mean_ns) * n;
            min_ns = min_ns.min(part.min_ns);
            max_ns = max_ns.max(part.max_ns);
            for (value, times) in part.bins.iter() {
                *bins.entry(value).or_insert(0) += times;
            }
        }
        if count == 0 {
            return Self::default();
        }
        let mean_ns = sum / count as f64;
        let variance = (squares / count as f64 - mean_ns * mean_ns).max(0.0);
        Self { count, mean_ns, stddev_ns: variance.sqrt(), min_ns, max_ns, bins: bins.into_iter().collect() }
    }
}

impl DirectionResult {
    /// Requests a second.
    pub fn iops(&self) -> f64 {
        rate(self.ios, self.runtime_ns)
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        rate(self.bytes, self.runtime_ns)
    }

    /// Several jobs' work taken together, under the first one's direction;
    /// `None` without any.
    pub fn together<'a>(parts: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let parts: Vec<_> = parts.collect();
        let first = parts.first()?;
        if parts.len() == 1 {
            return Some((*first).clone());
        }
        Some(Self {
            direction: first.direction.clone(),
            ios: parts.iter().map(|part| part.ios).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            // Jobs of a group run side by side: the group lasts as long as its longest.
            runtime_ns: parts.iter().map(|part| part.runtime_ns).max().unwrap_or(0),
            iops_mean: parts.iter().map(|part| part.iops_mean).sum(),
            slat: merged_option(parts.iter().map(|part| part.slat.as_ref())),
            clat: merged_option(parts.iter().map(|part| part.clat.as_ref())),
            lat: Latency::merged(parts.iter().map(|part| &part.lat)),
            series: Series::summed(parts.iter().map(|part| &part.series)),
        })
    }
}

fn rate(amount: u64, runtime_ns: u64) -> f64 {
    if runtime_ns == 0 { 0.0 } else { amount as f64 * 1e9 / runtime_ns as f64 }
}

impl RunResult {
    /// What is kept: points of the same settings share a run, so where it
    /// stands in a sweep is none of its own.
    pub(super) fn bare(self) -> Self {
        Self { point: 0, repeat: 0, parameters: Vec::new(), ..self }
    }

    /// What a report needs of it: texts for people and other programs are left
    /// out, stories and time series where they are not shown.
    pub(crate) fn for_report(self, with_stories: bool, with_series: bool) -> Self {
        let lean = |part: DirectionResult| DirectionResult {
            slat: None,
            clat: None,
            series: if with_series { part.series } else { Series::default() },
            ..part
        };
        let jobs = self
            .jobs
            .into_iter()
            .map(|job| JobResult { name: job.name, directions: job.directions.into_iter().map(lean).collect() });
        Self {
            jobs: jobs.collect(),
            text: String::new(),
            fio_json: None,
            stories: if with_stories { self.stories } else { Vec::new() },
            ..self
        }
    }

    /// A counter's value; `None` where the device has no such counter.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(counter, _)| counter == name).map(|(_, value)| *value)
    }

    /// All jobs' work in one direction taken together.
    pub fn direction(&self, direction: &str) -> Option<DirectionResult> {
        DirectionResult::together(
            self.jobs.iter().flat_map(|job| &job.directions).filter(|part| part.direction == direction),
        )
    }
}

fn merged_option<'a>(parts: impl Iterator<Item = Option<&'a Latency>>) -> Option<Latency> {
    let parts: Vec<_> = parts.flatten().collect();
    (!parts.is_empty()).then(|| Latency::merged(parts))
}

impl Series {
    /// The intervals in order.
    pub fn intervals(&self) -> impl ExactSizeIterator<Item = Interval> {
        self.ios.iter().enumerate().map(|(index, ios)| {
            let of = |values: &[u64]| values.get(index).copied().filter(|_| *ios > 0);
            Interval {
                start_ns: (self.first + index as u64) * self.interval_ns,
                bytes: self.bytes.get(index).copied().unwrap_or(0),
                ios: *ios,
                lat_mean_ns: of(&self.lat_sum_ns).map(|sum| sum as f64 / *ios as f64),
                lat_max_ns: of(&self.lat_max_ns),
            }
        })
    }

    /// Adds series up, on the coarsest of their intervals (each is a multiple
    /// of the finer ones: intervals only ever double).
    fn summed<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let parts = parts.filter(|part| part.interval_ns > 0);
        let interval_ns = parts.clone().map(|part| part.interval_ns).max().unwrap_or(0);
        let at = |part: &Self, index: usize| (part.first + index as u64) * part.interval_ns / interval_ns;
        let first = parts.clone().map(|part| at(part, 0)).min().unwrap_or(0);
        let mut sum = Self { interval_ns, first, ..Self::default() };
        // Records of earlier versions lack latencies, and a sum of some is none.
        let whole = parts.clone().all(|part| part.lat_sum_ns.len() == part.ios.len());
        for part in parts {
            for (index, (bytes, ios)) in part.bytes.iter().zip(&part.ios).enumerate() {
                let slot = (at(part, index) - first) as usize;
                if sum.bytes.len() <= slot {
                    for values in [&mut sum.bytes, &mut sum.ios, &mut sum.lat_sum_ns, &mut sum.lat_max_ns] {
                        values.resize(slot + 1, 0);
                    }
                }
                let of = |values: &[u64]| values.get(index).copied().unwrap_or(0);
                sum.bytes[slot] += bytes;
                sum.ios[slot] += ios;
                sum.lat_sum_ns[slot] = sum.lat_sum_ns[slot].saturating_add(of(&part.lat_sum_ns));
                sum.lat_max_ns[slot] = sum.lat_max_ns[slot].max(of(&part.lat_max_ns));
            }
        }
        if !whole {
            (sum.lat_sum_ns, sum.lat_max_ns) = (Vec::new(), Vec::new());
        }
        sum
    }
}

/// The runs of a point among `runs`, which are in the sweep's order.
pub(crate) fn repeats_of(runs: &[RunResult], point: usize) -> &[RunResult] {
    let from = runs.partition_point(|run| run.point < point);
    let count = runs[from..].partition_point(|run| run.point == point);
    &runs[from..from + count]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(values: &[u64]) -> Latency {
        let n = values.len() as f64;
        let mean_ns = values.iter().sum::<u64>() as f64 / n;
        let variance = values.iter().map(|v| (*v as f64 - mean_ns).powi(2)).sum::<f64>() / n;
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        Latency {
            count: values.len() as u64,
            mean_ns,
            stddev_ns: variance.sqrt(),
            min_ns: sorted[0],
            max_ns: sorted[values.len() - 1],
            bins: sorted.iter().map(|v| (*v, 1)).collect(),
        }
    }

    #[test]
    fn merging_equals_pooling() {
        let merged = Latency::merged([&latency(&[1, 5, 9]), &Latency::default(), &latency(&[2, 100])]);
        let pooled = latency(&[1, 5, 9, 2, 100]);
        assert_eq!((merged.count, merged.min_ns, merged.max_ns), (5, 1, 100));
        assert!((merged.mean_ns - pooled.mean_ns).abs() < 1e-9);
        assert!((merged.stddev_ns - pooled.stddev_ns).abs() < 1e-9);
        assert_eq!(merged.bins, pooled.bins);
    }

    #[test]
    fn percentiles_by_rank() {
        let latency = latency(&(1..=100).collect::<Vec<_>>());
        for (percent, want) in [(0.0, 1), (1.0, 1), (50.0, 50), (99.0, 99), (99.9, 100), (100.0, 100)] {
            assert_eq!(latency.percentile_ns(percent), want, "p{percent}");
        }
        assert_eq!(Latency::default().percentile_ns(50.0), 0);
    }

    #[test]
    fn series_line_up() {
        let series = |interval_ns, first, bytes: &[u64], ios: &[u64], sums: &[u64], longest: &[u64]| Series {
            interval_ns,
            first,
            bytes: bytes.to_vec(),
            ios: ios.to_vec(),
            lat_sum_ns: sums.to_vec(),
            lat_max_ns: longest.to_vec(),
        };
        let fine = series(10, 3, &[1, 2, 4], &[1, 1, 1], &[5, 6, 7], &[5, 6, 7]);
        let coarse = series(20, 2, &[8], &[1], &[100], &[100]);
        let sum = Series::summed([&fine, &Series::default(), &coarse].into_iter());
        assert_eq!(sum, series(20, 1, &[1, 14], &[1, 3], &[5, 113], &[5, 100]));
        let second = sum.intervals().nth(1).unwrap();
        assert_eq!((second.start_ns, second.ios, second.lat_max_ns), (40, 3, Some(100)));
        assert!((second.lat_mean_ns.unwrap() - 113.0 / 3.0).abs() < 1e-9);
    }
}
