//! How far one quantity follows another: Pearson's correlation coefficient and the
//! slope of the least-squares line.

/// Sums of squares around the means, from which both measures come.
struct Spread {
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Spread {
    /// `None` with fewer than two pairs.
    fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let &[(x_origin, y_origin), _, ..] = pairs else { return None };
        // Offset by the first pair: equal values then have exactly no deviation.
        let n = pairs.len() as f64;
        let mean_x = pairs.iter().map(|(x, _)| x - x_origin).sum::<f64>() / n;
        let mean_y = pairs.iter().map(|(_, y)| y - y_origin).sum::<f64>() / n;
        let mut spread = Self { xx: 0.0, yy: 0.0, xy: 0.0 };
        for (x, y) in pairs {
            let (dx, dy) = (x - x_origin - mean_x, y - y_origin - mean_y);
            spread.xx += dx * dx;
            spread.yy += dy * dy;
            spread.xy += dx * dy;
        }
        Some(spread)
    }
}

/// Pearson's correlation coefficient of (x, y), from -1 to 1: a spreadsheet's
/// CORREL. `None` where x or y does not vary.
pub fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let Spread { xx, yy, xy } = Spread::of(pairs)?;
    let coefficient = xy / (xx.sqrt() * yy.sqrt());
    coefficient.is_finite().then(|| coefficient.clamp(-1.0, 1.0))
}

/// The slope of the least-squares line y = a + b x: a spreadsheet's SLOPE. `None`
/// where x does not vary.
pub fn slope(pairs: &[(f64, f64)]) -> Option<f64> {
    let Spread { xx, xy, .. } = Spread::of(pairs)?;
    Some(xy / xx).filter(|slope| slope.is_finite())
}

/// As [`slope`], with x and y each divided by its largest magnitude: the part of
/// the largest y that is gained over the whole range of x.
pub fn normalised_slope(pairs: &[(f64, f64)]) -> Option<f64> {
    let largest = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(|pair| of(pair).abs()).fold(0.0, f64::max);
    let (x_max, y_max) = (largest(|pair| pair.0), largest(|pair| pair.1));
    let scaled: Vec<_> = pairs.iter().map(|(x, y)| (x / x_max, y / y_max)).collect();
    slope(&scaled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Anscombe's first quartet (F. J. Anscombe, "Graphs in Statistical Analysis",
    /// The American Statistician 27, 1973): r = 0.816, y = 3.00 + 0.500 x.
    const ANSCOMBE: [(f64, f64); 11] = [
        (10.0, 8.04),
        (8.0, 6.95),
        (13.0, 7.58),
        (9.0, 8.81),
        (11.0, 8.33),
        (14.0, 9.96),
        (6.0, 7.24),
        (4.0, 4.26),
        (12.0, 10.84),
        (7.0, 4.82),
        (5.0, 5.68),
    ];

    #[test]
    fn a_published_sample() {
        assert!((correlation(&ANSCOMBE).unwrap() - 0.816).abs() < 0.0005);
        assert!((slope(&ANSCOMBE).unwrap() - 0.500).abs() < 0.0005);
        assert!((normalised_slope(&ANSCOMBE).unwrap() - 0.500 * 14.0 / 10.84).abs() < 0.0005);
    }

    #[test]
    fn what_does_not_vary_has_no_answer() {
        assert_eq!(correlation(&[(1.0, 2.0)]), None);
        assert_eq!(correlation(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(correlation(&[(1.0, 2.0), (2.0, 2.0)]), None);
        assert_eq!(slope(&[(1.0, 2.0), (2.0, 2.0)]), Some(0.0));
        // The mean of eleven times 0.1 is not quite 0.1.
        assert_eq!(
            correlation(
                &[0.0; 11].map(|_: f64| 0.1).iter().zip(0..).map(|(y, x)| (f64::from(x), *y)).collect::<Vec<_>>()
            ),
            None
        );
        assert_eq!(slope(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(normalised_slope(&[(0.0, 2.0), (0.0, 3.0)]), None);
    }

    proptest! {
        #[test]
        fn a_line_is_found(a in -1e3..1e3_f64, b in 0.01..1e3_f64, xs in prop::collection::btree_set(-1000..1000_i32, 2..20)) {
            let pairs: Vec<(f64, f64)> = xs.iter().map(|x| (f64::from(*x), a + b * f64::from(*x))).collect();
            prop_assert!((correlation(&pairs).unwrap() - 1.0).abs() < 1e-6);
            prop_assert!((slope(&pairs).unwrap() / b - 1.0).abs() < 1e-6);
            let mirrored: Vec<(f64, f64)> = pairs.iter().map(|(x, y)| (-x, *y)).collect();
            prop_assert!((correlation(&mirrored).unwrap() + 1.0).abs() < 1e-6);
        }
    }
}
