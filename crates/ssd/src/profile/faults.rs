//! Everything that is wrong with the keys of a table, in one go.
//!
//! serde stops at the first fault. Here each fault is put right in a copy (an
//! unknown key taken out, a missing or wrong value replaced by one that its type
//! takes) and the copy read again, until it reads: so the types stay the only
//! description of what a profile holds.

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::nearest;

/// Faults that are worth reading.
const FAULTS_MAX: usize = 100;

/// Readings of one table: faults times the values tried for each.
const READINGS_MAX: usize = FAULTS_MAX * (SAMPLES.len() + 1);

/// One fault.
#[derive(Debug)]
pub(super) struct Fault {
    /// Byte of the text, where the fault has one.
    pub(super) offset: Option<usize>,
    /// What is wrong, and the remedy.
    pub(super) problem: String,
}

/// Values of every type that a profile's keys have, as TOML.
const SAMPLES: [&str; 8] = ["\"1us\"", "\"4KiB\"", "1", "0.5", "true", "{}", "[]", "[\"1us\"]"];

/// A step from a table or array inwards.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Item(usize),
}

/// A value, and where its text is; `None` where it was put in.
#[derive(Clone)]
struct Node<'t> {
    offset: Option<usize>,
    kind: Kind<'t>,
}

#[derive(Clone)]
enum Kind<'t> {
    Leaf(DeValue<'t>),
    Array(Vec<Node<'t>>),
    Table(Vec<(String, Option<usize>, Node<'t>)>),
}

/// What the span of a number stands for in one reading.
struct Id {
    path: Vec<Step>,
    is_key: bool,
    offset: Option<usize>,
}

impl<'t> Node<'t> {
    fn of_table(table: &DeTable<'t>, offset: Option<usize>) -> Self {
        let entries = table.iter().map(|(key, value)| {
            (key.get_ref().to_string(), Some(key.span().start), Self::of(value.get_ref(), Some(value.span().start)))
        });
        Self { offset, kind: Kind::Table(entries.collect()) }
    }

    fn of(value: &DeValue<'t>, offset: Option<usize>) -> Self {
        let kind = match value {
            DeValue::Table(table) => return Self::of_table(table, offset),
            DeValue::Array(items) => {
                Kind::Array(items.iter().map(|item| Self::of(item.get_ref(), Some(item.span().start))).collect())
            }
            leaf => Kind::Leaf(leaf.clone()),
        };
        Self { offset, kind }
    }

    /// A value put in.
    fn sample(text: &'static str) -> Option<Node<'static>> {
        let value = DeValue::parse(text).ok()?;
        Some(Node { offset: None, kind: Node::of(value.get_ref(), None).kind })
    }

    /// The same for serde, with the number of each part in place of its span.
    fn numbered(&self, path: &mut Vec<Step>, ids: &mut Vec<Id>) -> Spanned<DeValue<'t>> {
        let number = ids.len();
        ids.push(Id { path: path.clone(), is_key: false, offset: self.offset });
        let value = match &self.kind {
            Kind::Leaf(leaf) => leaf.clone(),
            Kind::Array(items) => {
                let mut numbered = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    path.push(Step::Item(index));
                    numbered.push(item.numbered(path, ids));
                    path.pop();
                }
                DeValue::Array(numbered.into_iter().collect())
            }
            Kind::Table(entries) => {
                let mut table = DeTable::new();
                for (key, offset, value) in entries {
                    path.push(Step::Key(key.clone()));
                    let own = ids.len();
                    ids.push(Id { path: path.clone(), is_key: true, offset: *offset });
                    let value = value.numbered(path, ids);
                    table.insert(Spanned::new(own..own + 1, key.clone().into()), value);
                    path.pop();
                }
                DeValue::Table(table)
            }
        };
        Spanned::new(number..number + 1, value)
    }

    fn at(&mut self, path: &[Step]) -> Option<&mut Self> {
        let Some((step, rest)) = path.split_first() else { return Some(self) };
        match (&mut self.kind, step) {
            (Kind::Table(entries), Step::Key(key)) => entries.iter_mut().find(|(known, _, _)| known == key)?.2.at(rest),
            (Kind::Array(items), Step::Item(index)) => items.get_mut(*index)?.at(rest),
            _ => None,
        }
    }

    /// Takes a key out of its table; whether it was there.
    fn remove(&mut self, path: &[Step]) -> bool {
        let Some((Step::Key(key), parents)) = path.split_last() else { return false };
        let Some(Self { kind: Kind::Table(entries), .. }) = self.at(parents) else { return false };
        let before = entries.len();
        entries.retain(|(known, _, _)| known != key);
        entries.len() < before
    }

    /// Puts a value at a path whose parent is there; whether that could be.
    fn put(&mut self, path: &[Step], value: Node<'t>) -> bool {
        if let Some(place) = self.at(path) {
            *place = value;
            return true;
        }
        let Some((Step::Key(key), parents)) = path.split_last() else { return false };
        let Some(Self { kind: Kind::Table(entries), .. }) = self.at(parents) else { return false };
        entries.push((key.clone(), None, value));
        true
    }
}

/// `a.b[0].c`, in which items count from 1.
fn dotted(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text += key,
            Step::Key(key) => text += &format!(".{key}"),
            Step::Item(index) => text += &format!("[{}]", index + 1),
        }
    }
    text
}

/// A value that was put in, and which of those that may do.
struct Trial {
    path: Vec<Step>,
    next: usize,
}

/// Reads `table` as a `T`.
///
/// # Errors
/// Every unknown key, every missing key, and every value of a wrong type.
pub(super) fn read<T: DeserializeOwned>(table: &DeTable<'_>) -> Result<T, Vec<Fault>> {
    let mut root = Node::of_table(table, None);
    let mut faults: Vec<Fault> = Vec::new();
    let mut trials: Vec<Trial> = Vec::new();
    for _ in 0..READINGS_MAX {
        let mut ids = Vec::new();
        let whole = root.numbered(&mut Vec::new(), &mut ids);
        let error = match T::deserialize(toml::de::ValueDeserializer::from(whole)) {
            Ok(value) if faults.is_empty() => return Ok(value),
            Ok(_) => return Err(faults),
            Err(error) => error,
        };
        let Some(id) = error.span().and_then(|span| ids.get(span.start)) else {
            faults.push(Fault { offset: None, problem: error.message().trim_end().to_owned() });
            return Err(faults);
        };
        if faults.len() >= FAULTS_MAX || !next(&mut root, &mut trials, &mut faults, id, error.message()) {
            break;
        }
    }
    Err(faults)
}

/// Notes the fault at `id` and puts it right, or tries the next value where one
/// was put in; whether to read again.
fn next(root: &mut Node<'_>, trials: &mut Vec<Trial>, faults: &mut Vec<Fault>, id: &Id, message: &str) -> bool {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("missing field") {
        let missing = quoted.next().unwrap_or_default();
        let inside =
            if id.path.is_empty() { "at the top level".to_owned() } else { format!("in `{}`", dotted(&id.path)) };
        faults.push(Fault { offset: id.offset, problem: format!("`{missing}` is missing {inside}; add it") });
        let mut path = id.path.clone();
        path.push(Step::Key(missing.to_owned()));
        trials.push(Trial { path, next: 0 });
        return put_sample(root, trials.last_mut());
    }
    if id.is_key && message.starts_with("unknown field") {
        let unknown = quoted.next().unwrap_or_default();
        faults.push(Fault { offset: id.offset, problem: unknown_problem("key", unknown, quoted) });
        return root.remove(&id.path);
    }
    // What was put in last does not fit: the next one.
    if let Some(trial) = trials.iter_mut().rfind(|trial| id.path.starts_with(&trial.path)) {
        if message.starts_with("unknown variant")
            && let Some(variant) = quoted.nth(1)
        {
            let value = DeValue::String(variant.to_owned().into());
            trial.next = SAMPLES.len();
            return root.put(&trial.path, Node { offset: None, kind: Kind::Leaf(value) });
        }
        return put_sample(root, Some(trial));
    }
    let problem = if message.starts_with("unknown variant") {
        unknown_problem("value", quoted.next().unwrap_or_default(), quoted)
    } else if id.path.is_empty() {
        message.trim_end().to_owned()
    } else {
        format!("`{}`: {}", dotted(&id.path), message.trim_end())
    };
    faults.push(Fault { offset: id.offset, problem });
    trials.push(Trial { path: id.path.clone(), next: 0 });
    put_sample(root, trials.last_mut())
}

fn put_sample(root: &mut Node<'_>, trial: Option<&mut Trial>) -> bool {
    let Some(trial) = trial else { return false };
    let Some(text) = SAMPLES.get(trial.next) else { return false };
    trial.next += 1;
    Node::sample(text).is_some_and(|value| root.put(&trial.path, value))
}

fn unknown_problem<'m>(what: &str, unknown: &str, known: impl Iterator<Item = &'m str>) -> String {
    let known: Vec<&str> = known.collect();
    let remedy = nearest(unknown, known.iter().copied())
        .map_or_else(|| "remove it".to_owned(), |name| format!("did you mean `{name}`?"));
    format!("unknown {what} `{unknown}`; {remedy} (known here: {})", known.join(", "))
}
