//! Confidence interval of a mean over repeats.

use crate::student_t_95;

/// Mean of a sample and how far the true mean may be from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanInterval {
    /// Values in the sample.
    pub count: usize,
    /// Their mean; NaN without values.
    pub mean: f64,
    /// Their sample standard deviation (divisor n - 1); 0 for fewer than two.
    pub stddev: f64,
    /// Half the width of the interval around the mean; `None` for fewer than
    /// two values, of which no interval can be known.
    pub half_width: Option<f64>,
}

/// The mean of `values` with its two-sided 95 % confidence interval by Student's
/// t: right for independent values of a roughly normal distribution, such as
/// the same run under different seeds.
pub fn mean_interval_95(values: &[f64]) -> MeanInterval {
    let count = values.len();
    let n = count as f64;
    // Offset by the first value: equal values then have exactly no deviation.
    let origin = values.first().copied().unwrap_or(f64::NAN);
    let mean = origin + values.iter().map(|value| value - origin).sum::<f64>() / n;
    if count < 2 {
        return MeanInterval { count, mean, stddev: 0.0, half_width: None };
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let stddev = variance.sqrt();
    MeanInterval { count, mean, stddev, half_width: Some(student_t_95(count as u64 - 1) * stddev / n.sqrt()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worked_sample() {
        // n = 4, mean 5, deviations -3, -1, 1, 3: variance 20/3.
        let interval = mean_interval_95(&[2.0, 4.0, 6.0, 8.0]);
        assert_eq!((interval.count, interval.mean), (4, 5.0));
        assert!((interval.stddev - (20.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        // 3.182446 * 2.581989 / 2
        assert!((interval.half_width.unwrap() - 4.108_520).abs() < 1e-5);
    }

    #[test]
    fn few_values() {
        assert!(mean_interval_95(&[]).mean.is_nan());
        assert_eq!(mean_interval_95(&[7.0]), MeanInterval { count: 1, mean: 7.0, stddev: 0.0, half_width: None });
        assert_eq!(mean_interval_95(&[0.1; 3]).half_width, Some(0.0));
    }
}
