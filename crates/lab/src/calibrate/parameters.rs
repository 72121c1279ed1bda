//! Which laws of a device measurements may tell.

use ssd::profile::{DeviceConfig, Profile};
use toml::{Table, Value};
use units::{ByteSize, Nanos};

use super::CalibrateError;

/// Which loads tell a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Both.
    All,
}

impl Tells {
    /// Whether reads (or writes) do.
    pub fn by(self, reads: bool) -> bool {
        match self {
            Self::All => true,
            Self::Reads => reads,
            Self::Writes => !reads,
        }
    }
}

/// Values of a profile that are scaled together, because loads do not tell them apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Their dotted keys; the first one stands for all.
    pub keys: &'static [&'static str],
    /// Which loads tell them.
    pub tells: Tells,
    /// The values that there are, where only some exist.
    pub choices: &'static [u64],
}

const fn scaled(keys: &'static [&'static str], tells: Tells) -> Parameter {
    Parameter { keys, tells, choices: &[] }
}

/// Erases show in no latency below the drive's write cache, and the size of a cache in none
/// of a load's mean figures: neither is fitted.
const SSD: [Parameter; 8] = [
    scaled(&["cell.read", "slc_cache.read"], Tells::Reads),
    scaled(&["cell.program"], Tells::Writes),
    scaled(&["slc_cache.program"], Tells::Writes),
    scaled(&["channel.bandwidth"], Tells::All),
    scaled(&["controller.read"], Tells::Reads),
    scaled(&["controller.write"], Tells::Writes),
    scaled(&["link.bandwidth"], Tells::All),
    scaled(&["link.submission_latency", "link.completion_latency"], Tells::All),
];

const DISK: [Parameter; 7] = [
    // Speeds of rotation that drives are sold with.
    Parameter { keys: &["geometry.rpm"], tells: Tells::All, choices: &[5400, 5900, 7200, 10_000, 15_000] },
    scaled(&["geometry.outer_rate"], Tells::All),
    scaled(&["geometry.inner_rate"], Tells::All),
    scaled(&["seek.average", "seek.full_stroke", "seek.track_to_track", "seek.head_switch"], Tells::All),
    scaled(&["seek.write_settle"], Tells::Writes),
    scaled(&["controller.command_overhead"], Tells::All),
    scaled(&["link.bandwidth"], Tells::All),
];

const CARD: [Parameter; 4] = [
    scaled(&["controller.command_overhead"], Tells::All),
    scaled(&["bus.bandwidth"], Tells::All),
    scaled(&["flash.read"], Tells::Reads),
    scaled(&["flash.program"], Tells::Writes),
];

/// The parameters of a profile that can be fitted: those that it has.
///
/// # Errors
/// For a device with zones.
pub fn of(profile: &Profile, document: &Table) -> Result<Vec<&'static Parameter>, CalibrateError> {
    let known: &'static [Parameter] = match &profile.config {
        DeviceConfig::Ssd(_) => &SSD,
        DeviceConfig::Disk(_) => &DISK,
        DeviceConfig::Card(_) => &CARD,
        DeviceConfig::Zoned(_) => return Err(CalibrateError::Zoned { base: profile.name.clone() }),
    };
    let has = |parameter: &&Parameter| parameter.keys.first().is_some_and(|key| value(document, key).is_some());
    Ok(known.iter().filter(has).collect())
}

/// The value of a dotted key; `None` also where there is nothing to scale: a zero.
pub fn value<'t>(document: &'t Table, key: &str) -> Option<&'t Value> {
    let (first, rest) = key.split_once('.')?;
    let value = document.get(first)?.as_table()?.get(rest)?;
    number(value).is_some_and(|number| number > 0.0).then_some(value)
}

/// A time in nanoseconds, a size in bytes, or a plain number; of several, the first.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Array(items) => number(items.first()?),
        Value::Integer(number) => Some(*number as f64),
        Value::String(text) if text.ends_with('s') => text.parse::<Nanos>().ok().map(|time| time.0 as f64),
        Value::String(text) => text.parse::<ByteSize>().ok().map(|size| size.0 as f64),
        _ => None,
    }
}

/// Scales the values of `parameter` in `document` by `factor`.
pub fn scale(document: &mut Table, parameter: &Parameter, factor: f64) {
    for key in parameter.keys {
        let Some((first, rest)) = key.split_once('.') else { continue };
        let table = document.get_mut(first).and_then(Value::as_table_mut);
        if let Some(value) = table.and_then(|table| table.get_mut(rest)) {
            *value = times(value, factor);
        }
    }
}

fn times(value: &Value, factor: f64) -> Value {
    let by = |number: u64| rounded(number as f64 * factor);
    match value {
        Value::Array(items) => items.iter().map(|item| times(item, factor)).collect::<Vec<_>>().into(),
        Value::Integer(number) => (rounded(*number as f64 * factor) as i64).into(),
        Value::String(text) if text.ends_with('s') => match text.parse::<Nanos>() {
            Ok(time) => format!("{}ns", by(time.0)).into(),
            Err(_) => value.clone(),
        },
        Value::String(text) => match text.parse::<ByteSize>() {
            Ok(size) => ByteSize(by(size.0)).to_string().into(),
            Err(_) => value.clone(),
        },
        other => other.clone(),
    }
}

/// To four digits: more would promise what no measurement tells.
fn rounded(number: f64) -> u64 {
    let unit = 10_f64.powi(number.max(1.0).log10().floor() as i32 - 3).max(1.0);
    ((number / unit).round() * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssd::profile::builtin_names;

    #[test]
    fn every_value_is_scaled() {
        for name in builtin_names().filter(|name| *name != "wd-zn540" && *name != "confznspp") {
            let profile = Profile::builtin(name).unwrap();
            let document = profile.document().unwrap();
            for parameter in of(&profile, &document).unwrap() {
                let mut there = document.clone();
                scale(&mut there, parameter, 2.0);
                Profile::from_table(name, &there).unwrap_or_else(|error| panic!("{name}, {parameter:?}: {error}"));
                for key in parameter.keys {
                    let read = |document| value(document, key).and_then(number);
                    let (Some(before), Some(after)) = (read(&document), read(&there)) else { continue };
                    assert!((after / before - 2.0).abs() < 0.002, "{name}: {key} {before} {after}");
                }
            }
        }
    }

    #[test]
    fn four_digits_are_kept() {
        for (number, kept) in [(0.3, 0), (7.0, 7), (1234.4, 1234), (123_449.0, 123_400), (190_514_401.0, 190_500_000)] {
            assert_eq!(rounded(number), kept);
        }
    }

    #[test]
    fn a_device_with_zones_has_none() {
        let profile = Profile::builtin("wd-zn540").unwrap();
        let document = profile.document().unwrap();
        assert!(matches!(of(&profile, &document), Err(CalibrateError::Zoned { .. })));
    }
}
