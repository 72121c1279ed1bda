//! How long the arm takes over a distance.

use units::Nanos;

use super::config::{DiskError, DiskSeek};

/// `a + b sqrt(x) + c x`, with `x` the distance as a share of the full stroke.
///
/// Short seeks are ruled by acceleration (the root), long ones by the coasting
/// speed (the line): Ruemmler and Wilkes, "An introduction to disk drive
/// modeling", IEEE Computer 27(3), 1994.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeekCurve {
    a_ns: f64,
    b_ns: f64,
    c_ns: f64,
}

/// Mean of sqrt(x) for the distance x between two uniform points of [0, 1],
/// whose density is 2(1 - x).
const MEAN_ROOT: f64 = 8.0 / 15.0;
/// Mean of x under the same density.
const MEAN_DISTANCE: f64 = 1.0 / 3.0;

impl SeekCurve {
    /// The curve through the three times. One cylinder is taken as distance 0,
    /// as there are tens of thousands of cylinders.
    pub(super) fn new(seek: &DiskSeek) -> Result<Self, DiskError> {
        let a = seek.track_to_track.0 as f64;
        let average = seek.average.0 as f64 - a;
        let full = seek.full_stroke.0 as f64 - a;
        // average = b MEAN_ROOT + c MEAN_DISTANCE and full = b + c.
        let b = (average - MEAN_DISTANCE * full) / (MEAN_ROOT - MEAN_DISTANCE);
        let c = full - b;
        if average < 0.0 || b < 0.0 || c < 0.0 {
            return Err(DiskError::SeekCurve {
                track_to_track: seek.track_to_track,
                average: seek.average,
                full_stroke: seek.full_stroke,
                lowest: Nanos((a + average.max(0.0) / MEAN_ROOT).ceil() as u64),
                highest: Nanos((a + average.max(0.0) / MEAN_DISTANCE).floor() as u64),
            });
        }
        Ok(Self { a_ns: a, b_ns: b, c_ns: c })
    }

    /// The time over `cylinders` of `total`; none for no distance.
    pub(super) fn time(&self, cylinders: u64, total: u64) -> Nanos {
        if cylinders == 0 {
            return Nanos::ZERO;
        }
        let x = (cylinders - 1) as f64 / total.max(2) as f64;
        Nanos((self.a_ns + self.b_ns * x.sqrt() + self.c_ns * x).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seek(track_to_track: u64, average: u64, full_stroke: u64) -> DiskSeek {
        let millis = Nanos::from_millis;
        DiskSeek {
            track_to_track: millis(track_to_track),
            average: millis(average),
            full_stroke: millis(full_stroke),
            head_switch: millis(1),
            write_settle: Nanos::ZERO,
        }
    }

    #[test]
    fn the_mean_over_pairs_is_the_average_given() {
        let curve = SeekCurve::new(&seek(1, 8, 16)).unwrap();
        let total = 1000;
        let mut sum = 0;
        for from in 0..total {
            for to in 0..total {
                sum += curve.time(u64::abs_diff(from, to), total).0;
            }
        }
        let mean_ms = sum as f64 / (total * total) as f64 / 1e6;
        assert!((mean_ms - 8.0).abs() < 0.03, "{mean_ms}");
        assert_eq!(curve.time(1, total), Nanos::from_millis(1));
        assert!(curve.time(total, total).since(Nanos::from_millis(16)) < Nanos::from_micros(1));
        assert!((1..total).all(|d| curve.time(d, total) <= curve.time(d + 1, total)));
    }

    #[test]
    fn impossible_times_name_the_range_that_works() {
        let Err(error) = SeekCurve::new(&seek(1, 8, 40)) else { panic!("accepted") };
        let DiskError::SeekCurve { lowest, highest, .. } = error else { panic!("{error}") };
        for full_stroke in [lowest, highest] {
            SeekCurve::new(&DiskSeek { full_stroke, ..seek(1, 8, 40) }).unwrap();
        }
    }
}
