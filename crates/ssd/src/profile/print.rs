//! A profile as TOML, complete: every value that holds, given or not.

use serde::Serialize;
use toml::{Table, Value};
use units::{ByteSize, Nanos};

use super::{DeviceConfig, Profile};

impl Profile {
    /// Everything in it as a document, in the order of its types; what the text did
    /// not give stands with its default.
    ///
    /// # Errors
    /// When a value has no form in TOML: a whole number of 2^63 or more.
    pub fn document(&self) -> Result<Table, toml::ser::Error> {
        let mut document = Table::new();
        document.insert("name".to_owned(), self.name.clone().into());
        document.insert("kind".to_owned(), self.config.kind().into());
        document.insert("description".to_owned(), self.description.clone().into());
        document.extend(self.config.document()?);
        if !self.sources.is_empty() {
            let mut sources = Table::new();
            for (key, source) in &self.sources {
                insert(&mut sources, &key.split('.').collect::<Vec<_>>(), source.clone().into());
            }
            document.insert("sources".to_owned(), sources.into());
        }
        if !self.expectations.is_empty() {
            document.insert("expect".to_owned(), readable(Value::try_from(&self.expectations)?));
        }
        Ok(document)
    }

    /// [`Profile::document`] as text that a person reads, and that
    /// [`Profile::from_toml`] reads back to the same device, sources and figures.
    ///
    /// # Errors
    /// As [`Profile::document`].
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let document = self.document()?;
        let mut text = String::new();
        let lines = |table: &Table| -> String {
            let plain = table.iter().filter(|(_, value)| !value.is_table());
            plain.map(|(key, value)| format!("{} = {value}\n", key_text(key))).collect()
        };
        let parts = |table: &Table| -> String {
            table.iter().map(|(key, value)| format!("{} = {value}\n", key_text(key))).collect()
        };
        let whole: Table =
            document.iter().filter(|(key, _)| *key != "expect").map(|(k, v)| (k.clone(), v.clone())).collect();
        text += &lines(&whole);
        for (key, value) in whole.iter().filter(|(key, _)| *key != "sources") {
            if let Value::Table(table) = value {
                text += &format!("\n[{}]\n{}", key_text(key), parts(table));
            }
        }
        if !self.sources.is_empty() {
            text += "\n[sources]\n";
            for (key, source) in &self.sources {
                let dotted: Vec<String> = key.split('.').map(key_text).collect();
                text += &format!("{} = {}\n", dotted.join("."), Value::from(source.clone()));
            }
        }
        for row in document.get("expect").and_then(Value::as_array).into_iter().flatten() {
            if let Value::Table(row) = row {
                text += &format!("\n[[expect]]\n{}", parts(row));
            }
        }
        Ok(text)
    }
}

impl DeviceConfig {
    /// What a profile calls this kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Ssd(_) => "ssd",
            Self::Zoned(_) => "zoned",
            Self::Disk(_) => "disk",
            Self::Card(_) => "card",
        }
    }

    fn document(&self) -> Result<Table, toml::ser::Error> {
        match self {
            Self::Ssd(config) => table(config.as_ref()),
            Self::Zoned(config) => table(config.as_ref()),
            Self::Disk(config) => table(config.as_ref()),
            Self::Card(config) => table(config.as_ref()),
        }
    }
}

fn table(config: &impl Serialize) -> Result<Table, toml::ser::Error> {
    match readable(Value::try_from(config)?) {
        Value::Table(table) => Ok(table),
        // Every configuration is a struct.
        _ => Ok(Table::new()),
    }
}

/// Puts a value at a path, with the tables on the way.
fn insert(table: &mut Table, path: &[&str], value: Value) {
    match path {
        [] => {}
        [last] => drop(table.insert((*last).to_owned(), value)),
        [first, rest @ ..] => {
            let inner = table.entry((*first).to_owned()).or_insert_with(|| Table::new().into());
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// Times and sizes in the largest unit that tells them exactly.
fn readable(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(time(&text).or_else(|| size(&text)).unwrap_or(text)),
        Value::Array(items) => items.into_iter().map(readable).collect::<Vec<_>>().into(),
        Value::Table(table) => Value::Table(table.into_iter().map(|(key, value)| (key, readable(value))).collect()),
        other => other,
    }
}

fn time(text: &str) -> Option<String> {
    let ns: u64 = text.strip_suffix("ns")?.parse().ok()?;
    let units = [("s", 1_000_000_000.0), ("ms", 1e6), ("us", 1e3)];
    let shown = units.into_iter().filter(|(_, unit)| ns as f64 >= *unit);
    let mut shown = shown.map(|(name, unit)| format!("{}{name}", ns as f64 / unit));
    shown.find(|shown| shown.parse() == Ok(Nanos(ns)))
}

fn size(text: &str) -> Option<String> {
    let bytes: u64 = text.strip_suffix('B')?.parse().ok()?;
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let shown = units.into_iter().filter(|(_, unit)| bytes as f64 >= *unit);
    let mut shown = shown.map(|(name, unit)| format!("{}{name}", bytes as f64 / unit));
    // Where the binary units do not tell it, which ByteSize has tried.
    shown.find(|shown| shown.len() <= 8 && shown.parse() == Ok(ByteSize(bytes)))
}

/// A key, in quotes where TOML wants them.
fn key_text(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if bare { key.to_owned() } else { Value::from(key).to_string() }
}
