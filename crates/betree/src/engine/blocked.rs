//! What waits above damage is bounded: where it is as much as may be, batches that add to it are refused. Others are not, and neither
//! is a range delete over the damage, which takes it along.

use std::sync::atomic::Ordering;

use super::{Engine, locked};
use crate::bytes::tree_id::TreeId;
use crate::changes::Change;
use crate::error::Result;
use crate::tree::Blocked;

impl Engine {
    /// Notes what a change of a tree that tried everything found.
    pub(super) fn note_blocked(&self, tree: TreeId, found: Vec<Blocked>) {
        let mut blocked = locked(&self.blocked);
        match found.is_empty() {
            true => drop(blocked.remove(&tree)),
            false => drop(blocked.insert(tree, found)),
        }
        self.any_blocked.store(!blocked.is_empty(), Ordering::Release);
    }

    /// Refuses a batch that would add to what waits above damage, where no more may.
    pub(super) fn check_blocked(&self, changes: &[Change]) -> Result<()> {
        if !self.any_blocked.load(Ordering::Acquire) {
            return Ok(());
        }
        let blocked = locked(&self.blocked);
        for change in changes {
            let of = |tree: &TreeId| blocked.get(tree).into_iter().flatten();
            let met = match change {
                Change::CreateTree { .. } => None,
                Change::Point { tree, key, .. } => of(tree).find(|one| one.range.contains(key)),
                Change::DeleteRange { tree, range } => {
                    of(tree).find(|one| !range.covers(&one.range) && !range.intersection(&one.range).is_empty())
                }
            };
            if let Some(met) = met {
                return Err(met.error());
            }
        }
        Ok(())
    }
}
