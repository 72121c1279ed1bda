//! Damage has a name: the tree and the keys that cannot be read for it.

use super::{Engine, View, locked};
use crate::bytes::range::{Direction, KeyRange, successor};
use crate::bytes::tree_id::TreeId;
use crate::error::{Error, Result};
use crate::mutant::{Mutant, mutated};

impl Engine {
    /// Of a key: with all the keys for which the same blocks answer.
    pub fn named_at<T>(&self, result: Result<T>, view: &View, tree: TreeId, key: &[u8]) -> Result<T> {
        result.map_err(|error| {
            let cell = |range: KeyRange, direction| {
                let cell = self.cell(view, tree, &range, direction).ok().flatten();
                cell.map_or(range, |cell| cell.range)
            };
            let before = KeyRange { start: Box::default(), end: Some(successor(key)) };
            let behind = KeyRange { start: key.into(), end: None };
            let start = cell(before, Direction::Backward).start;
            let end = cell(behind, Direction::Forward).end;
            self.name(error, tree, &KeyRange { start, end })
        })
    }

    /// With the first of the keys that are left, from the end that is read.
    pub fn named_in(&self, error: Error, view: &View, tree: TreeId, rest: &KeyRange, direction: Direction) -> Error {
        let cell = self.cell(view, tree, rest, direction).ok().flatten();
        self.name(error, tree, cell.as_ref().map_or(rest, |cell| &cell.range))
    }

    pub fn name(&self, error: Error, tree: TreeId, keys: &KeyRange) -> Error {
        let Error::Corrupt { what, offset_bytes, stored_bytes } = error else { return error };
        if mutated(Mutant::DamageUnnamed) {
            return Error::Corrupt { what, offset_bytes, stored_bytes };
        }
        let name = locked(&self.commit).names.iter().find(|(_, id)| **id == tree).map(|(name, _)| name.clone());
        let name = name.map_or("a tree that was removed".to_owned(), |name| format!("tree {name:?}"));
        let end = keys.end.as_ref().map_or("its end".to_owned(), |end| format!("\"{}\"", end.escape_ascii()));
        let what = format!("{what}, in {name} from key \"{}\" to {end}", keys.start.escape_ascii());
        Error::Corrupt { what, offset_bytes, stored_bytes }
    }
}
