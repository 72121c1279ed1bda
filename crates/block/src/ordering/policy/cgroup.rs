//! A stream for each control group: order holds across its tasks and files, also where a worker of the kernel writes them back.

use crate::bio::Owner;

pub(super) fn key(owner: Owner) -> u32 {
    owner.cgroup
}
