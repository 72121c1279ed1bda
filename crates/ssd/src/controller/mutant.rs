//! Deliberate defects, so that tests can show that they would be noticed.

use crate::ftl::order::{Defect, InOrderOfAcceptance, Order};

/// One defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// Flush completes without waiting for anything.
    FlushDoesNotWait,
    /// A FUA write is acknowledged once it is in the buffer.
    FuaIsEarly,
    /// The collector takes every unit of a victim for valid.
    ValidityIgnored,
    /// Deallocation does nothing.
    DeallocateIgnored,
    /// A block is erased before the map journal says that its units moved.
    EraseBeforeJournal,
    /// Versions are mapped before their turn in the order of acceptance.
    MapsEarly,
    /// A write goes into a version that others were accepted after.
    CoalescesOutOfOrder,
    /// The collector takes what is delayed for garbage.
    DelayedIsGarbage,
}

impl super::Ssd {
    /// Builds the defect in.
    pub(crate) fn break_by(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
        let in_order = |defect| Order::Acceptance(InOrderOfAcceptance::broken(defect));
        match mutant {
            Mutant::ValidityIgnored => self.ftl.ignores_validity = true,
            Mutant::DelayedIsGarbage => self.ftl.forgets_delayed = true,
            Mutant::MapsEarly => self.ftl.set_order(in_order(Defect::MapsEarly)),
            Mutant::CoalescesOutOfOrder => self.ftl.set_order(in_order(Defect::CoalescesAlways)),
            _ => {}
        }
    }
}

impl Mutant {
    pub const ALL: [Self; 5] = [
        Self::FlushDoesNotWait,
        Self::FuaIsEarly,
        Self::ValidityIgnored,
        Self::DeallocateIgnored,
        Self::EraseBeforeJournal,
    ];

    /// Those that show only where versions are mapped in order.
    pub const OF_ORDER: [Self; 3] = [Self::MapsEarly, Self::CoalescesOutOfOrder, Self::DelayedIsGarbage];
}
