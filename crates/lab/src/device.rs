//! Devices by name or file, with changes.

use std::path::Path;

use ssd::profile::{Profile, ProfileError, builtin_text};
use toml::{Table, Value};

use crate::spec::{Override, SpecError, leaves, value_text};

/// A profile with the text that describes it.
#[derive(Clone, Debug)]
pub struct Described {
    /// The profile.
    pub profile: Profile,
    /// Its document after changes.
    pub document: Table,
}

/// Why there is no such device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The profile is at fault.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A change is none.
    #[error(transparent)]
    Change(#[from] SpecError),
    /// The changes do not fit the profile.
    #[error("stack.device_set {changes} does not fit {error}")]
    Unfit {
        /// All of them.
        changes: String,
        /// What is wrong.
        error: Box<ProfileError>,
    },
}

/// The profile called `device`: a built-in name, or a file below `folder` when
/// it ends in `.toml`; `changes` are dotted paths into the profile.
pub fn describe(device: &str, folder: &Path, changes: &[Override]) -> Result<Described, DeviceError> {
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
            DeviceError::Unfit { changes: changes.join(", "), error: Box::new(error) }
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
