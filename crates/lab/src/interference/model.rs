//! What one operation does to another, as numbers: pure functions over load points.
//!
//! The measure is that of K. Doekemeijer et al., "Exploring I/O Management
//! Performance in ZNS with ConfZNS++" (SYSTOR 2024; its artifact's
//! `interference_model/quantification.py`): over load points k, the mean of
//!
//! `term(k) = sqrt(alpha * ((I1 - I0) / I0)^2 + beta * ((L1 - L0) / L0)^2)`
//!
//! where I is the victim's rate and L its 95th percentile of total latency,
//! 0 without and 1 with the interferer, and alpha + beta = 1. It is a mean of
//! root mean squares and has no sign: a speed-up counts as interference too.
//! Three measures stand beside it for what it does not see.

use serde::Serialize;

/// How much rate (alpha) and latency (beta) count; together 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Weights {
    alpha: f64,
    beta: f64,
}

impl Weights {
    /// Half and half, as published.
    pub const EVEN: Self = Self { alpha: 0.5, beta: 0.5 };
    /// The rate alone: for victims that are management operations, as published.
    pub const RATE_ALONE: Self = Self { alpha: 1.0, beta: 0.0 };

    /// Weights with this share for the rate; the rest is for latency.
    ///
    /// # Errors
    /// Outside 0 to 1.
    pub fn with_alpha(alpha: f64) -> Result<Self, InterferenceError> {
        if (0.0..=1.0).contains(&alpha) {
            Ok(Self { alpha, beta: 1.0 - alpha })
        } else {
            Err(InterferenceError::Weights { alpha, beta: 1.0 - alpha })
        }
    }

    /// Weights as given.
    ///
    /// # Errors
    /// When one is negative or they are not 1 together.
    pub fn new(alpha: f64, beta: f64) -> Result<Self, InterferenceError> {
        if alpha >= 0.0 && beta >= 0.0 && (alpha + beta - 1.0).abs() < 1e-9 {
            Ok(Self { alpha, beta })
        } else {
            Err(InterferenceError::Weights { alpha, beta })
        }
    }

    /// The rate's.
    pub fn alpha(self) -> f64 {
        self.alpha
    }

    /// The latency's.
    pub fn beta(self) -> f64 {
        self.beta
    }
}

impl Default for Weights {
    fn default() -> Self {
        Self::EVEN
    }
}

/// What the victim got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Victim {
    /// Operations a second.
    pub iops: f64,
    /// 95th percentile of total latency, where known.
    pub p95_ns: Option<f64>,
    /// 99.9th percentile of total latency, where known.
    pub p999_ns: Option<f64>,
    /// Longest total latency, where known.
    pub max_ns: Option<f64>,
}

/// One load of the victim, without and with the interferer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// What errors and tables call it: the load, such as `3`.
    pub load: String,
    /// Without the interferer.
    pub without: Victim,
    /// With it.
    pub with: Victim,
    /// The interferer's management operations a second (resets, finishes) while
    /// it ran, where it has any.
    pub operations_per_s: Option<f64>,
}

/// A measure over load points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// The mean over the points.
    pub mean: f64,
    /// Each point's term, in the points' order.
    pub terms: Vec<f64>,
}

/// The longest stall without and with the interferer, over all load points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stall {
    /// Without.
    pub without_ns: f64,
    /// With.
    pub with_ns: f64,
}

/// What one management operation costs the victim.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OperationCost {
    /// Operations of the victim lost: `(I0 - I1) / operations a second`.
    pub lost_ios: f64,
    /// The time that the victim needs for those when it is alone:
    /// `(1 - I1 / I0) / operations a second`. As if the victim had stood still
    /// for that long, once for each operation.
    pub stall_ns: f64,
}

/// A management operation as the victim: only rates, against either reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ManagementVictim {
    /// Z against the rate without any interferer.
    pub against_isolated: f64,
    /// Z against the rate at the first load of the interferer: what was
    /// published. That point's own term is 0 and counts in the mean, so this is
    /// the smaller value wherever the first load already does the harm.
    pub against_first_load: f64,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InterferenceError {
    /// Weights that are not a split of 1.
    #[error("alpha = {alpha} and beta = {beta}; both must be at least 0 and their sum 1, such as alpha = 0.5")]
    Weights {
        /// Of the rate.
        alpha: f64,
        /// Of the latency.
        beta: f64,
    },
    /// No points.
    #[error("no load points; give at least one pair of measurements without and with the interferer")]
    NoPoints,
    /// A baseline of zero, a negative value, or no number at all.
    #[error(
        "load {load}: {what} is {value}, against which nothing can be measured; \
         measure the victim again {condition} the interferer"
    )]
    Unusable {
        /// The point.
        load: String,
        /// The quantity.
        what: &'static str,
        /// Its value.
        value: f64,
        /// `without` or `with`.
        condition: &'static str,
    },
    /// A percentile that was not measured.
    #[error(
        "load {load}: no {what} {condition} the interferer; \
         run fio with lat_percentiles=1 (percentile_list must name it), or weigh the rate alone (alpha = 1)"
    )]
    Missing {
        /// The point.
        load: String,
        /// The quantity.
        what: &'static str,
        /// `without` or `with`.
        condition: &'static str,
    },
}

/// Z as published: rates and P95.
///
/// # Errors
/// Without points, at a baseline of zero, or where a P95 that counts is missing.
pub fn z(points: &[Point], weights: Weights) -> Result<Measure, InterferenceError> {
    measure(points, |point| root_mean_square(point, weights, P95))
}

/// The same of rates and P99.9. P95 cannot see a stall that strikes one in a
/// hundred operations: resets do just that.
///
/// # Errors
/// As [`z`], for P99.9.
pub fn z_tail(points: &[Point], weights: Weights) -> Result<Measure, InterferenceError> {
    measure(points, |point| root_mean_square(point, weights, P999))
}

/// The signed form: `-alpha * (I1 - I0) / I0 + beta * (L1 - L0) / L0`, above 0
/// where the victim lost, below 0 where it gained.
///
/// # Errors
/// As [`z`].
pub fn signed(points: &[Point], weights: Weights) -> Result<Measure, InterferenceError> {
    measure(points, |point| {
        let latency = if weights.beta > 0.0 { P95.change(point)? } else { 0.0 };
        Ok(-weights.alpha * rate_change(point)? + weights.beta * latency)
    })
}

/// The longest stalls; `None` where no point, or not each, knows its maximum.
pub fn stall(points: &[Point]) -> Option<Stall> {
    let longest = |of: fn(&Point) -> &Victim| {
        let all: Option<Vec<f64>> = points.iter().map(|point| of(point).max_ns).collect();
        all?.into_iter().max_by(f64::total_cmp)
    };
    Some(Stall { without_ns: longest(|point| &point.without)?, with_ns: longest(|point| &point.with)? })
}

/// What each management operation costs the victim at one load: unlike Z this
/// does not shrink when a design merely does fewer of them. `None` where none
/// were done.
///
/// # Errors
/// At a baseline of zero.
pub fn operation_cost(point: &Point) -> Result<Option<OperationCost>, InterferenceError> {
    let Some(rate) = point.operations_per_s.filter(|rate| *rate > 0.0) else { return Ok(None) };
    let change = rate_change(point)?;
    Ok(Some(OperationCost { lost_ios: -change * point.without.iops / rate, stall_ns: -change * 1e9 / rate }))
}

/// The cost of an operation over all points: the mean over those that know it.
///
/// # Errors
/// As [`operation_cost`].
pub fn mean_operation_cost(points: &[Point]) -> Result<Option<OperationCost>, InterferenceError> {
    let mut known = Vec::new();
    for point in points {
        known.extend(operation_cost(point)?);
    }
    if known.is_empty() {
        return Ok(None);
    }
    let mean = |of: fn(&OperationCost) -> f64| known.iter().map(of).sum::<f64>() / known.len() as f64;
    Ok(Some(OperationCost { lost_ios: mean(|cost| cost.lost_ios), stall_ns: mean(|cost| cost.stall_ns) }))
}

/// Z of a management operation as the victim (alpha = 1): `loaded` are its
/// rates under rising loads of the interferer.
///
/// # Errors
/// Without points, or at a reference of zero.
pub fn management_victim(isolated_per_s: f64, loaded_per_s: &[f64]) -> Result<ManagementVictim, InterferenceError> {
    let against = |reference: f64| {
        let points: Vec<Point> = loaded_per_s
            .iter()
            .enumerate()
            .map(|(index, rate)| Point {
                load: (index + 1).to_string(),
                without: Victim { iops: reference, ..Victim::default() },
                with: Victim { iops: *rate, ..Victim::default() },
                operations_per_s: None,
            })
            .collect();
        Ok(z(&points, Weights::RATE_ALONE)?.mean)
    };
    let first = *loaded_per_s.first().ok_or(InterferenceError::NoPoints)?;
    Ok(ManagementVictim { against_isolated: against(isolated_per_s)?, against_first_load: against(first)? })
}

/// A percentile of latency.
#[derive(Clone, Copy)]
struct Percentile {
    name: &'static str,
    of: fn(&Victim) -> Option<f64>,
}

const P95: Percentile = Percentile { name: "P95 latency", of: |victim| victim.p95_ns };
const P999: Percentile = Percentile { name: "P99.9 latency", of: |victim| victim.p999_ns };

impl Percentile {
    /// `(L1 - L0) / L0`.
    fn change(self, point: &Point) -> Result<f64, InterferenceError> {
        let value = |victim: &Victim, condition| {
            let missing = || InterferenceError::Missing { load: point.load.clone(), what: self.name, condition };
            usable(point, self.name, (self.of)(victim).ok_or_else(missing)?, condition)
        };
        relative(point, self.name, value(&point.without, "without")?, value(&point.with, "with")?)
    }
}

fn measure(
    points: &[Point],
    term: impl Fn(&Point) -> Result<f64, InterferenceError>,
) -> Result<Measure, InterferenceError> {
    if points.is_empty() {
        return Err(InterferenceError::NoPoints);
    }
    let terms = points.iter().map(term).collect::<Result<Vec<_>, _>>()?;
    Ok(Measure { mean: terms.iter().sum::<f64>() / terms.len() as f64, terms })
}

fn root_mean_square(point: &Point, weights: Weights, percentile: Percentile) -> Result<f64, InterferenceError> {
    let rate = rate_change(point)?;
    // A latency that does not count need not be known.
    let latency = if weights.beta > 0.0 { percentile.change(point)? } else { 0.0 };
    Ok((weights.alpha * rate * rate + weights.beta * latency * latency).sqrt())
}

/// `(I1 - I0) / I0`.
fn rate_change(point: &Point) -> Result<f64, InterferenceError> {
    let without = usable(point, "rate", point.without.iops, "without")?;
    relative(point, "rate", without, usable(point, "rate", point.with.iops, "with")?)
}

fn relative(point: &Point, what: &'static str, without: f64, with: f64) -> Result<f64, InterferenceError> {
    let change = (with - without) / without;
    if without > 0.0 && change.is_finite() {
        return Ok(change);
    }
    Err(InterferenceError::Unusable { load: point.load.clone(), what, value: without, condition: "without" })
}

fn usable(point: &Point, what: &'static str, value: f64, condition: &'static str) -> Result<f64, InterferenceError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(InterferenceError::Unusable { load: point.load.clone(), what, value, condition })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(iops: (f64, f64), p95: (f64, f64), operations_per_s: Option<f64>) -> Point {
        let victim = |iops, p95| Victim { iops, p95_ns: Some(p95), p999_ns: Some(2.0 * p95), max_ns: Some(9.0 * p95) };
        Point { load: "1".to_owned(), without: victim(iops.0, p95.0), with: victim(iops.1, p95.1), operations_per_s }
    }

    #[test]
    fn a_speed_up_counts_unless_signed() {
        let slower = [point((100.0, 50.0), (10.0, 15.0), None)];
        let faster = [point((100.0, 150.0), (10.0, 5.0), None)];
        for points in [&slower, &faster] {
            assert!((z(points, Weights::EVEN).unwrap().mean - 0.5).abs() < 1e-12);
            assert!((z_tail(points, Weights::EVEN).unwrap().mean - 0.5).abs() < 1e-12);
        }
        assert!((signed(&slower, Weights::EVEN).unwrap().mean - 0.5).abs() < 1e-12);
        assert!((signed(&faster, Weights::EVEN).unwrap().mean + 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_mean_is_of_terms_not_of_squares() {
        let points = [point((100.0, 100.0), (10.0, 10.0), None), point((100.0, 0.0), (10.0, 10.0), None)];
        let found = z(&points, Weights::RATE_ALONE).unwrap();
        assert_eq!((found.mean, found.terms), (0.5, vec![0.0, 1.0]));
    }

    #[test]
    fn fewer_operations_do_not_make_each_cheaper() {
        // Half the resets, half the loss: Z halves, the cost of a reset stays.
        let (many, few) = (point((100.0, 60.0), (1.0, 1.0), Some(4.0)), point((100.0, 80.0), (1.0, 1.0), Some(2.0)));
        let z_of = |point: &Point| z(std::slice::from_ref(point), Weights::EVEN).unwrap().mean;
        assert!((z_of(&many) / z_of(&few) - 2.0).abs() < 1e-9);
        let (many, few) = (operation_cost(&many).unwrap().unwrap(), operation_cost(&few).unwrap().unwrap());
        assert!((many.lost_ios - 10.0).abs() < 1e-9 && (many.lost_ios - few.lost_ios).abs() < 1e-9);
        assert!((many.stall_ns - 1e8).abs() < 1.0 && (many.stall_ns - few.stall_ns).abs() < 1.0);
        assert_eq!(operation_cost(&point((1.0, 1.0), (1.0, 1.0), Some(0.0))).unwrap(), None);
        assert_eq!(mean_operation_cost(&[point((1.0, 1.0), (1.0, 1.0), None)]).unwrap(), None);
    }

    #[test]
    fn management_victims_have_two_references() {
        let found = management_victim(60.0, &[45.0, 45.0, 30.0]).unwrap();
        assert!((found.against_isolated - (0.25 + 0.25 + 0.5) / 3.0).abs() < 1e-12);
        assert!((found.against_first_load - (1.0 / 3.0) / 3.0).abs() < 1e-12);
        assert_eq!(management_victim(60.0, &[]), Err(InterferenceError::NoPoints));
        assert!(management_victim(0.0, &[1.0]).is_err());
    }

    #[test]
    fn stalls_are_the_longest() {
        let points = [point((1.0, 1.0), (1.0, 4.0), None), point((1.0, 1.0), (2.0, 3.0), None)];
        assert_eq!(stall(&points), Some(Stall { without_ns: 18.0, with_ns: 36.0 }));
        assert_eq!(stall(&[]), None);
        assert_eq!(stall(&[Point::default()]), None);
    }

    #[test]
    fn bad_inputs_say_their_mend() {
        let said = |points: &[Point], weights| z(points, weights).unwrap_err().to_string();
        assert!(said(&[], Weights::EVEN).contains("at least one pair"));
        assert!(said(&[point((0.0, 5.0), (1.0, 1.0), None)], Weights::EVEN).contains("rate is 0"));
        assert!(said(&[point((5.0, f64::NAN), (1.0, 1.0), None)], Weights::EVEN).contains("with the interferer"));
        assert!(said(&[point((5.0, 5.0), (0.0, 1.0), None)], Weights::EVEN).contains("P95 latency is 0"));
        let mut blind = point((5.0, 5.0), (1.0, 1.0), None);
        blind.with.p95_ns = None;
        let blind = [blind];
        assert!(said(&blind, Weights::EVEN).contains("lat_percentiles=1"));
        assert!(z(&blind, Weights::RATE_ALONE).is_ok() && z_tail(&blind, Weights::EVEN).is_ok());
        for (alpha, beta) in [(0.5, 0.6), (-0.1, 1.1), (f64::NAN, 0.5)] {
            assert!(Weights::new(alpha, beta).unwrap_err().to_string().contains("their sum 1"));
        }
        assert!(Weights::with_alpha(1.5).is_err() && Weights::with_alpha(0.3).is_ok());
    }
}
