//! From a spec to its points.

use std::sync::Arc;

use toml::Value;

use super::{Override, Spec, SpecError, hash_document, leaves};

/// More points than this is a mistake in a spec, not an experiment.
const POINTS_MAX: usize = 100_000;

/// What says how results are shown, and not what they are.
const UNRELATED: [&str; 11] = [
    "sweep",
    "variants",
    "published",
    "plot",
    "heat_map",
    "interference",
    "derived",
    "metrics",
    "title",
    "description",
    "source",
];

/// One point of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its place in the sweep's order.
    pub index: usize,
    /// The swept keys and this point's values, in the spec's order.
    pub parameters: Vec<(String, Value)>,
    /// The document of this point alone.
    pub document: toml::Table,
    /// The same, typed.
    pub spec: Spec,
}

impl Point {
    /// How tables and progress bars call it: `iodepth=32 device=...`, or `-`
    /// for the only point.
    pub fn label(&self) -> String {
        if self.parameters.is_empty() {
            return "-".to_owned();
        }
        let parts: Vec<_> =
            self.parameters.iter().map(|(key, value)| format!("{}={}", short_key(key), value_text(value))).collect();
        parts.join(" ")
    }
}

/// The last part of a dotted path.
pub fn short_key(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// A value without TOML's quotes.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The Cartesian product of the sweep, the last key varying fastest.
pub(crate) fn expand(spec: &Spec, document: &toml::Table) -> Result<Vec<Arc<Point>>, SpecError> {
    let mut combinations: Vec<Vec<(String, Value)>> = vec![Vec::new()];
    for (key, values) in &spec.sweep {
        let values = match values {
            Value::Array(values) if values.is_empty() => return Err(SpecError::EmptySweep { key: key.clone() }),
            Value::Array(values) => values.clone(),
            single => vec![single.clone()],
        };
        if combinations.len().saturating_mul(values.len()) > POINTS_MAX {
            return Err(SpecError::TooManyPoints { limit: POINTS_MAX });
        }
        combinations = combinations
            .iter()
            .flat_map(|head| {
                values.iter().map(move |value| {
                    let mut parameters = head.clone();
                    parameters.push((key.clone(), value.clone()));
                    parameters
                })
            })
            .collect();
    }
    let point = |(index, parameters)| point(spec, document, index, parameters).map(Arc::new);
    combinations.into_iter().enumerate().map(point).collect()
}

fn point(
    whole: &Spec,
    original: &toml::Table,
    index: usize,
    parameters: Vec<(String, Value)>,
) -> Result<Point, SpecError> {
    let mut document = original.clone();
    // What does not change a point's own result must not change its key.
    for unrelated in UNRELATED {
        document.remove(unrelated);
    }
    for (key, value) in &parameters {
        match whole.variants.get(key) {
            None => Override::new(key, value.clone()).apply(&mut document)?,
            Some(variants) => {
                let name = value_text(value);
                let bundle = variants.get(&name).ok_or_else(|| SpecError::NoVariant {
                    key: key.clone(),
                    value: name,
                    known: variants.keys().cloned().collect::<Vec<_>>().join(", "),
                })?;
                for (path, value) in leaves(bundle) {
                    Override::new(&path, value).apply(&mut document)?;
                }
            }
        }
    }
    let mut typed = document.clone();
    typed.insert("title".to_owned(), Value::String(whole.title.clone()));
    let spec = serde::Deserialize::deserialize(typed).map_err(|error: toml::de::Error| {
        // The spec without its sweep is sound, so one of these is not.
        let culprit = |keys: &[(String, Value)]| {
            let mut document = original.clone();
            keys.iter().all(|(key, value)| Override::new(key, value.clone()).apply(&mut document).is_ok())
                && <Spec as serde::Deserialize>::deserialize(document).is_err()
        };
        let first = (0..parameters.len()).find(|last| culprit(&parameters[..=*last])).map(|last| &parameters[last]);
        SpecError::Override {
            change: first.map(|(key, value)| format!("[sweep] `{key}` = {value}")),
            swept: first.or(parameters.first()).map(|(key, _)| key.clone()),
            message: error.message().trim_end().to_owned(),
        }
    })?;
    Ok(Point { index, parameters, document, spec })
}

impl Point {
    /// Names the result of one run: settings, inputs and seed decide it, nothing else.
    ///
    /// `inputs` identifies what the spec refers to (device profile, job file,
    /// trace) by content, so where those files lie does not matter.
    pub fn key(&self, seed: u64, inputs: &str) -> String {
        let mut document = self.document.clone();
        for (table, keys) in [
            ("run", ["repeats", "seed", ""]),
            ("workload", ["fio", "fio_file", "trace"]),
            ("stack", ["device", "", ""]),
        ] {
            if let Some(Value::Table(table)) = document.get_mut(table) {
                keys.iter().for_each(|key| drop(table.remove(*key)));
            }
        }
        document.insert("seed".to_owned(), Value::String(seed.to_string()));
        document.insert("inputs".to_owned(), Value::String(inputs.to_owned()));
        hash_document(&document)
    }
}
