//! Quantiles of Student's t distribution.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Degrees of freedom from which the normal quantile with its first three
/// correction terms is used; its error there is below 1e-10.
const ASYMPTOTIC_FROM: u64 = 1000;

/// The t with 95 % of Student's distribution within `-t..=t`: the factor of a
/// two-sided 95 % confidence interval for a mean of `degrees_of_freedom + 1`
/// values. Infinite for 0 degrees of freedom.
pub fn student_t_95(degrees_of_freedom: u64) -> f64 {
    match degrees_of_freedom {
        0 => f64::INFINITY,
        1..ASYMPTOTIC_FROM => {
            // Bisect: 95 % lies between t = 1.9 (no distribution is narrower
            // than the normal) and t = 13 (one degree of freedom: 12.706).
            let (mut low, mut high) = (1.9, 13.0);
            while high - low > 1e-12 {
                let middle = (low + high) / 2.0;
                if two_sided_probability(middle, degrees_of_freedom) < 0.95 {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            (low + high) / 2.0
        }
        _ => {
            // Cornish-Fisher expansion, Abramowitz & Stegun 26.7.5.
            let z: f64 = 1.959_963_984_540_054;
            let n = degrees_of_freedom as f64;
            let g1 = (z.powi(3) + z) / 4.0;
            let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
            let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
            z + g1 / n + g2 / n.powi(2) + g3 / n.powi(3)
        }
    }
}

/// A(t|n): the probability that Student's t lies within `-t..=t`, by the finite
/// sums for whole degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4).
fn two_sided_probability(t: f64, degrees_of_freedom: u64) -> f64 {
    let theta = (t / (degrees_of_freedom as f64).sqrt()).atan();
    debug_assert!((0.0..=FRAC_PI_2).contains(&theta));
    let (sin, cos) = theta.sin_cos();
    // Odd: powers 1, 3, 5, ... with factors 2/3, 4/5, ...
    // Even: powers 0, 2, 4, ... with factors 1/2, 3/4, ...
    let odd = degrees_of_freedom % 2 == 1;
    let mut term = if odd { cos } else { 1.0 };
    let mut power = if odd { 1 } else { 0 };
    let mut sum = 0.0;
    while power + 2 <= degrees_of_freedom {
        sum += term;
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    if odd { FRAC_2_PI * (theta + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, column 0.975.
    #[test]
    fn published_table() {
        for (degrees, t) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (9, 2.262),
            (10, 2.228),
            (19, 2.093),
            (29, 2.045),
            (30, 2.042),
            (60, 2.000),
            (100, 1.984),
        ] {
            assert!((student_t_95(degrees) - t).abs() < 5.1e-4, "{degrees}: {}", student_t_95(degrees));
        }
    }

    #[test]
    fn closed_forms_of_one_and_two_degrees() {
        // n = 1 is the Cauchy distribution; n = 2 has t = p sqrt(2 / (1 - p^2)).
        assert!((student_t_95(1) - (0.95 * FRAC_PI_2).tan()).abs() < 1e-9);
        assert!((student_t_95(2) - 0.95 * (2.0 / (1.0 - 0.95_f64.powi(2))).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn exact_and_asymptotic_meet() {
        let mut last = student_t_95(1);
        for degrees in 2..2 * ASYMPTOTIC_FROM {
            let t = student_t_95(degrees);
            assert!(t < last, "t falls with the degrees of freedom: {degrees}");
            last = t;
        }
        let step = student_t_95(ASYMPTOTIC_FROM - 1) - student_t_95(ASYMPTOTIC_FROM);
        let next = student_t_95(ASYMPTOTIC_FROM) - student_t_95(ASYMPTOTIC_FROM + 1);
        assert!((step - next).abs() < 1e-8);
        assert!((student_t_95(u64::MAX) - 1.959_963_984_540).abs() < 1e-11);
    }
}
