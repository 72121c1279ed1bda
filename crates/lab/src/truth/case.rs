//! The set of cases: data, so that adding one is adding a few lines.

use linux::FrontEnd;
use serde::{Deserialize, Serialize};
use toml::Table;

/// The built-in set.
const CASES: &str = include_str!("cases.toml");

/// A job that runs under both hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Short name.
    pub name: String,
    /// What it asks.
    pub what: String,
    /// A fio job file.
    pub fio: String,
    /// How the streams are compared.
    #[serde(default)]
    pub compare: Comparing,
    /// How the guest sees the device.
    #[serde(default)]
    pub front_end: FrontEnd,
    /// Changes to the device profile.
    #[serde(default)]
    pub device_set: Table,
    /// A profile of its own instead of the validation's: for zoned devices.
    #[serde(default)]
    pub device: Option<String>,
    /// Settings of the block layer, under both hosts.
    #[serde(default)]
    pub block: Table,
    /// Settings of the modelled block layer alone: what the guest's driver decides.
    #[serde(default)]
    pub model_block: Table,
}

/// How two streams are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparing {
    /// Command by command, in order.
    #[default]
    Exact,
    /// The same commands, in any order: several jobs side by side.
    AnyOrder,
    /// The same lengths and flags; places are drawn at random.
    Shape,
    /// The same number of blocks: what is merged depends on timing.
    Volume,
    /// About the same number of blocks: lengths are drawn at random, by fio's own
    /// generator in one and by Plumb's in the other.
    Drawn,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    /// Changes to the device of cases that name none.
    device_set: Table,
    case: Vec<Case>,
}

/// The built-in cases, in order.
///
/// # Errors
/// Where the data is at fault; a test reads it.
pub fn cases() -> Result<Vec<Case>, toml::de::Error> {
    let Set { device_set, mut case } = toml::from_str::<Set>(CASES)?;
    for case in case.iter_mut().filter(|case| case.device.is_none()) {
        let mut all = device_set.clone();
        all.extend(std::mem::take(&mut case.device_set));
        case.device_set = all;
    }
    Ok(case)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_set_reads_and_its_names_are_its_own() {
        let cases = cases().unwrap();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        assert!(cases.iter().all(|case| !case.what.is_empty()));
    }
}
