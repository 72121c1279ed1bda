//! Deliberate defects, so that tests can show that they would be noticed.

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
}

impl super::Ssd {
    /// Builds the defect in.
    pub(crate) fn break_by(&mut self, mutant: Mutant) {
        self.ftl.ignores_validity = mutant == Mutant::ValidityIgnored;
        self.mutant = Some(mutant);
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
}
