//! Lazy reset with remapping.
//!
//! The zone gives its flash back unerased and the command completes. At its next
//! write the zone gets other flash; if that was never erased since its last use, the
//! writer pays: the erase goes first on every array, and the write waits for it.
//! Host I/O never sees a reset, but a new zone's first write may take as long as
//! one. Modelled on ConfZNS++'s virtual zones (`zns_vtable_mode=1`), with wear
//! levelling where the emulator takes the newest.

use super::{ResetPlan, ResetPolicy, ResetZone};

pub(super) struct Lazy;

impl ResetPolicy for Lazy {
    fn plan(&self, _: &ResetZone) -> ResetPlan {
        ResetPlan::Leave
    }
}
