//! Histograms against sorted vectors.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use stats::Histogram;
use units::Nanos;

/// Times as they come: zero, small, and spread over every power of two.
fn time_ns() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        3 => 0_u64..5_000,
        6 => (0_u32..41, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1)),
    ]
}

fn recorded(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    values.iter().for_each(|value| histogram.record(Nanos(*value)));
    histogram
}

proptest! {
    #[test]
    fn agrees_with_the_sorted_values(mut values in prop::collection::vec(time_ns(), 1..400), percents in prop::collection::vec(0.0..=100.0_f64, 1..20)) {
        let histogram = recorded(&values);
        values.sort_unstable();
        let n = values.len();
        prop_assert_eq!(histogram.count(), n as u64);
        prop_assert_eq!(histogram.min(), Nanos(values[0]));
        prop_assert_eq!(histogram.max(), Nanos(values[n - 1]));
        prop_assert_eq!(histogram.sum_ns(), values.iter().map(|v| u128::from(*v)).sum::<u128>());
        let mean = values.iter().map(|v| *v as f64).sum::<f64>() / n as f64;
        prop_assert!((histogram.mean_ns() - mean).abs() <= 1e-9 * mean);
        if n > 1 {
            let variance = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            prop_assert!((histogram.stddev_ns() - variance.sqrt()).abs() <= 1e-6 * (1.0 + variance.sqrt()));
        }
        for percent in percents {
            let rank = ((n as f64 * percent / 100.0).ceil() as usize).clamp(1, n);
            let want = values[rank - 1];
            let got = histogram.percentile(percent).0;
            prop_assert!(got >= want && got - want <= want / 1000, "p{percent}: {got} for {want}");
        }
    }

    #[test]
    fn bins_partition_the_values(values in prop::collection::vec(time_ns(), 0..200)) {
        let histogram = recorded(&values);
        let bins: Vec<_> = histogram.bins().collect();
        prop_assert!(bins.windows(2).all(|pair| pair[0].high < pair[1].low));
        for bin in &bins {
            let inside = values.iter().filter(|v| (bin.low.0..=bin.high.0).contains(v)).count();
            prop_assert_eq!(inside as u64, bin.count);
        }
        prop_assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), values.len() as u64);
    }

    #[test]
    fn fio_bins_keep_every_value_near(values in prop::collection::vec(time_ns(), 0..200)) {
        let bins = recorded(&values).fio_bins();
        prop_assert!(bins.windows(2).all(|pair| pair[0].0 < pair[1].0));
        prop_assert_eq!(bins.iter().map(|(_, count)| count).sum::<u64>(), values.len() as u64);
        for value in values.iter().filter(|v| **v < 1 << 34) {
            // Half a bin is at most 1/128 of the value.
            prop_assert!(bins.iter().any(|(name, _)| name.abs_diff(*value) <= value / 128), "{value} has no bin");
        }
    }

    #[test]
    fn merging_is_recording_both(left in prop::collection::vec(time_ns(), 0..100), right in prop::collection::vec(time_ns(), 0..100)) {
        let mut merged = recorded(&left);
        merged.merge(&recorded(&right));
        prop_assert_eq!(merged, recorded(&[left, right].concat()));
    }

    #[test]
    fn recording_n_times(value in time_ns(), times in 0_u64..50) {
        let mut at_once = Histogram::new();
        at_once.record_n(Nanos(value), times);
        prop_assert_eq!(at_once, recorded(&vec![value; times as usize]));
    }
}
