//! Bandwidth and IOPS as fio samples them.

use units::Nanos;

use super::{DirectionReport, JobReport};

/// Statistics over the windows of a run, of bandwidth in KiB/s or of IOPS.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Samples {
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// Their mean: fio's `iops_mean` or `bw_mean`.
    pub mean: f64,
    /// Their standard deviation.
    pub stddev: f64,
    /// How many there are.
    pub count: u64,
}

impl Samples {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as u64;
        if count == 0 {
            return Self::default();
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let fold = |start: f64, pick: fn(f64, f64) -> f64| values.iter().copied().fold(start, pick);
        Self {
            min: fold(f64::INFINITY, f64::min) as u64,
            max: fold(0.0, f64::max) as u64,
            mean,
            stddev: if count < 2 { 0.0 } else { (squares / (count - 1) as f64).sqrt() },
            count,
        }
    }
}

/// fio's `bwavgtime`: the window over which it samples bandwidth and IOPS.
const WINDOW: Nanos = Nanos::from_millis(500);

impl JobReport {
    /// Bandwidth in KiB/s and IOPS of one of the report's parts, over whole
    /// windows of the measured time: fio's 500 ms, or a tenth of a run that is
    /// shorter than ten of those.
    ///
    /// A window in which nothing completed gives no sample (fio stat.c,
    /// `__add_samples`), so slow operations look faster than they are: a stream
    /// of one finish per second has an IOPS mean of 2.
    pub fn samples(&self, figures: &DirectionReport) -> (Samples, Samples) {
        let interval = figures.series.interval();
        let window = WINDOW.min(self.runtime() / 10);
        let per_window = window.0.div_ceil(interval.0).max(1);
        let first = self.measured_from.0.div_ceil(interval.0);
        let windows = (self.finished_at.0 / interval.0).saturating_sub(first) / per_window;
        let mut sums = vec![(0_u64, 0_u64); windows as usize];
        for (start, value) in figures.series.iter() {
            let index = (start.0 / interval.0).checked_sub(first).map(|index| index / per_window);
            if let Some(sum) = index.and_then(|index| sums.get_mut(index as usize)) {
                sum.0 += value.bytes;
                sum.1 += value.ios;
            }
        }
        let per_s = 1.0 / (interval * per_window).as_secs_f64();
        let of = |pick: fn(&(u64, u64)) -> f64| {
            let seen = sums.iter().map(pick).filter(|sum| *sum > 0.0);
            Samples::of(&seen.map(|sum| sum * per_s).collect::<Vec<_>>())
        };
        (of(|sum| sum.0 as f64 / 1024.0), of(|sum| sum.1 as f64))
    }
}
