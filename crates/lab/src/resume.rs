//! Whether a results folder may be gone on with.

use std::collections::BTreeSet;

use toml::Value;

use crate::error::LabError;
use crate::experiment::Experiment;
use crate::outputs::read_experiment;
use crate::results::Store;
use crate::spec::{hash_document, leaves, value_text};

/// Differences that a message names.
const NAMED_MAX: usize = 5;

/// Refuses a folder that holds the results of another experiment. The same one
/// goes on; one that has all of its points and more goes on, too.
///
/// # Errors
/// When results would be lost or mixed, with what differs and how to go on.
pub fn check(store: &Store, experiment: &Experiment) -> Result<(), LabError> {
    if !store.folder().join("spec.toml").exists() {
        return Ok(());
    }
    let ways = "name another folder with --out, or forget its results with --fresh";
    let folder = store.folder().display();
    let known = read_experiment(store).map_err(|error| LabError::Unfit {
        message: format!("{folder} holds results whose spec cannot be read ({error}); {ways}"),
    })?;
    if known.hash() == experiment.hash() || extends(experiment, &known) {
        return Ok(());
    }
    let message =
        format!("{folder} holds the results of another experiment: {}; {ways}", differences(&known, experiment));
    Err(LabError::Unfit { message })
}

/// Whether every point of `known` is one of `experiment` too.
fn extends(experiment: &Experiment, known: &Experiment) -> bool {
    let identities = |experiment: &Experiment| -> BTreeSet<String> {
        let identity = |mut document: toml::Table| {
            if let Some(Value::Table(run)) = document.get_mut("run") {
                run.remove("repeats");
            }
            document.retain(|_, value| !matches!(value, Value::Table(table) if table.is_empty()));
            hash_document(&document)
        };
        experiment.points().iter().map(|point| identity(point.document.clone())).collect()
    };
    let (new, old) = (identities(experiment), identities(known));
    experiment.name == known.name && old.is_subset(&new) && experiment.spec.run.repeats >= known.spec.run.repeats
}

/// What differs, in words.
fn differences(known: &Experiment, new: &Experiment) -> String {
    let (old, new_leaves) = (leaves(&known.document), leaves(&new.document));
    let find = |pairs: &[(String, Value)], key: &str| {
        pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    let mut keys: Vec<&String> = old.iter().chain(&new_leaves).map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    let mut found = Vec::new();
    if known.name != new.name {
        found.push(format!("it is called `{}` there and `{}` here", known.name, new.name));
    }
    for key in keys {
        let (before, now) = (find(&old, key), find(&new_leaves, key));
        if before != now {
            found.push(format!("`{key}` is {} there and {} here", shown(before.as_ref()), shown(now.as_ref())));
        }
    }
    let more = found.len().saturating_sub(NAMED_MAX);
    found.truncate(NAMED_MAX);
    let mut text = found.join(", ");
    if more > 0 {
        text += &format!(", and {more} more");
    }
    text
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "not given".to_owned() };
    let text = value_text(value);
    match text.lines().count() {
        0 | 1 if text.chars().count() <= 60 => text,
        lines => format!("a text of {lines} lines"),
    }
}
