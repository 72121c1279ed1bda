//! Snapshots: the whole file system as it was at one moment, kept by the store.

use super::Volume;
use super::mount::snapshot_name;
use crate::operations::{Caller, Error, InodeNumber, Result};

/// Longest name.
const NAME_BYTES_MAX: usize = 200;

impl Volume {
    pub(super) fn keep(&self, caller: &Caller<'_>, name: &str) -> Result<()> {
        self.may_manage(caller)?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(['/', ',']) {
            return Err(Error::Invalid);
        }
        // Nothing is half done meanwhile.
        let _gate = self.exclusive();
        self.store.database.save_snapshot(&snapshot_name(name)).map_err(|error| match error {
            betree::Error::NameTaken { .. } => Error::Exists,
            error => error.into(),
        })
    }

    pub(super) fn give_up(&self, caller: &Caller<'_>, name: &str) -> Result<()> {
        self.may_manage(caller)?;
        self.store.database.remove_snapshot(&snapshot_name(name)).map_err(|error| match error {
            betree::Error::NoSuchName { .. } => Error::NotFound,
            error => error.into(),
        })
    }

    /// Snapshots keep space, and show what was removed: they are, with what else is done to all of it, for who owns it all.
    pub(super) fn may_manage(&self, caller: &Caller<'_>) -> Result<()> {
        if self.store.is_past() {
            return Err(Error::ReadOnly);
        }
        let root = self.attributes(InodeNumber::ROOT)?;
        if caller.uid == 0 || caller.uid == root.uid { Ok(()) } else { Err(Error::NotPermitted) }
    }
}
