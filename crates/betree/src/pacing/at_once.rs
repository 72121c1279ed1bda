//! All of it by whoever comes when it is due.

use super::PacingLoad;

pub(super) fn quota_bytes(_: &PacingLoad) -> Option<u64> {
    None
}
