//! A profile's laws fitted to a drive's own measurements: `plumb calibrate device`.
//!
//! A profile near the drive gives its build: geometry, sizes, policies. Times and rates are
//! then scaled until the loads that were measured, simulated as [`crate::validate`] does, have
//! the measured rates and latencies. What no measurement tells keeps the value of that profile,
//! and the result says so.

mod least_squares;
mod parameters;
mod points;
mod profile;
mod search;

use std::sync::atomic::AtomicBool;

use serde::Serialize;
use ssd::profile::builtin_names;
use toml::Value;

use crate::Observer;
use crate::device::Described;
use crate::validate::{JudgeOptions, Table, Verdict, judge};
use parameters::value;
use points::{Point, Trials};
use search::search;

/// A value whose logarithm the measurements leave this much room is not told by them.
const UNTOLD: f64 = 0.5;

/// A value that moved less than this did not move.
const UNMOVED: f64 = 0.01;

/// Measurements fewer than these are no ground for a device.
const POINTS_MIN: usize = 2;

/// How to go about it.
pub struct CalibrateOptions<'a> {
    /// Name of the profile that comes out.
    pub name: &'a str,
    /// Whether the measurements are free of the host's time: Plumb's model of it is left out.
    pub free_host: bool,
    /// Worker threads; results do not depend on it.
    pub threads: usize,
    /// Told of progress.
    pub observer: &'a dyn Observer,
    /// Set to give up.
    pub stop: &'a AtomicBool,
}

/// Why nothing was fitted.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// Measurements of another kind.
    #[error(
        "`{base}` has zones; its laws are fitted to tables of their own (docs/validate.md). Give --base a drive without zones"
    )]
    Zoned {
        /// The base profile.
        base: String,
    },
    /// Too little to go by.
    #[error("{found} of {rows} measurements can be used, and it takes {POINTS_MIN}{}", listed(reasons))]
    TooFew {
        /// Those that can.
        found: usize,
        /// All of them.
        rows: usize,
        /// Why the others cannot.
        reasons: Vec<String>,
    },
    /// The fit came to nothing that can be written down.
    #[error("`{base}` cannot be made to do what was measured: {problem}; give --base another profile")]
    Unfit {
        /// The base profile.
        base: String,
        /// Why.
        problem: String,
    },
}

fn listed(reasons: &[String]) -> String {
    reasons.iter().map(|reason| format!("\n  {reason}")).collect()
}

/// What the measurements say of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "told")]
pub enum Told {
    /// They tell it.
    Fitted {
        /// One standard deviation, as a share of the value.
        within: f64,
    },
    /// They tell only that it is on this side of the base's value: other laws limit
    /// everything measured.
    Bound,
    /// They do not tell it; the base profile's value stays.
    Kept,
}

/// A parameter before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Dotted keys, scaled together.
    pub keys: Vec<&'static str>,
    /// The first one's value in the base profile.
    pub before: String,
    /// Its value now.
    pub after: String,
    /// Now over before.
    pub factor: f64,
    /// How well the measurements tell it.
    #[serde(flatten)]
    pub told: Told,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// The profile that it began with.
    pub base: String,
    /// The parameters.
    pub fits: Vec<Fit>,
    /// The measurements beside the base profile.
    pub before: Verdict,
    /// The measurements beside the fitted profile.
    pub after: Verdict,
    /// The fitted profile as TOML.
    pub profile: String,
}

/// The built-in profile that is nearest to the measurements in `tables`, of those without zones;
/// `None` when it was stopped.
///
/// # Errors
/// When there are too few measurements.
pub fn nearest(tables: &[Table], options: &CalibrateOptions<'_>) -> Result<Option<Described>, CalibrateError> {
    let points = usable(tables)?;
    let mut best: Option<(f64, Described)> = None;
    for name in builtin_names() {
        let Ok(base) = crate::device::describe(name, std::path::Path::new(""), &[]) else { continue };
        let Ok(document) = base.profile.document() else { continue };
        if parameters::of(&base.profile, &document).is_err() {
            continue;
        }
        let trials = Trials::new(&document, &[], &points, options);
        let Some(residuals) = trials.residuals(&[Vec::new()]) else { return Ok(None) };
        let sum: f64 = residuals.iter().flatten().map(|residual| residual * residual).sum();
        if best.as_ref().is_none_or(|(least, _)| sum < *least) {
            best = Some((sum, base));
        }
    }
    Ok(best.map(|(_, base)| base))
}

/// Fits `base` to the measurements in `tables`; `None` when it was stopped.
///
/// # Errors
/// When the profile has zones, or there are too few measurements.
pub fn calibrate(
    base: &Described,
    tables: &[Table],
    options: &CalibrateOptions<'_>,
) -> Result<Option<Calibration>, CalibrateError> {
    let unfit = |problem: String| CalibrateError::Unfit { base: base.profile.name.clone(), problem };
    let document = base.profile.document().map_err(|error| unfit(error.to_string()))?;
    let parameters = parameters::of(&base.profile, &document)?;
    let points = usable(tables)?;
    let trials = Trials::new(&document, &parameters, &points, options);
    let Some(found) = search(&document, &parameters, &trials, options) else { return Ok(None) };
    let Some(mut found) = found else { return Err(unfit("it does none of the loads".to_owned())) };
    let told: Vec<Told> = found.at.iter().zip(&found.deviations).map(|(at, deviation)| tell(*at, *deviation)).collect();
    for (at, told) in found.at.iter_mut().zip(&told) {
        if *told == Told::Kept {
            *at = 0.0;
        }
    }
    let fitted = trials.profile(&found.at).ok_or_else(|| unfit("its values describe no device".to_owned()))?;
    let after = fitted.document().map_err(|error| unfit(error.to_string()))?;
    let fits = parameters.iter().zip(&found.at).zip(told).map(|((parameter, at), told)| Fit {
        keys: parameter.keys.iter().copied().filter(|key| value(&document, key).is_some()).collect(),
        before: shown(value(&document, parameter.keys[0])),
        after: shown(value(&after, parameter.keys[0])),
        factor: at.exp(),
        told,
    });
    let fits: Vec<Fit> = fits.collect();
    let beside = |device: &Described| {
        let host = options.free_host.then_some(crate::validate::Host::None);
        let options = JudgeOptions { host, threads: options.threads, observer: &crate::Quiet, stop: options.stop };
        judge(device, tables, &options)
    };
    let Some(before) = beside(base) else { return Ok(None) };
    let Some(verdict) = beside(&Described { profile: fitted.clone(), document: after }) else { return Ok(None) };
    let origins: Vec<&str> = tables.iter().map(|table| table.origin.as_str()).collect();
    let profile = profile::text(&fitted, base, options.name, &fits, &origins, &verdict).map_err(unfit)?;
    Ok(Some(Calibration { base: base.profile.name.clone(), fits, before, after: verdict, profile }))
}

/// The measurements that are loads on a drive without zones.
fn usable(tables: &[Table]) -> Result<Vec<Point>, CalibrateError> {
    let (mut points, mut reasons) = (Vec::new(), Vec::new());
    for (table, row) in tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))) {
        match Point::of(row) {
            Ok(point) => points.push(point),
            Err(reason) => reasons.push(format!("{}:{}: {}: {reason}", table.origin, row.line, row.label)),
        }
    }
    if points.len() < POINTS_MIN {
        return Err(CalibrateError::TooFew { found: points.len(), rows: points.len() + reasons.len(), reasons });
    }
    Ok(points)
}

fn tell(at: f64, deviation: f64) -> Told {
    match (deviation < UNTOLD, at.abs() < UNMOVED) {
        (true, _) => Told::Fitted { within: deviation.exp_m1() },
        (false, false) => Told::Bound,
        (false, true) => Told::Kept,
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or(String::new(), crate::device::text_of)
}
