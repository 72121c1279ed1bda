//! Deliberate defects, so that tests can show that they would be noticed.

/// One defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// A reset leaves the data of the zone's last written block behind.
    ResetForgetsBlock,
    /// A finish leaves the write pointer where it was.
    FinishLeavesWritePointer,
    /// An append completes with the block after the one it wrote.
    AppendReturnsWrongLba,
    /// One zone more than the limit can be open.
    OneOpenZoneTooMany,
    /// Flush completes without waiting for anything.
    FlushDoesNotWait,
    /// A write that survives a power cut is kept though one before it in its zone is lost.
    SurvivesBehindGap,
}

impl Mutant {
    pub const ALL: [Self; 4] = [
        Self::ResetForgetsBlock,
        Self::FinishLeavesWritePointer,
        Self::AppendReturnsWrongLba,
        Self::OneOpenZoneTooMany,
    ];

    /// Those that show only after a power cut.
    pub const OF_CUTS: [Self; 2] = [Self::FlushDoesNotWait, Self::SurvivesBehindGap];
}
