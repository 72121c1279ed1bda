//! A profile's text with the place of every key, so that errors can point at it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ProfileError;
use super::faults::{self, Fault};

/// A file, and a line of it where one is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, or what else the text came from.
    pub file: String,
    /// The line, from 1.
    pub line: Option<usize>,
}

impl fmt::Display for SourceLine {
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
    keys: Keys,
}

/// Every key of a TOML text with its place, arrays' insides left out.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    dotted: String,
    own: Range<usize>,
    leaf: bool,
}

impl Keys {
    /// The keys of `table` and the tables in it.
    pub fn of(table: &DeTable<'_>) -> Self {
        let mut keys = Vec::new();
        collect(table, "", &mut keys);
        Self(keys)
    }

    /// The byte range of the key with this dotted name.
    pub fn own(&self, dotted: &str) -> Option<Range<usize>> {
        self.0.iter().find(|key| key.dotted == dotted).map(|key| key.own.clone())
    }

    /// That of the first key whose dotted name ends in this one.
    pub fn own_ending(&self, dotted: &str) -> Option<Range<usize>> {
        let ends = |key: &&Key| key.dotted.strip_suffix(dotted).is_some_and(|before| before.ends_with('.'));
        self.0.iter().find(ends).map(|key| key.own.clone())
    }
}

impl<'t> Document<'t> {
    pub(super) fn parse(file: &'t str, text: &'t str, lines: bool) -> Result<Self, ProfileError> {
        let root = DeTable::parse(text).map_err(|error| {
            let line = error.span().filter(|_| lines).map(|span| line_of(text, span.start));
            let place = SourceLine { file: file.to_owned(), line };
            ProfileError::Invalid { place, problem: format!("not TOML: {}", error.message()) }
        })?;
        let keys = Keys::of(root.get_ref());
        Ok(Self { file, text, lines, root, keys })
    }

    /// Takes the top-level key `key` out and reads it as a `T`; what is wrong goes to `faults`.
    pub(super) fn take<T: DeserializeOwned>(&mut self, key: &str, faults: &mut Vec<Fault>) -> Option<T> {
        let (key, value) = self.root.get_mut().remove_entry(key)?;
        let mut alone = DeTable::new();
        alone.insert(key, value);
        match faults::read::<BTreeMap<String, T>>(&alone) {
            Ok(read) => read.into_values().next(),
            Err(found) => {
                faults.extend(found);
                None
            }
        }
    }

    /// Reads what is left as a `T`.
    pub(super) fn rest<T: DeserializeOwned>(&self, faults: &mut Vec<Fault>) -> Option<T> {
        faults::read(self.root.get_ref()).map_err(|found| faults.extend(found)).ok()
    }

    /// One error of all `faults`, in the order of the text.
    pub(super) fn error(&self, mut faults: Vec<Fault>) -> ProfileError {
        // Those without a place of their own last.
        faults.sort_by_key(|fault| fault.offset.unwrap_or(usize::MAX));
        let mut placed: Vec<(SourceLine, String)> =
            faults.into_iter().map(|fault| (self.place(fault.offset), fault.problem)).collect();
        placed.dedup();
        match placed.len() {
            1 => {
                let (place, problem) = placed.remove(0);
                ProfileError::Invalid { place, problem }
            }
            _ => ProfileError::Several { file: self.file.to_owned(), faults: placed },
        }
    }

    /// Dotted names of all keys that hold no table.
    pub(super) fn leaves(&self) -> impl Iterator<Item = &str> {
        self.keys.0.iter().filter(|key| key.leaf).map(|key| key.dotted.as_str())
    }

    /// An error about the key of this dotted name.
    pub(super) fn about(&self, dotted: &str, problem: String) -> ProfileError {
        let offset = self.keys.own(dotted).map(|own| own.start);
        ProfileError::Invalid { place: self.place(offset), problem }
    }

    /// An error that a configuration's own check found; its text names a key in
    /// backticks.
    pub(super) fn about_quoted(&self, problem: String) -> ProfileError {
        let dotted = problem.split('`').nth(1).unwrap_or_default().to_owned();
        self.about(&dotted, problem)
    }

    fn place(&self, offset: Option<usize>) -> SourceLine {
        let line = offset.filter(|_| self.lines).map(|offset| line_of(self.text, offset));
        SourceLine { file: self.file.to_owned(), line }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn collect(table: &DeTable<'_>, prefix: &str, keys: &mut Vec<Key>) {
    for (key, value) in table {
        let dotted = if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        let table = match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        };
        keys.push(Key { dotted: dotted.clone(), own: key.span(), leaf: table.is_none() });
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
