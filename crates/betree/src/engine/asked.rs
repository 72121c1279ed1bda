//! What a commit looks up, before it has the lock under which batches get their places: nobody waits for its reads. Under the lock
//! it only looks into memtables whether anything of that has changed, and asks again if so.

use std::borrow::Cow;

use super::{Engine, View};
use crate::bytes::tree_id::TreeId;
use crate::changes::{Change, Changes};
use crate::error::{Error, Result};
use crate::mutant::{Mutant, mutated};

/// Times that a batch asks again before it lets nobody else go on meanwhile.
pub(super) const ATTEMPTS: usize = 16;

/// The answers, and when they were given.
pub(super) struct Asked<'a> {
    view: View,
    /// The changes as they may happen.
    pub changes: Cow<'a, [Change]>,
    /// What values of these keys are at most.
    pub lengths: Vec<(TreeId, &'a [u8], usize)>,
}

impl Engine {
    /// Looks up whether a batch's conditions hold, and what its changes come to.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] where a condition does not hold.
    pub(super) fn ask<'a>(&self, batch: &Changes, changes: &'a [Change]) -> Result<Asked<'a>> {
        let view = self.view();
        if !mutated(Mutant::ConditionAskedEarly) && !self.conditions_hold(&view, batch)? {
            return Err(Error::Conflict);
        }
        let (changes, lengths) = self.bound_values(&view, changes)?;
        Ok(Asked { view, changes, lengths })
    }

    pub(super) fn conditions_hold(&self, view: &View, batch: &Changes) -> Result<bool> {
        if mutated(Mutant::ConditionIgnored) {
            return Ok(true);
        }
        for condition in &batch.conditions {
            if self.get(view, condition.tree, &condition.key)? != condition.value {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the answers are what they would be now. Nobody may commit meanwhile; nothing is read.
    pub(super) fn is_as_asked(&self, batch: &Changes, asked: &Asked<'_>) -> bool {
        if mutated(Mutant::AnswerGrowsOld) {
            return true;
        }
        let now = self.view();
        let conditions = batch.conditions.iter().map(|condition| (condition.tree, &*condition.key));
        let lengths = asked.lengths.iter().map(|(tree, key, _)| (*tree, *key));
        conditions.chain(lengths).all(|(tree, key)| is_unchanged(&asked.view, &now, tree, key))
    }
}

/// Whether a key has no message that came after a view; no where that is not known without reading.
fn is_unchanged(then: &View, now: &View, tree: TreeId, key: &[u8]) -> bool {
    let (then_tree, now_tree) = (then.version.trees.get(&tree), now.version.trees.get(&tree));
    let (Some(before), Some(after)) = (then_tree, now_tree) else { return then_tree.is_none() && now_tree.is_none() };
    for table in after.tables() {
        if table.has_newer(key, then.msn) {
            return false;
        }
        // What came since is in the table that was the newest then, and in those above it.
        if std::sync::Arc::ptr_eq(table, &before.active) {
            return true;
        }
    }
    // That table is in the tree by now.
    mutated(Mutant::DrainedCountsAsOld)
}
