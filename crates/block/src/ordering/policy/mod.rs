//! Which writes are of one stream: a policy a file, and a row of [`StreamPolicyKind::key`].

mod cgroup;
mod one;
mod task;

use serde::{Deserialize, Serialize};

use crate::bio::Owner;

/// Which writes share a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamPolicyKind {
    /// Those of a task.
    #[default]
    Task,
    /// Those of a control group, whichever task writes them back.
    Cgroup,
    /// All.
    One,
}

impl StreamPolicyKind {
    /// The stream of an owner: owners with the same key share it.
    pub(crate) fn key(self, owner: Owner) -> u32 {
        match self {
            Self::Task => task::key(owner),
            Self::Cgroup => cgroup::key(owner),
            Self::One => one::key(owner),
        }
    }
}
