//! Deliberate defects, for tests: one at a time, in the thread that runs the test.

use std::cell::Cell;

/// A defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// An epoch is not pinned to a hardware queue.
    NoPinning,
    /// Writes of different epochs become one command, which has the order of the first.
    MergesAcrossEpochs,
    /// The first part of a bio that is cut closes the epoch.
    ClosesOnFirstFragment,
    /// What the driver refused goes to the end of the line, and a barrier does not wait for it.
    RequeuesInOtherOrder,
    /// Without order on the device, FUA and PREFLUSH are left out all the same.
    NoFlushWithoutOrder,
}

thread_local! {
    static PRESENT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Whether the code under test has this defect.
pub(crate) fn is(mutant: Mutant) -> bool {
    PRESENT.get() == Some(mutant)
}

/// Runs with a defect, or none.
pub(crate) fn with<R>(mutant: Option<Mutant>, run: impl FnOnce() -> R) -> R {
    PRESENT.set(mutant);
    let result = run();
    PRESENT.set(None);
    result
}
