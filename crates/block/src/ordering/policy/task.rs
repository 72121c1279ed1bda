//! A stream for each task, as published: what one task writes does not wait for another's epochs.

use crate::bio::Owner;

pub(super) fn key(owner: Owner) -> u32 {
    owner.task
}
