//! Devices by name or file, with changes.

use std::path::Path;

use ssd::profile::{Profile, ProfileError, builtin_text};
use toml::{Table, Value};

use crate::run::LabError;
use crate::spec::{Override, value_text};

/// A profile with the text that describes it.
#[derive(Clone, Debug)]
pub struct Described {
    /// The profile.
    pub profile: Profile,
    /// Its document after changes.
    pub document: Table,
}

/// The profile called `device`: a built-in name, or a file below `folder` when
/// it ends in `.toml`; `changes` are dotted paths into the profile.
pub fn describe(device: &str, folder: &Path, changes: &[Override]) -> Result<Described, LabError> {
    let (file, text) = if device.ends_with(".toml") {
        let path = folder.join(device);
        let text = Profile::read_text(&path)?;
        (path.display().to_string(), text)
    } else {
        (format!("devices/{device}.toml"), builtin_text(device)?.to_owned())
    };
    // From the text first: only this way do errors know their line.
    let profile = Profile::from_toml(&file, &text)?;
    // What the profile accepts, TOML accepts.
    let mut document: Table = toml::from_str(&text).unwrap_or_default();
    if changes.is_empty() {
        return Ok(Described { profile, document });
    }
    for change in changes {
        change.apply(&mut document)?;
    }
    // The file is sound, so what is wrong now is a change.
    let profile = Profile::from_table(&file, &document).map_err(|error| match error {
        ProfileError::Invalid { .. } | ProfileError::Several { .. } => {
            let changes: Vec<String> = changes.iter().map(Override::pair).collect();
            LabError::Unfit { message: format!("stack.device_set {} does not fit {error}", changes.join(", ")) }
        }
        other => other.into(),
    })?;
    Ok(Described { profile, document })
}

impl Described {
    /// Every parameter, by dotted key, as text.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        for (key, value) in leaves(&self.document) {
            let top = key.split('.').next().unwrap_or_default();
            if !["name", "kind", "description", "sources", "expect"].contains(&top) {
                facts.push((key, text_of(&value)));
            }
        }
        facts
    }
}

/// A value without TOML's quotes and brackets.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(", "),
        single => value_text(single),
    }
}

/// The values of nested tables, each by its dotted path.
pub(crate) fn leaves(table: &Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                found.extend(leaves(inner).into_iter().map(|(path, value)| (format!("{key}.{path}"), value)));
            }
            other => found.push((key.clone(), other.clone())),
        }
    }
    found
}
