//! What a commit looks up, before it has the lock under which batches get their places: nobody waits for its reads. Under the lock
//! it only looks into memtables whether anything of that has changed, and asks again if so. A batch that asks nothing takes no
//! view for it.

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
    /// None where nothing was asked.
    view: Option<View>,
    /// The changes as they may happen.
    pub changes: Cow<'a, [Change]>,
    /// What values of these keys are at most.
    pub lengths: Vec<(TreeId, &'a [u8], usize)>,
}

impl Engine {
    /// A view in which the conditions of a batch hold, if it has any.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] where one does not hold.
    pub(super) fn look(&self, batch: &Changes) -> Result<Option<View>> {
        if batch.conditions.is_empty() {
            return Ok(None);
        }
        let view = self.view();
        if self.conditions_hold(&view, batch)? { Ok(Some(view)) } else { Err(Error::Conflict) }
    }

    /// Looks up whether a batch's conditions hold, unless `first` is a view in which they do, and what its changes come to.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] where a condition does not hold.
    pub(super) fn ask<'a>(&self, batch: &Changes, changes: &'a [Change], first: Option<View>) -> Result<Asked<'a>> {
        let mut view = if first.is_some() { first } else { self.look(batch)? };
        let grown = self.growing(changes);
        if grown.is_empty() {
            return Ok(Asked { view, changes: Cow::Borrowed(changes), lengths: Vec::new() });
        }
        let (changes, lengths) = self.bound_values(view.get_or_insert_with(|| self.view()), changes, grown)?;
        Ok(Asked { view, changes, lengths })
    }

    fn conditions_hold(&self, view: &View, batch: &Changes) -> Result<bool> {
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
}

impl Asked<'_> {
    /// Whether the answers are what they would be in a view of now. Nobody may commit meanwhile; nothing is read.
    pub fn is_still_so(&self, batch: &Changes, now: &View) -> bool {
        let Some(then) = self.view.as_ref().filter(|_| !mutated(Mutant::AnswerGrowsOld)) else { return true };
        let conditions = batch.conditions.iter().filter(|_| !mutated(Mutant::ConditionAskedEarly));
        let conditions = conditions.map(|condition| (condition.tree, &*condition.key));
        let lengths = self.lengths.iter().map(|(tree, key, _)| (*tree, *key));
        conditions.chain(lengths).all(|(tree, key)| is_unchanged(then, now, tree, key))
    }
}

/// Whether a key has no message that came after a view; no where that is not known without reading.
fn is_unchanged(then: &View, now: &View, tree: TreeId, key: &[u8]) -> bool {
    let (then_tree, now_tree) = (then.version.trees.get(&tree), now.version.trees.get(&tree));
    let (Some(before), Some(after)) = (then_tree, now_tree) else { return then_tree.is_none() && now_tree.is_none() };
    if before.moved_at != after.moved_at && !mutated(Mutant::AskedBeforeMove) {
        return false;
    }
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
