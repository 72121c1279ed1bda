//! None, as long as there is room.

use super::PacingLoad;

pub(super) fn quota_bytes(load: &PacingLoad) -> Option<u64> {
    (load.filled < 2.0).then_some(0)
}
