//! The fitted profile as a file.

use std::collections::BTreeMap;

use ssd::profile::Profile;

use super::{Fit, Told};
use crate::device::Described;
use crate::validate::{Figure, Verdict};

/// The text of `fitted`: with the source of each value, which is the measurements' files for
/// what they tell and the base profile's source for the rest; without the base drive's figures.
pub(super) fn text(
    fitted: &Profile,
    base: &Described,
    name: &str,
    fits: &[Fit],
    origins: &[&str],
    verdict: &Verdict,
) -> Result<String, String> {
    let mut profile = fitted.clone();
    profile.name = name.to_owned();
    profile.description = description(&base.profile.name, origins, verdict);
    profile.expectations = Vec::new();
    profile.sources = sources(&base.profile, fitted.parameters(), fits, origins);
    let text = profile.to_toml().map_err(|error| error.to_string())?;
    // What is handed out is known to be readable.
    Profile::from_toml(name, &text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn description(base: &str, origins: &[&str], verdict: &Verdict) -> String {
    let mut text = format!("Fitted to {} by plumb calibrate device, from {base}.", origins.join(", "));
    let rates = verdict.tables.iter().flat_map(|table| &table.summary);
    let mut errors: Vec<(usize, f64, f64)> = Vec::new();
    errors.extend(rates.filter(|summary| summary.figure == Figure::Iops).map(|s| (s.rows, s.median, s.worst)));
    if let [(rows, median, worst)] = errors[..] {
        text += &format!(
            " Rates of {rows} measurements: median error {:.1} %, worst {:.1} %.",
            median * 100.0,
            worst * 100.0
        );
    }
    text
}

fn sources(base: &Profile, parameters: &[String], fits: &[Fit], origins: &[&str]) -> BTreeMap<String, String> {
    // One for each value: a source of a whole table cannot stand beside that of one value in it.
    let kept = parameters.iter().filter_map(|parameter| Some((parameter.clone(), base.source(parameter)?.to_owned())));
    let mut sources: BTreeMap<String, String> = kept.collect();
    let files = origins.join(", ");
    for fit in fits {
        for (index, key) in fit.keys.iter().enumerate() {
            let told = match fit.told {
                Told::Fitted { within } => format!("fitted to {files}, within {:.1} % (one sigma)", within * 100.0),
                Told::Bound if fit.factor > 1.0 => format!("fitted to {files}, as a lower bound"),
                Told::Bound => format!("fitted to {files}, as an upper bound"),
                Told::Kept => continue,
            };
            let with = if index == 0 { told } else { format!("{told}; scaled with {}", fit.keys[0]) };
            sources.insert((*key).to_owned(), with);
        }
    }
    sources
}
