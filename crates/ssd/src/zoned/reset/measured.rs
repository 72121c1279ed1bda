//! The reset of the WD ZN540, as a law.
//!
//! A reset takes a base time, and a time that goes with the share of the zone that
//! the host wrote; padding of a finish is not charged. A zone that was not finished
//! costs more: up to a maximum while part of it is written, a fixed time when it
//! is full. Resets run one at a time in the whole device. After the base time the
//! programs in flight end; then, for the time that goes with what was written, no
//! program begins anywhere, so every writer stalls once per reset as soon as the
//! buffer is full. Reads meet only the few arrays that erase. Measured in the data of
//! "Performance Characterization of NVMe Flash Devices with Zoned Namespaces"
//! (CLUSTER '23) and ConfZNS++ (SYSTOR '24): reset after finish 1.656 + 13.716 x ms,
//! latency of n concurrent resets n times that of one.

use units::Nanos;

use super::{ResetPlan, ResetPolicy, ResetZone};
use crate::zoned::config::ResetLaw;

pub(super) struct Measured(pub ResetLaw);

impl ResetPolicy for Measured {
    fn plan(&self, zone: &ResetZone) -> ResetPlan {
        let part = |time: Nanos| {
            let ns = u128::from(time.0) * u128::from(zone.written_blocks) / u128::from(zone.capacity_blocks);
            Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
        };
        let rise = match &self.0.unfinished {
            None => Nanos::ZERO,
            Some(_) if zone.finished => Nanos::ZERO,
            Some(rise) if zone.written_blocks == zone.capacity_blocks => rise.full,
            Some(rise) => part(rise.slope).min(rise.max),
        };
        ResetPlan::Timed {
            ungated: self.0.base + rise,
            gated: part(self.0.written),
            erasing_arrays: self.0.erasing_arrays,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoned::config::UnfinishedRise;

    #[test]
    fn the_law_of_a_zone_half_written() {
        let micros = Nanos::from_micros;
        let law = ResetLaw {
            base: micros(1656),
            written: micros(13716),
            unfinished: Some(UnfinishedRise { slope: micros(41300), max: micros(3550), full: micros(1200) }),
            erasing_arrays: 1,
            catch: None,
        };
        let half =
            ResetZone { written_blocks: 50, programmed_blocks: 100, capacity_blocks: 100, rows: 1, finished: true };
        let ungated = |zone| match Measured(law.clone()).plan(&zone) {
            ResetPlan::Timed { ungated, gated, .. } => {
                assert_eq!(gated, micros(13716) * zone.written_blocks / 100);
                ungated
            }
            plan => panic!("{plan:?}"),
        };
        assert_eq!(ungated(half), micros(1656));
        assert_eq!(ungated(ResetZone { finished: false, ..half }), micros(1656 + 3550));
        assert_eq!(ungated(ResetZone { finished: false, written_blocks: 5, ..half }), micros(1656 + 2065));
        assert_eq!(ungated(ResetZone { finished: false, written_blocks: 100, ..half }), micros(1656 + 1200));
    }
}
