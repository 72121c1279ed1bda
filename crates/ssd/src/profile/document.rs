//! A profile's text with the place of every key, so that errors can point at it.

use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ProfileError;

/// A file, and a line of it where one is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or what else the text came from.
    pub file: String,
    /// The line, from 1.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// A parsed text whose tables are taken out one by one.
pub(super) struct Document<'t> {
    file: &'t str,
    text: &'t str,
    /// Whether lines mean something to the reader.
    lines: bool,
    root: Spanned<DeTable<'t>>,
    /// Every key with its dots, its own span and that of key and value.
    keys: Vec<Key>,
}

struct Key {
    dotted: String,
    own: Range<usize>,
    whole: Range<usize>,
    leaf: bool,
}

impl<'t> Document<'t> {
    pub(super) fn parse(file: &'t str, text: &'t str, lines: bool) -> Result<Self, ProfileError> {
        let root = DeTable::parse(text).map_err(|error| {
            let line = error.span().filter(|_| lines).map(|span| line_of(text, span.start));
            let place = Place { file: file.to_owned(), line };
            ProfileError::Invalid { place, problem: format!("not TOML: {}", error.message()) }
        })?;
        let mut keys = Vec::new();
        collect(root.get_ref(), "", &mut keys);
        Ok(Self { file, text, lines, root, keys })
    }

    /// Takes the top-level key `key` out and reads it as a `T`.
    pub(super) fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, ProfileError> {
        match self.root.get_mut().remove(key) {
            None => Ok(None),
            Some(value) => {
                T::deserialize(toml::de::ValueDeserializer::from(value)).map(Some).map_err(|error| self.explain(&error))
            }
        }
    }

    /// Reads what is left as a `T`.
    pub(super) fn rest<T: DeserializeOwned>(&mut self) -> Result<T, ProfileError> {
        let span = self.root.span();
        let root = std::mem::replace(&mut self.root, Spanned::new(span, DeTable::new()));
        T::deserialize(toml::Deserializer::from(root)).map_err(|error| self.explain(&error))
    }

    /// Dotted names of all keys that hold no table.
    pub(super) fn leaves(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter(|key| key.leaf).map(|key| key.dotted.as_str())
    }

    /// An error about the key of this dotted name.
    pub(super) fn about(&self, dotted: &str, problem: String) -> ProfileError {
        let offset = self.keys.iter().find(|key| key.dotted == dotted).map(|key| key.own.start);
        ProfileError::Invalid { place: self.place(offset), problem }
    }

    /// An error that a configuration's own check found; its text names a key in
    /// backticks.
    pub(super) fn about_quoted(&self, problem: String) -> ProfileError {
        let dotted = problem.split('`').nth(1).unwrap_or_default().to_owned();
        self.about(&dotted, problem)
    }

    /// What serde found wrong, with the key's place and, for an unknown key, the
    /// nearest known one.
    fn explain(&self, error: &toml::de::Error) -> ProfileError {
        let offset = error.span().map(|span| span.start);
        let key = offset.and_then(|offset| {
            self.keys.iter().filter(|key| key.whole.contains(&offset)).min_by_key(|key| key.whole.len())
        });
        let message = error.message();
        let mut quoted = message.split('`').skip(1).step_by(2);
        let problem = if message.starts_with("unknown field") || message.starts_with("unknown variant") {
            let unknown = quoted.next().unwrap_or_default();
            let known: Vec<&str> = quoted.collect();
            let nearest = nearest(unknown, known.iter().copied())
                .map(|name| format!("did you mean `{name}`?"))
                .unwrap_or_else(|| "remove it".to_owned());
            let what = if message.starts_with("unknown field") { "key" } else { "value" };
            format!("unknown {what} `{unknown}`; {nearest} (known here: {})", known.join(", "))
        } else if message.starts_with("missing field") {
            let missing = quoted.next().unwrap_or_default();
            let inside = key.map_or("at the top level".to_owned(), |key| format!("in `{}`", key.dotted));
            format!("`{missing}` is missing {inside}; add it")
        } else {
            match key {
                Some(key) => format!("`{}`: {message}", key.dotted),
                None => message.to_owned(),
            }
        };
        ProfileError::Invalid { place: self.place(offset), problem }
    }

    fn place(&self, offset: Option<usize>) -> Place {
        let line = offset.filter(|_| self.lines).map(|offset| line_of(self.text, offset));
        Place { file: self.file.to_owned(), line }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn collect(table: &DeTable<'_>, prefix: &str, keys: &mut Vec<Key>) {
    for (key, value) in table {
        let dotted = if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        let (own, inside) = (key.span(), value.span());
        let whole = own.start.min(inside.start)..own.end.max(inside.end);
        let table = match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        };
        keys.push(Key { dotted: dotted.clone(), own, whole, leaf: table.is_none() });
        if let Some(table) = table {
            collect(table, &dotted, keys);
        }
    }
}

/// The known name closest to `name`, if one is close.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    known
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(name.len()) / 2)
        .min()
        .map(|(_, candidate)| candidate)
}
