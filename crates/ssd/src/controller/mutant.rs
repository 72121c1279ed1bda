//! Deliberate defects, so that tests can show that they would be noticed.

use super::admission;
use crate::ftl::order::{Defect, Order, Streams};

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
    /// Versions are mapped before their turn.
    MapsEarly,
    /// A dual write keeps the order of its first stream only.
    NoSecondStream,
    /// A write goes into a version of other epochs.
    CoalescesAcrossEpochs,
    /// The collector takes what is delayed for garbage.
    DelayedIsGarbage,
    /// A delayed version is mapped over a newer one.
    OlderOverwritesNewer,
    /// A FUA write completes when it is programmed, though its turn to be mapped has not come.
    DelayedTakenForMapped,
    /// After a power cut everything that was programmed counts.
    RecoveryTrustsMemory,
    /// A delayed version that is overwritten counts as satisfied before the newer one is mapped.
    OverwrittenIsSatisfied,
    /// Whoever waits for the journal is told at its first page.
    JournalCountsEarly,
    /// An epoch is complete when its barrier is there, whatever its count.
    CountIgnored,
    /// Epochs are compared as plain numbers.
    NoWrap,
    /// Where the table of epochs is full, writes lose their order.
    PromotesWhenFull,
}

impl super::Ssd {
    /// Builds the defect in.
    pub(crate) fn break_by(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
        let streams = |defect| Order::Streams(Box::new(Streams::broken(defect)));
        match mutant {
            Mutant::ValidityIgnored => self.ftl.ignores_validity = true,
            Mutant::DelayedIsGarbage => self.ftl.forgets_delayed = true,
            Mutant::MapsEarly => self.ftl.set_order(streams(Defect::MapsEarly)),
            Mutant::NoSecondStream => self.ftl.set_order(streams(Defect::NoSecondStream)),
            Mutant::CoalescesAcrossEpochs => self.ftl.set_order(streams(Defect::CoalescesAlways)),
            Mutant::CountIgnored => self.admission.defect = Some(admission::Defect::CountIgnored),
            Mutant::NoWrap => self.admission.defect = Some(admission::Defect::NoWrap),
            Mutant::PromotesWhenFull => self.admission.defect = Some(admission::Defect::PromotesWhenFull),
            _ => {}
        }
    }
}

impl Mutant {
    pub const ALL: [Self; 6] = [
        Self::FlushDoesNotWait,
        Self::FuaIsEarly,
        Self::ValidityIgnored,
        Self::DeallocateIgnored,
        Self::EraseBeforeJournal,
        Self::JournalCountsEarly,
    ];

    /// Those that show where order is kept.
    pub const OF_ORDER: [Self; 13] = [
        Self::MapsEarly,
        Self::NoSecondStream,
        Self::CoalescesAcrossEpochs,
        Self::DelayedIsGarbage,
        Self::OlderOverwritesNewer,
        Self::DelayedTakenForMapped,
        Self::FlushDoesNotWait,
        Self::RecoveryTrustsMemory,
        Self::OverwrittenIsSatisfied,
        Self::JournalCountsEarly,
        Self::CountIgnored,
        Self::NoWrap,
        Self::PromotesWhenFull,
    ];
}
