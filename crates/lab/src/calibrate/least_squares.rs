//! The least sum of squares by Levenberg's and Marquardt's steps (Marquardt, SIAM 1963), for
//! few parameters and residuals that are simulations: derivatives are differences, and all
//! points that a step needs are asked for at once, so that they are computed side by side.

/// Residuals at each of some points; `None` when it was stopped. A point that has none, since
/// its values describe nothing, is an empty list.
pub type Residuals<'a> = dyn Fn(&[Vec<f64>]) -> Option<Vec<Vec<f64>>> + 'a;

/// How far a parameter is moved for a difference: simulations are not smooth on a small scale.
const STEP: f64 = 0.04;

/// Steps that are enough for any start.
pub const STEPS_MAX: usize = 15;

/// Damping tried at most for a step.
const DAMPINGS: [f64; 5] = [1e-3, 1e-1, 1.0, 10.0, 100.0];

/// A step that lowers the sum by less than this share is the last one.
const ENOUGH: f64 = 2e-3;

/// The longest step of a parameter.
const FAR: f64 = 0.7;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The parameters.
    pub at: Vec<f64>,
    /// The sum of squares there.
    pub sum: f64,
    /// Standard deviation of each parameter, for residuals of standard deviation 1.
    pub deviations: Vec<f64>,
}

/// The parameters near `start` with the least sum of squares of `residuals`, after at most `steps`
/// steps; a parameter's way from `start` over `slack` is a residual, too. Those that are not `free` stay.
/// `None` when it was stopped, and no result where there is no point to start from.
pub fn minimise(
    start: &[f64],
    free: &[bool],
    slack: f64,
    steps: usize,
    residuals: &Residuals<'_>,
) -> Option<Option<Found>> {
    let whole = |at: &[f64], mut own: Vec<f64>| {
        if !own.is_empty() {
            own.extend(at.iter().zip(start).map(|(at, start)| (at - start) / slack));
        }
        own
    };
    let ask = |points: &[Vec<f64>]| -> Option<Vec<Vec<f64>>> {
        Some(points.iter().zip(residuals(points)?).map(|(at, own)| whole(at, own)).collect())
    };
    let moved: Vec<usize> = (0..start.len()).filter(|index| free[*index]).collect();
    let mut at = start.to_vec();
    let Some(mut here) = ask(&[at.clone()])?.pop().filter(|own| !own.is_empty()) else { return Some(None) };
    let mut matrix = Vec::new();
    for _ in 0..steps {
        let beside = |index: &usize| {
            let mut beside = at.clone();
            beside[*index] += STEP;
            beside
        };
        let there = ask(&moved.iter().map(beside).collect::<Vec<_>>())?;
        let slope = |there: &Vec<f64>| -> Vec<f64> {
            // Where a value is not available, nothing is known of its slope.
            let there = if there.is_empty() { &here } else { there };
            there.iter().zip(&here).map(|(there, here)| (there - here) / STEP).collect()
        };
        let slopes: Vec<Vec<f64>> = there.iter().map(slope).collect();
        matrix = slopes.iter().map(|a| slopes.iter().map(|b| dot(a, b)).collect::<Vec<f64>>()).collect();
        let gradient: Vec<f64> = slopes.iter().map(|slope| -dot(slope, &here)).collect();
        let trials: Vec<Vec<f64>> = DAMPINGS
            .iter()
            .filter_map(|damping| {
                let mut damped: Vec<Vec<f64>> = matrix.clone();
                for (index, row) in damped.iter_mut().enumerate() {
                    row[index] *= 1.0 + damping;
                }
                let step = solve(damped, gradient.clone())?;
                let mut trial = at.clone();
                for (index, step) in moved.iter().zip(step) {
                    trial[*index] += step.clamp(-FAR, FAR);
                }
                Some(trial)
            })
            .collect();
        let outcomes = ask(&trials)?;
        let known = trials.into_iter().zip(outcomes).filter(|(_, own)| !own.is_empty());
        let best = known.min_by(|(_, a), (_, b)| dot(a, a).total_cmp(&dot(b, b)));
        let before = dot(&here, &here);
        match best {
            Some((trial, own)) if dot(&own, &own) < before => {
                let gain = 1.0 - dot(&own, &own) / before;
                (at, here) = (trial, own);
                if gain < ENOUGH {
                    break;
                }
            }
            _ => break,
        }
    }
    let mut deviations = vec![0.0; start.len()];
    for (row, index) in moved.iter().enumerate() {
        let unit = (0..moved.len()).map(|other| f64::from(u8::from(other == row))).collect();
        deviations[*index] = solve(matrix.clone(), unit).map_or(slack, |column| column[row].max(0.0).sqrt());
    }
    Some(Some(Found { sum: dot(&here, &here), at, deviations }))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves `matrix x = right` by elimination with pivots; `None` where there is no one solution.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let size = right.len();
    for column in 0..size {
        let pivot = (column..size).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-12 {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..size {
            let share = matrix[row][column] / matrix[column][column];
            let (above, below) = matrix.split_at_mut(row);
            for (value, pivot) in below[0].iter_mut().zip(&above[column]).skip(column) {
                *value -= share * pivot;
            }
            right[row] -= share * right[column];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| matrix[row][column] * right[column]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_system_is_solved(
            rows in proptest::collection::vec(proptest::collection::vec(-9.0_f64..9.0, 4), 4),
            wanted in proptest::collection::vec(-9.0_f64..9.0, 4),
        ) {
            let right = rows.iter().map(|row| dot(row, &wanted)).collect();
            if let Some(found) = solve(rows.clone(), right) {
                for row in &rows {
                    let (left, right) = (dot(row, &found), dot(row, &wanted));
                    prop_assert!((left - right).abs() < 1e-3 * (1.0 + right.abs()), "{left} {right}");
                }
            }
        }

        /// Two laws, one over the other's limit, as a drive's rate is the least of several. Each is told by two rates at least.
        #[test]
        fn the_laws_behind_a_rate_are_found(slow in -0.3_f64..1.0, limit in -0.3_f64..1.0) {
            let rates = |at: &[f64]| -> Vec<f64> {
                (0..28).map(|depth| (f64::from(depth) * 0.25 - at[0]).min(1.0 + at[1])).collect()
            };
            let measured = rates(&[slow, limit]);
            let residuals = |points: &[Vec<f64>]| {
                Some(points.iter().map(|at| {
                    rates(at).iter().zip(&measured).map(|(ours, theirs)| (ours - theirs) / 0.02).collect()
                }).collect())
            };
            let found = minimise(&[0.0, 0.0], &[true, true], 1.0, STEPS_MAX, &residuals).unwrap().unwrap();
            prop_assert!((found.at[0] - slow).abs() < 0.02 && (found.at[1] - limit).abs() < 0.02, "{found:?}");
        }
    }

    #[test]
    fn what_no_residual_tells_stays() {
        let residuals = |points: &[Vec<f64>]| Some(points.iter().map(|at| vec![(at[0] - 0.5) / 0.02]).collect());
        let found = minimise(&[0.0, 0.3], &[true, true], 1.0, STEPS_MAX, &residuals).unwrap().unwrap();
        assert!((found.at[0] - 0.5).abs() < 1e-3, "{found:?}");
        assert_eq!(found.at[1], 0.3);
        assert!(found.deviations[0] < 0.03 && (found.deviations[1] - 1.0).abs() < 1e-6, "{found:?}");
        let held = minimise(&[0.0, 0.3], &[false, true], 1.0, STEPS_MAX, &residuals).unwrap().unwrap();
        assert_eq!(held.at[0], 0.0);
        assert_eq!(minimise(&[0.0], &[true], 1.0, STEPS_MAX, &|_| None), None, "stopped");
        let nothing = |points: &[Vec<f64>]| Some(vec![Vec::new(); points.len()]);
        assert_eq!(minimise(&[0.0], &[true], 1.0, STEPS_MAX, &nothing), Some(None), "no point to start from");
    }
}
