//! The values at which a profile does what was measured.

use toml::Table;

use super::CalibrateOptions;
use super::least_squares::{Found, STEPS_MAX, minimise};
use super::parameters::{Parameter, number, value};
use super::points::Trials;

/// How far a value may be from the base profile's, as a standard deviation of its logarithm:
/// what no measurement tells stays where it is.
const SLACK: f64 = 1.5;

/// Of a parameter's choices, so many are fitted to the end, ...
const CHOICES_MAX: usize = 2;

/// ... after so many steps with each.
const FIRST_STEPS: usize = 2;

/// A sum of squares below this share of another is clearly better.
const CLEARLY: f64 = 0.9;

/// The best of the fits with each of the values that a parameter with choices has.
pub fn search(
    document: &Table,
    parameters: &[&'static Parameter],
    trials: &Trials<'_>,
    options: &CalibrateOptions<'_>,
) -> Option<Option<Found>> {
    let free: Vec<bool> = parameters.iter().map(|parameter| parameter.choices.is_empty()).collect();
    let mut starts = vec![vec![0.0; parameters.len()]];
    for (index, parameter) in parameters.iter().enumerate() {
        let Some(here) = value(document, parameter.keys[0]).and_then(number) else { continue };
        let others = parameter.choices.iter().filter(|choice| **choice as f64 != here);
        let more = others.map(|choice| (*choice as f64 / here).ln());
        let more: Vec<f64> = more.collect();
        let whole = starts.clone();
        starts.extend(whole.iter().flat_map(|start| {
            more.iter().map(move |other| {
                let mut start = start.clone();
                start[index] = *other;
                start
            })
        }));
    }
    // A few steps tell which choices are worth more; what these simulated is known then.
    let worth = starts.len().min(CHOICES_MAX);
    let rounds = if starts.len() > 1 { starts.len() + worth } else { 1 };
    options.observer.begin(rounds, 0);
    let mut position = 0;
    let mut attempt = |start: &Vec<f64>, steps: usize| {
        let asked = std::cell::Cell::new(0_i32);
        let residuals = |places: &[Vec<f64>]| {
            // There is no telling how often: a share of what is left, each time.
            options.observer.progress(position, &trials.label(), 1.0 - 0.85_f64.powi(asked.replace(asked.get() + 1)));
            trials.residuals(places)
        };
        let found = minimise(start, &free, SLACK, steps, &residuals)?;
        options.observer.end(position);
        position += 1;
        Some(found)
    };
    if starts.len() > 1 {
        let mut ranked = Vec::new();
        for start in starts {
            if let Some(found) = attempt(&start, FIRST_STEPS)? {
                ranked.push((found.sum, start));
            }
        }
        // Stable, so that the base profile's own choice stays before its equals.
        ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        starts = ranked.into_iter().take(worth).map(|(_, start)| start).collect();
    }
    let mut fits: Vec<Found> = Vec::new();
    for start in &starts {
        fits.extend(attempt(start, STEPS_MAX)?);
    }
    fits.sort_by(|a, b| a.sum.total_cmp(&b.sum));
    // Where another choice does as well, the measurements do not tell, and the base profile's holds.
    let level = fits.first().map_or(0.0, |best| best.sum / CLEARLY);
    let level_with: Vec<&Found> = fits.iter().filter(|found| found.sum < level).collect();
    let own = |found: &&&Found| found.at.iter().zip(&free).all(|(at, free)| *free || *at == 0.0);
    let told = level_with.len() == 1;
    let Some(best) = level_with.iter().find(own).or(level_with.first()) else { return Some(fits.into_iter().next()) };
    let mut best = (*best).clone();
    for (deviation, free) in best.deviations.iter_mut().zip(&free) {
        if !free && !told {
            *deviation = SLACK;
        }
    }
    Some(Some(best))
}
