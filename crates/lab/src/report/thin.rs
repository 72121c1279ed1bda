//! Bounds on what a page holds, whatever the experiment's size.

use super::{ReportData, ThroughputSample};

/// Points of the sweep that get pictures; all of them are in the tables.
pub const PICTURED_POINTS: usize = 100;
/// Points of one drawn distribution.
pub(super) const CDF_POINTS: usize = 200;
/// Points of one drawn time series.
pub(super) const SERIES_POINTS: usize = 240;

/// `data` with curves no denser than a screen shows, and without the curves
/// of the points after the first `pictured`, which get no picture.
pub(super) fn thinned(data: &ReportData, pictured: usize) -> ReportData {
    let mut data = data.clone();
    for (index, point) in data.points.iter_mut().enumerate() {
        for direction in &mut point.directions {
            direction.latency_cdf = thin_cdf(&direction.latency_cdf, CDF_POINTS);
            direction.throughput = thin_series(&direction.throughput, SERIES_POINTS);
            if index >= pictured {
                direction.latency_cdf.clear();
                direction.throughput.clear();
            }
        }
        if index >= pictured {
            point.utilisation = Default::default();
        }
    }
    data
}

/// At most `most` points of a distribution, the ends among them, evenly spaced
/// along the curve as it is drawn: by logarithm of latency, by fraction, and
/// by nines, so that the tail keeps its shape.
fn thin_cdf(cdf: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    // No latency is shorter than the clock's step; a logarithm needs it positive.
    let mut clean: Vec<(f64, f64)> = cdf
        .iter()
        .filter(|(ns, fraction)| ns.is_finite() && fraction.is_finite())
        .map(|(ns, fraction)| (rounded(ns.max(1.0), 1e1), rounded(fraction.clamp(0.0, 1.0), 1e9)))
        .collect();
    clean.dedup();
    if clean.len() <= most {
        return clean;
    }
    let (first, last) = (clean[0], clean[clean.len() - 1]);
    let decades = (last.0 / first.0).log10().max(1e-9);
    let nines = |fraction: f64| -(1.0 - fraction).max(1e-6).log10() / 6.0;
    let mut length = 0.0;
    let along: Vec<f64> = std::iter::once(0.0)
        .chain(clean.windows(2).map(|pair| {
            let ((from_ns, from), (to_ns, to)) = (pair[0], pair[1]);
            length += (to_ns / from_ns).log10().abs() / decades + (to - from).abs() + (nines(to) - nines(from)).abs();
            length
        }))
        .collect();
    let mut kept = Vec::with_capacity(most);
    let mut next = 0;
    for (index, at) in along.iter().enumerate() {
        let due = length * next as f64 / (most - 1) as f64;
        let end = index + 1 == clean.len();
        // One place is kept free for the end.
        if end || (*at >= due && kept.len() + 1 < most) {
            kept.push(clean[index]);
            while length * next as f64 / (most - 1) as f64 <= *at && next < most {
                next += 1;
            }
        }
    }
    kept
}

/// At most `most` samples: neighbours are averaged.
fn thin_series(series: &[ThroughputSample], most: usize) -> Vec<ThroughputSample> {
    let finite = |sample: &&ThroughputSample| {
        sample.at_ns.is_finite() && sample.bytes_per_s.is_finite() && sample.iops.is_finite()
    };
    let clean: Vec<ThroughputSample> = series.iter().filter(finite).copied().collect();
    let group = clean.len().div_ceil(most).max(1);
    clean
        .chunks(group)
        .map(|samples| {
            let mean = |of: fn(&ThroughputSample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
            // Each interval's latencies count as often as it had requests.
            let with = || samples.iter().filter(|sample| sample.latency_mean_ns.is_some_and(f64::is_finite));
            let requests: f64 = with().map(|sample| sample.iops).sum();
            let sum: f64 = with().map(|sample| sample.latency_mean_ns.unwrap_or(0.0) * sample.iops).sum();
            let longest = samples.iter().filter_map(|sample| sample.latency_max_ns).filter(|ns| ns.is_finite());
            ThroughputSample {
                at_ns: rounded(mean(|sample| sample.at_ns), 1.0),
                bytes_per_s: rounded(mean(|sample| sample.bytes_per_s), 1.0),
                iops: rounded(mean(|sample| sample.iops), 1e3),
                latency_mean_ns: (requests > 0.0).then(|| rounded(sum / requests, 1.0)),
                latency_max_ns: longest.max_by(f64::total_cmp),
            }
        })
        .collect()
}

/// Without the digits that nobody measured and that would fill the file.
fn rounded(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_distribution_keeps_its_shape() {
        // An exponential distribution over a floor, in 100 000 steps.
        let cdf: Vec<(f64, f64)> = (1..=100_000)
            .map(|n| f64::from(n) / 100_000.0)
            .map(|fraction| (60e3 - 20e3 * (1.0 - fraction + 1e-6f64).ln(), fraction))
            .collect();
        let thin = thin_cdf(&cdf, CDF_POINTS);
        assert!(thin.len() <= CDF_POINTS && thin.len() > CDF_POINTS / 2, "{} points", thin.len());
        let end = cdf.len() - 1;
        assert_eq!((thin[0].1, thin[thin.len() - 1].1), (cdf[0].1, cdf[end].1));
        assert!(thin.windows(2).all(|pair| pair[0] < pair[1]));
        // Read off the thinned curve, every percentile is within 2 %.
        for percent in [0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999] {
            let at = |curve: &[(f64, f64)]| curve.iter().find(|(_, fraction)| *fraction >= percent).unwrap().0;
            let (whole, drawn) = (at(&cdf), at(&thin));
            assert!((drawn / whole - 1.0).abs() < 0.02, "p{percent}: {drawn} for {whole}");
        }
    }

    #[test]
    fn odd_distributions() {
        assert_eq!(thin_cdf(&[], 200), []);
        assert_eq!(thin_cdf(&[(0.0, 2.0), (f64::NAN, 0.5)], 200), [(1.0, 1.0)]);
        assert_eq!(thin_cdf(&[(5.0, 1.0); 1000], 200), [(5.0, 1.0)]);
    }

    #[test]
    fn a_thinned_series_keeps_its_mean() {
        let series: Vec<_> = (0..1000u32)
            .map(|n| ThroughputSample {
                at_ns: f64::from(n),
                bytes_per_s: f64::from(n % 7),
                iops: 1.0,
                ..ThroughputSample::default()
            })
            .collect();
        let thin = thin_series(&series, SERIES_POINTS);
        assert_eq!(thin.len(), 200);
        let mean = |series: &[ThroughputSample]| {
            series.iter().map(|sample| sample.bytes_per_s).sum::<f64>() / series.len() as f64
        };
        assert!((mean(&thin) - mean(&series)).abs() < 0.5);
        assert!(thin_series(&[], SERIES_POINTS).is_empty());
    }
}
