//! One finished run, complete: everything tables, plots and reports are made from.

use serde::{Deserialize, Serialize};

/// A finished run of one point under one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The commands that the device got, by class, where the spec asks for them
    /// (`run.commands`).
    #[serde(default)]
    pub commands: Vec<CommandClass>,
    /// Requests that were asked for and not served, and errors: one line each.
    /// Empty on a run that did what was asked.
    pub failures: Vec<String>,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// Its name.
    pub name: String,
    /// Its directions, those without I/O left out: `read`, `write`, `trim`, `reset`, `finish`,
    /// `sync`.
    pub directions: Vec<DirectionResult>,
}

/// What one job did in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// Throughput over time: bytes and requests in each interval.
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
    /// Ascending (upper end of bin, count), empty bins left out.
    pub bins: Vec<(u64, u64)>,
}

impl Latency {
    /// The latency that `percent` of the requests do not exceed; 0 without requests.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let wanted = ((self.count as f64 * percent / 100.0).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (value, count) in &self.bins {
            seen += count;
            if seen >= wanted {
                return (*value).min(self.max_ns);
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
            for (value, times) in &part.bins {
                *bins.entry(*value).or_insert(0) += times;
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
    /// Adds series up, on the coarsest of their intervals (each is a multiple
    /// of the finer ones: intervals only ever double).
    fn summed<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let parts = parts.filter(|part| part.interval_ns > 0);
        let interval_ns = parts.clone().map(|part| part.interval_ns).max().unwrap_or(0);
        let at = |part: &Self, index: usize| (part.first + index as u64) * part.interval_ns / interval_ns;
        let first = parts.clone().map(|part| at(part, 0)).min().unwrap_or(0);
        let mut sum = Self { interval_ns, first, ..Self::default() };
        for part in parts {
            for (index, (bytes, ios)) in part.bytes.iter().zip(&part.ios).enumerate() {
                let slot = (at(part, index) - first) as usize;
                if sum.bytes.len() <= slot {
                    sum.bytes.resize(slot + 1, 0);
                    sum.ios.resize(slot + 1, 0);
                }
                sum.bytes[slot] += bytes;
                sum.ios[slot] += ios;
            }
        }
        sum
    }
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
        let fine = Series { interval_ns: 10, first: 3, bytes: vec![1, 2, 4], ios: vec![1, 1, 1] };
        let coarse = Series { interval_ns: 20, first: 2, bytes: vec![8], ios: vec![1] };
        let sum = Series::summed([&fine, &Series::default(), &coarse].into_iter());
        assert_eq!(sum, Series { interval_ns: 20, first: 1, bytes: vec![1, 14], ios: vec![1, 3] });
    }
}
