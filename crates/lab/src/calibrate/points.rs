//! What was measured, and the same simulated on a profile with changed values.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use ssd::profile::Profile;
use toml::Table;

use super::CalibrateOptions;
use super::parameters::{Parameter, scale};
use crate::validate::{Bed, Case, Drive, Figure, Figures, parallel, simulate_drive};

/// Figures that count, and how much: the rate says most; a percentile tells one law from
/// another with the same mean, but a busy host moves it, too.
const WEIGHTS: [(Figure, f64); 3] = [(Figure::Iops, 1.0), (Figure::P50, 0.3), (Figure::P95, 0.15)];

/// The share by which two measurements of one drive differ as a rule; residuals are counted in it.
const SPREAD: f64 = 0.03;

/// A ratio of which more or less says no more.
const RATIO_MAX: f64 = 100.0;

/// A load with its measured figures.
#[derive(Clone, Debug)]
pub struct Point {
    drive: Drive,
    measured: Figures,
}

impl Point {
    /// Of a row of a table, where it is a load on a drive without zones.
    pub fn of(row: &crate::validate::Row) -> Result<Self, String> {
        match &row.case {
            Ok(Case::Drive(drive)) if row.measured.get(Figure::Iops).is_some() => {
                Ok(Self { drive: *drive, measured: row.measured.clone() })
            }
            Ok(Case::Drive(_)) => Err("it has no rate".to_owned()),
            Ok(_) => Err("it is a measurement of zones".to_owned()),
            Err(reason) => Err(reason.clone()),
        }
    }

    /// How far `modelled` is off, weighed, as logarithms of ratios.
    fn residuals(&self, modelled: Option<&Figures>) -> Vec<f64> {
        let far = RATIO_MAX.ln();
        let residual = |(figure, weight): &(Figure, f64)| {
            let measured = self.measured.get(*figure).filter(|value| *value > 0.0)?;
            let modelled = modelled.and_then(|figures| figures.get(*figure)).filter(|value| *value > 0.0);
            // What the device cannot do is as far off as can be.
            let ratio = modelled.map_or(far, |modelled| (modelled / measured).ln().clamp(-far, far));
            Some(ratio * weight / SPREAD)
        };
        WEIGHTS.iter().filter_map(residual).collect()
    }
}

/// A point, and the logarithms of the factors that matter to it, bit by bit.
type Trial = (usize, Vec<u64>);

/// Simulations of all points with values scaled.
pub struct Trials<'a> {
    base: &'a Table,
    parameters: &'a [&'static Parameter],
    points: &'a [Point],
    options: &'a CalibrateOptions<'a>,
    known: Mutex<BTreeMap<Trial, Option<Figures>>>,
}

impl<'a> Trials<'a> {
    pub fn new(
        base: &'a Table,
        parameters: &'a [&'static Parameter],
        points: &'a [Point],
        options: &'a CalibrateOptions<'a>,
    ) -> Self {
        Self { base, parameters, points, options, known: Mutex::default() }
    }

    /// The profile whose parameters are scaled by e to the power of `at`; `None` where
    /// that describes no device.
    pub fn profile(&self, at: &[f64]) -> Option<Profile> {
        let mut document = self.base.clone();
        for (parameter, logarithm) in self.parameters.iter().zip(at) {
            if *logarithm != 0.0 {
                scale(&mut document, parameter, logarithm.exp());
            }
        }
        Profile::from_table("trial", &document).ok()
    }

    /// How much was simulated, in words.
    pub fn label(&self) -> String {
        let count = self.known.lock().unwrap_or_else(PoisonError::into_inner).len();
        format!("{count} simulations of {} loads", self.points.len())
    }

    /// The residuals at each of `places`, none where the values describe no device; `None`
    /// when it was stopped.
    pub fn residuals(&self, places: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
        let profiles: Vec<Option<Profile>> = places.iter().map(|at| self.profile(at)).collect();
        let key = |place: usize, point: usize| -> Trial {
            let told = |parameter: &&Parameter| parameter.tells.by(self.points[point].drive.op.reads());
            let factors = self.parameters.iter().zip(&places[place]).filter(|(parameter, _)| told(parameter));
            (point, factors.map(|(_, factor)| factor.to_bits()).collect::<Vec<u64>>())
        };
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted: BTreeMap<Trial, usize> = BTreeMap::new();
        for place in (0..places.len()).filter(|place| profiles[*place].is_some()) {
            for point in 0..self.points.len() {
                let key = key(place, point);
                if !known().contains_key(&key) {
                    wanted.insert(key, place);
                }
            }
        }
        let wanted: Vec<(Trial, usize)> = wanted.into_iter().collect();
        let CalibrateOptions { threads, stop, free_host, .. } = *self.options;
        let bed = Bed { free_host, ..Bed::QUICK };
        let halted = || stop.load(Ordering::Relaxed);
        parallel(wanted.len(), threads, stop, |index| {
            let (key, place) = &wanted[index];
            let drive = &self.points[key.0].drive;
            let profile = profiles[*place].as_ref();
            let figures = profile.and_then(|profile| simulate_drive(profile, drive, bed, &halted).ok());
            known().insert(key.clone(), figures);
        })?;
        let all = |place: usize| -> Vec<f64> {
            if profiles[place].is_none() {
                return Vec::new();
            }
            let known = known();
            let one =
                |point: usize| self.points[point].residuals(known.get(&key(place, point)).and_then(Option::as_ref));
            (0..self.points.len()).flat_map(one).collect()
        };
        Some((0..places.len()).map(all).collect())
    }
}
