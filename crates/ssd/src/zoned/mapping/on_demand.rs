//! On-demand mapping with wear levelling.
//!
//! A zone gets flash at its first write: erased flash before unerased, and of either
//! the least erased. Resets of one zone thus go round all the free flash, and with
//! spare zones or idle ones a writer seldom meets unerased flash. Modelled on
//! ConfZNS++'s virtual zones, which take never used flash first and then the newest
//! given back, without regard to wear.

use std::collections::BTreeSet;

use super::{Mapping, Physical, UNMAPPED};

pub(super) struct OnDemand {
    /// (not erased, erases, physical zone), best first.
    free: BTreeSet<(bool, u32, u32)>,
}

impl OnDemand {
    pub fn new(physical_zones: u32) -> Self {
        Self { free: (0..physical_zones).map(|id| key(id, &Physical::default())).collect() }
    }
}

fn key(id: u32, physical: &Physical) -> (bool, u32, u32) {
    (physical.dirty_rows > 0, physical.erased_rows, id)
}

impl Mapping for OnDemand {
    fn initial(&self, _: u32) -> u32 {
        UNMAPPED
    }

    fn take(&mut self) -> u32 {
        match self.free.pop_first() {
            Some((_, _, id)) => id,
            // There are at least as many physical zones as zones.
            None => unreachable!("an unmapped zone leaves a physical zone free"),
        }
    }

    fn release(&mut self, id: u32, physical: &Physical) -> u32 {
        self.free.insert(key(id, physical));
        UNMAPPED
    }

    fn changed(&mut self, id: u32, before: &Physical, after: &Physical) {
        if self.free.remove(&key(id, before)) {
            self.free.insert(key(id, after));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erased_flash_first_then_the_least_worn() {
        let mut mapping = OnDemand::new(3);
        assert_eq!([mapping.take(), mapping.take(), mapping.take()], [0, 1, 2]);
        let dirty = Physical { erased_rows: 0, dirty_rows: 5 };
        let worn = Physical { erased_rows: 9, dirty_rows: 0 };
        let less = Physical { erased_rows: 4, dirty_rows: 0 };
        mapping.release(0, &dirty);
        mapping.release(1, &worn);
        mapping.release(2, &less);
        assert_eq!(mapping.take(), 2);
        mapping.changed(0, &dirty, &less);
        assert_eq!([mapping.take(), mapping.take()], [0, 1]);
    }
}
