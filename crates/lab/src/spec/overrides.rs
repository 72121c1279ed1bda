//! `KEY=VALUE` changes to a TOML document.

use std::str::FromStr;

use toml::{Table, Value};

use super::{SpecError, value_text};

/// A change to a document: a dotted path and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// Path parts; a quoted part may itself contain dots.
    path: Vec<String>,
    value: Value,
}

impl Override {
    /// A change made in code or by a sweep.
    pub fn new(key: &str, value: Value) -> Self {
        Self { path: split(key), value }
    }

    /// Makes the change, creating tables on the way.
    pub fn apply(&self, document: &mut Table) -> Result<(), SpecError> {
        let (last, parents) = self.path.split_last().ok_or_else(|| self.form())?;
        let mut table = document;
        for part in parents {
            let entry = table.entry(part.clone()).or_insert_with(|| Value::Table(Table::new()));
            table = entry
                .as_table_mut()
                .ok_or_else(|| SpecError::NotATable { key: self.path.join("."), part: part.clone() })?;
        }
        table.insert(last.clone(), self.value.clone());
        Ok(())
    }

    /// How the command line says it.
    pub(crate) fn said(&self) -> String {
        format!("--set {}", self.pair())
    }

    /// `KEY=VALUE`.
    pub(crate) fn pair(&self) -> String {
        format!("{}={}", self.path.join("."), value_text(&self.value))
    }

    fn form(&self) -> SpecError {
        SpecError::OverrideForm { text: self.path.join(".") }
    }
}

/// The value is TOML where it parses as TOML (`3`, `[1, 2]`, `"text"`), else text.
impl FromStr for Override {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let fail = || SpecError::OverrideForm { text: text.to_owned() };
        let (key, value) = text.split_once('=').ok_or_else(fail)?;
        let path = split(key.trim());
        if path.iter().any(String::is_empty) {
            return Err(fail());
        }
        let parsed = toml::from_str::<Table>(&format!("value = {value}"));
        let value = match parsed {
            Ok(mut table) if table.len() == 1 => {
                table.remove("value").unwrap_or_else(|| Value::String(value.to_owned()))
            }
            _ => Value::String(value.trim().to_owned()),
        };
        Ok(Self { path, value })
    }
}

/// Splits at dots outside double quotes.
fn split(key: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in key.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            _ => {
                if let Some(part) = parts.last_mut() {
                    part.push(c);
                }
            }
        }
    }
    parts
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms() {
        let mut document = Table::new();
        for text in ["a.b=3", "a.c=four", "list=[1, 2]", "a.\"x.y\"=true", "eq=a=b"] {
            text.parse::<Override>().unwrap().apply(&mut document).unwrap();
        }
        let want = "list = [1, 2]\neq = \"a=b\"\n[a]\nb = 3\nc = \"four\"\n\"x.y\" = true\n";
        assert_eq!(document, toml::from_str::<Table>(want).unwrap());
        for bad in ["novalue", "=3", "a..b=3"] {
            assert!(bad.parse::<Override>().is_err(), "{bad} was accepted");
        }
        let through_value = "a.b.c=1".parse::<Override>().unwrap().apply(&mut document);
        assert!(matches!(through_value, Err(SpecError::NotATable { .. })));
    }
}
