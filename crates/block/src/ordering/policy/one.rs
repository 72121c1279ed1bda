//! One stream for all: what streams of their own bring is measured against it.

use crate::bio::Owner;

pub(super) fn key(_owner: Owner) -> u32 {
    0
}
