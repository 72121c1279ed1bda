//! Synchronous partial reset.
//!
//! Only the rows of blocks that were programmed are erased, padding of a finish
//! included, before the command completes; host I/O on the zone's arrays queues
//! behind. Modelled on ConfZNS++ with `allow_partial_resets=1`:
//! ceil(written / (capacity / rows)) erases on each array.

use super::{ResetPlan, ResetPolicy, ResetZone};

pub(super) struct Partial;

impl ResetPolicy for Partial {
    fn plan(&self, zone: &ResetZone) -> ResetPlan {
        ResetPlan::Erase { rows: zone.programmed_rows() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_rounded_up() {
        for (programmed, rows) in [(0, 0), (1, 1), (5, 1), (6, 2), (109, 22), (110, 22)] {
            let zone = ResetZone {
                written_blocks: 1,
                programmed_blocks: programmed,
                capacity_blocks: 110,
                rows: 22,
                finished: false,
            };
            assert_eq!(Partial.plan(&zone), ResetPlan::Erase { rows }, "{programmed}");
        }
    }
}
