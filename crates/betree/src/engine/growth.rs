//! Results of upserts that are longer than a value may be are refused with their batch.
//!
//! Most operators say that their results do not grow ([`Growth::UpTo`]): nothing is read for them. Of a value that grows
//! the memtable remembers a bound of its length, so that it is read once a memtable, and again near the limit. What an
//! operator without a word about it makes of a value is found out by carrying it out, and the result is inserted.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{Engine, View};
use crate::bytes::message::{Message, Upsert};
use crate::bytes::operator::Growth;
use crate::bytes::range::{Key, KeyRange};
use crate::bytes::tree_id::TreeId;
use crate::changes::Change;
use crate::error::Result;
use crate::options::{VALUE_BYTES_MAX, check_length};

/// What is known of the keys of a batch, change by change; `T` of each key's value.
struct Known<'a, T> {
    keys: BTreeMap<(TreeId, &'a [u8]), T>,
    ranges: Vec<(TreeId, &'a KeyRange)>,
}

impl<'a, T: Default> Known<'a, T> {
    fn new() -> Self {
        Self { keys: BTreeMap::new(), ranges: Vec::new() }
    }

    fn delete_range(&mut self, tree: TreeId, range: &'a KeyRange) {
        self.ranges.push((tree, range));
        for ((of, key), known) in &mut self.keys {
            if *of == tree && range.contains(key) {
                *known = T::default();
            }
        }
    }

    /// What is known of a key; at first what `before` says that the trees have, unless the batch has deleted that.
    fn of(&mut self, tree: TreeId, key: &'a [u8], before: impl FnOnce() -> Result<T>) -> Result<&mut T> {
        match self.keys.entry((tree, key)) {
            std::collections::btree_map::Entry::Occupied(found) => Ok(found.into_mut()),
            std::collections::btree_map::Entry::Vacant(vacant) => {
                let deleted = self.ranges.iter().any(|(of, range)| *of == tree && range.contains(key));
                Ok(vacant.insert(if deleted { T::default() } else { before()? }))
            }
        }
    }
}

/// Keys whose values may grow by a batch, and whether it is not known by how much.
pub(super) struct Growing<'a> {
    keys: BTreeSet<(TreeId, &'a [u8])>,
    unknown: bool,
}

impl Growing<'_> {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// How long values of keys are at most.
type Lengths<'a> = Vec<(TreeId, &'a [u8], usize)>;

/// Changes as they may happen, and the lengths after them.
type Bounded<'a> = (Cow<'a, [Change]>, Lengths<'a>);

impl Engine {
    fn growth(&self, upsert: &Upsert<'_>) -> Growth {
        self.options.operators.get(upsert.operator).map_or(Growth::Unknown, |one| one.growth(&upsert.operand))
    }

    /// The keys whose values may grow by a batch.
    pub(super) fn growing<'a>(&self, changes: &'a [Change]) -> Growing<'a> {
        let (mut keys, mut unknown) = (BTreeSet::new(), false);
        for change in changes {
            let Change::Point { tree, key, message: Message::Upserts(list) } = change else { continue };
            for upsert in list {
                match self.growth(upsert) {
                    Growth::UpTo(_) => continue,
                    Growth::By(_) => {}
                    Growth::Unknown | Growth::Invalid(_) => unknown = true,
                }
                keys.insert((*tree, &**key));
            }
        }
        Growing { keys, unknown }
    }

    /// The changes of a view as they may happen, and how long values of which keys are at most then.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`](crate::Error::TooLarge).
    pub(super) fn bound_values<'a>(
        &self,
        view: &View,
        changes: &'a [Change],
        growing: Growing<'a>,
    ) -> Result<Bounded<'a>> {
        let Growing { keys, unknown } = growing;
        let growing = |tree: TreeId, key: &[u8]| keys.contains(&(tree, key));
        let lengths = if unknown { None } else { self.lengths_that_fit(view, changes, growing)? };
        match lengths {
            Some(lengths) => Ok((Cow::Borrowed(changes), lengths)),
            None => self.carry_out(view, changes, growing),
        }
    }

    /// Bounds of the lengths, where they show that every value stays short enough.
    fn lengths_that_fit<'a>(
        &self,
        view: &View,
        changes: &'a [Change],
        growing: impl Fn(TreeId, &[u8]) -> bool,
    ) -> Result<Option<Lengths<'a>>> {
        let mut lengths: Known<'_, usize> = Known::new();
        for change in changes {
            match change {
                Change::CreateTree { .. } => {}
                Change::DeleteRange { tree, range } => lengths.delete_range(*tree, range),
                Change::Point { tree, key, .. } if !growing(*tree, key) => {}
                Change::Point { tree, key, message } => {
                    let length = lengths.of(*tree, key, || {
                        let noted = view.version.trees.get(tree).and_then(|tree| tree.active.length_of(key));
                        match noted {
                            Some(bytes) => Ok(bytes),
                            None => Ok(self.get(view, *tree, key)?.map_or(0, |value| value.len())),
                        }
                    })?;
                    match message {
                        Message::Insert(value) => *length = value.len(),
                        Message::Place(pointer) => *length = pointer.raw_bytes as usize,
                        Message::Delete => *length = 0,
                        Message::Upserts(list) => {
                            for upsert in list {
                                *length = match self.growth(upsert) {
                                    Growth::UpTo(bytes) => bytes.max(*length),
                                    Growth::By(bytes) => *length + bytes,
                                    Growth::Unknown | Growth::Invalid(_) => return Ok(None),
                                };
                            }
                        }
                    }
                    if *length > VALUE_BYTES_MAX {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(lengths.keys.into_iter().map(|((tree, key), length)| (tree, key, length)).collect()))
    }

    /// Carries the changes of the growing keys out, as far as to know their values.
    fn carry_out<'a>(
        &self,
        view: &View,
        changes: &'a [Change],
        growing: impl Fn(TreeId, &[u8]) -> bool,
    ) -> Result<Bounded<'a>> {
        let mut values: Known<'_, Option<Vec<u8>>> = Known::new();
        let mut carried_out = Cow::Borrowed(changes);
        for (number, change) in changes.iter().enumerate() {
            match change {
                Change::CreateTree { .. } => {}
                Change::DeleteRange { tree, range } => values.delete_range(*tree, range),
                Change::Point { tree, key, .. } if !growing(*tree, key) => {}
                Change::Point { tree, key, message } => {
                    let value = values.of(*tree, key, || self.get(view, *tree, key))?;
                    let below = value.take().map_or(Message::Delete, |value| Message::Insert(Cow::Owned(value)));
                    let blind = match message {
                        Message::Upserts(list) => {
                            list.iter().all(|upsert| !matches!(self.growth(upsert), Growth::Unknown))
                        }
                        _ => true,
                    };
                    let with = &self.composer();
                    *value = with.value(message.clone().over(below, with)?)?;
                    check_length("a value", value.as_ref().map_or(0, Vec::len), VALUE_BYTES_MAX)?;
                    if !blind && let Some(change) = carried_out.to_mut().get_mut(number) {
                        let message = value.clone().map_or(Message::Delete, |value| Message::Insert(Cow::Owned(value)));
                        *change = Change::Point { tree: *tree, key: Key::clone(key), message };
                    }
                }
            }
        }
        let length = |value: Option<Vec<u8>>| value.map_or(0, |value| value.len());
        let lengths = values.keys.into_iter().map(|((tree, key), value)| (tree, key, length(value)));
        Ok((carried_out, lengths.collect()))
    }
}
