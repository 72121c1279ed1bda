//! Synchronous full reset.
//!
//! Every block of the zone is erased before the command completes, however little
//! was written. Host I/O on the zone's arrays queues behind the erases: on a device
//! whose zones span all dies, everything stands still. Modelled on ConfZNS++ with
//! `allow_partial_resets=0`; 22 blocks of 3.5 ms make 77.0 ms there.

use super::{ResetPlan, ResetPolicy, ResetZone};

pub(super) struct Full;

impl ResetPolicy for Full {
    fn plan(&self, zone: &ResetZone) -> ResetPlan {
        // A zone that was opened and never written is erased still.
        ResetPlan::Erase { rows: if zone.programmed_blocks == 0 { 0 } else { zone.rows } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_written_block_costs_them_all() {
        let zone =
            ResetZone { written_blocks: 1, programmed_blocks: 1, capacity_blocks: 100, rows: 22, finished: false };
        assert_eq!(Full.plan(&zone), ResetPlan::Erase { rows: 22 });
        assert_eq!(Full.plan(&ResetZone { programmed_blocks: 0, ..zone }), ResetPlan::Erase { rows: 0 });
    }
}
