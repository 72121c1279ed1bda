//! Deliberate defects, so that tests can show that they would be noticed. Outside of the tests there are none.

/// One defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mutant {
    /// The superblock is written while what it refers to may be in the device's cache.
    NoFlushBeforeSuperblock,
    /// A checkpoint counts as durable while its superblock may be in the device's cache.
    NoFlushAfterSuperblock,
    /// Blocks are free as soon as the tree in memory has no use for them.
    SpaceReusedEarly,
    /// Each checkpoint writes over the superblock of the last.
    OneSlot,
    /// A synced batch is not flushed.
    SyncWithoutFlush,
    /// Frames of earlier rounds and lost ends count.
    ChainIgnored,
    /// A frame counts whatever its checksum.
    FrameChecksumIgnored,
    /// A frame of an older epoch counts behind one of a newer.
    EpochIgnored,
    /// A frame of an older epoch counts behind what recovery found as long as none of a newer is before it.
    EpochBeginForgotten,
    /// A checkpoint leaves the log's beginning where it was, and batches that are in the trees are replayed.
    ReplayTwice,
    /// A block counts whatever its checksum.
    BlockChecksumIgnored,
    /// A superblock counts whatever its checksum.
    SuperblockChecksumIgnored,
    /// What was flushed into a child stays in its buffer.
    BufferAppliedTwice,
    /// A range delete takes its end with it.
    RangeEndInclusive,
    /// The newer of two upserts comes first.
    UpsertsReversed,
    /// Merged runs take the oldest for the newest.
    RunsReversed,
    /// Deletes vanish on their way down.
    DeletesDropped,
    /// Range deletes stay above the leaves' parents.
    RangesStay,
    /// In memory a range delete hides what came after it, too.
    RangeHidesNewer,
    /// A pivot belongs to the left child.
    PivotOffByOne,
    /// Blocks of snapshots are free like others.
    SnapshotNotHeld,
    /// Blocks that a reader may look at are free like others.
    ReadersIgnored,
    /// A reader sees what was committed after its view.
    ViewNotBounded,
    /// Sequence numbers start again after recovery.
    MsnForgotten,
    /// A batch is refused only when nothing is free.
    ReserveIgnored,
    /// After a failed write the store goes on.
    FailureForgotten,
    /// Running out of space is a failure, after which nothing is written.
    FullStops,
    /// A condition of a batch is not asked.
    ConditionIgnored,
    /// A dropped child keeps its blocks.
    DroppedChildLeaks,
    /// A split node's pivot goes to the wrong side.
    SplitKeepsPivot,
    /// A tree made since the last checkpoint is not in the log.
    TreeNotLogged,
    /// A checkpoint is begun before what was sealed is in the trees.
    CheckpointBeforeDrain,
    /// A checkpoint counts what was committed while it was written.
    SealTooLate,
    /// After a checkpoint for which there was no room the next one goes to the other slot.
    FailureChangesSlot,
    /// A damaged frame of the log reads as the log's end.
    DamagedLogEnds,
    /// A frame says that frames are durable that were not flushed.
    DurableTooFar,
    /// A filter does not admit some of its keys.
    FilterForgets,
    /// A step goes on when its quota is used up.
    StepUnbounded,
    /// Commits go on however much is owed.
    DebtUnbounded,
    /// A store at rest keeps what deletes and newer values have made useless.
    RestKeepsGarbage,
    /// The header of a changed node that is given up before it was written stays counted.
    GivenUpStaysCounted,
    /// Frames behind damage that was accepted count as witnesses of it.
    AcceptedDamageReturns,
    /// Values that lie apart keep their places when nobody refers to them any more.
    ValuesLeak,
    /// A block does not say that it has values that lie apart.
    PlacesUncounted,
    /// Recovery leaves the places of values free.
    PlacesForgotten,
    /// A checkpoint calls the places of its values free.
    PlacesNotKept,
    /// A frame counts whose values are not there.
    LostValueAccepted,
    /// Blocks are discarded though they are in use again.
    DiscardsUsedAgain,
    /// What recovery found once may be missing the next time.
    FoundMayBeLost,
    /// Blocks of a removed snapshot are free though a view of it is open.
    OpenSnapshotForgotten,
    /// A batch that is refused keeps the places of its values.
    RefusedBatchLeaks,
    /// Changed nodes take as much memory as there is space on the storage.
    FreshUnbounded,
    /// What cannot be read stops all work.
    DamageSpreads,
    /// A lookup does not see a range delete that ends a batch.
    LastRangeInvisible,
    /// A checksum covers the first 4 KiB of a block only.
    ChecksumOfFirstBlock,
    /// Nodes that deletes have emptied stay.
    EmptiedNodesStay,
    /// Nothing is read before it is needed.
    NothingAhead,
    /// What is read ahead of a reader has no bound.
    AheadUnbounded,
    /// A store that is closed does not say where its log ends.
    CloseSaysNothing,
    /// A store that was closed and opened again still counts as closed.
    OpenStaysClosed,
    /// Where the newer superblock is lost, the older one's word that the store is closed counts.
    ClosedBeforeIsClosed,
    /// A frame of the log is written while the values that it names are on their way.
    FrameBeforeValues,
    /// A store that could not be opened is closed as if it had been.
    HalfOpenedCloses,
    /// A block is free when one of the trees that share it gives it up.
    SharedBlocksFreed,
    /// The clone of a range counts as having what is outside of it.
    CloneSharesBeyondRange,
    /// Of a block across an end of a cloned range the clone has all.
    CutKeepsBlocks,
    /// What the clone of a range has copied counts as in use by it.
    CopiedBlocksKept,
    /// What was moved to another tree counts as its first one's still.
    MovedCountsAsKept,
    /// Whoever is cloned after a range was moved counts as having it.
    CloneSharesWhatWasMoved,
    /// A range is moved by a clone and a removal.
    MoveInTwoSteps,
    /// A batch changes a range while it is moved.
    MoveOvertaken,
    /// A checkpoint writes what is in memory where it waits.
    WrittenOnTheWay,
    /// A value that was written before a range was moved, and came behind it, counts as moved.
    MovedBeforeItCame,
    /// What a batch asked before a range was moved counts as so still.
    AskedBeforeMove,
    /// When a tree is removed, nobody looks for blocks that only it still had of those that others gave up.
    LastSharerForgotten,
    /// A store that grew does not say so.
    GrowsSilently,
    /// Whoever writes the log counts batches that came while it wrote.
    GroupCountsLate,
    /// Whoever flushes counts frames that were written meanwhile.
    SyncCountsLate,
    /// A sync makes durable what came while it waited, too.
    SyncTakesAll,
    /// Conditions are asked before the batch has its place among the others, and no more.
    ConditionAskedEarly,
    /// Blocks that are verified are free as soon as a checkpoint is without them.
    VerifyKeepsNothing,
    /// A batch reads while nobody else may commit.
    AsksUnderLock,
    /// What came while a batch asked is not looked at.
    AnswerGrowsOld,
    /// What went into a tree meanwhile counts as there before.
    DrainedCountsAsOld,
    /// A view takes its number first and its version then.
    ViewNumberFirst,
    /// A key that a page begins with is looked for in the page before.
    PageOffByOne,
    /// An entry that ends in another page than it begins in is not there.
    CutEntryMissed,
    /// Of an entry that likely ends in another page than it begins in a lookup reads the one first.
    LongEntriesReadTwice,
    /// A lookup reads whole blocks.
    WholeBlocksRead,
    /// A scan reads whole blocks, and ahead, from its first entry on.
    ScanNeverBegins,
    /// A scan that begins does not see entries that end in another page than they begin in.
    ScanMissesCutEntries,
    /// However much waits above damage, more may.
    DamageWaitsUnbounded,
    /// Of what is damaged nothing is read, though other blocks have some of it.
    CellLostWhole,
    /// Of a large value all is read, whatever part is asked for.
    PartsReadWhole,
    /// Whoever goes through keys reads their values.
    KeysReadValues,
    /// Whoever asks whether a key is there reads its value.
    ContainsReadsValues,
    /// Of many keys that are looked up together each is read by itself.
    ManyOneByOne,
    /// A batch does not come to the others while the log is written.
    BatchesWaitForLog,
    /// A value that fills its blocks lies in a basement with others.
    FullBlocksShare,
    /// All that is free counts as spare.
    SpareIsFree,
    /// However many range deletes wait in memory, more may.
    RangesUnbounded,
    /// Whether there is room for a batch is asked when it is written.
    RoomAskedLate,
    /// A ticket says that its batch is durable when it is in memory.
    TicketSaysTooMuch,
    /// Who waits for a ticket waits for no flush.
    TicketUnflushed,
    /// The size of a range leaves out what waits above the leaves.
    EstimateForgetsBuffers,
    /// Of many children the few that were looked into stand for themselves only.
    EstimateOfSampleOnly,
    /// A commit does not tell the store's thread that something is owed.
    BellUnrung,
    /// A closed store does not wait for its thread.
    ThreadOutlivesStore,
    /// A snapshot is saved without letting go of the trees.
    SnapshotInOneStep,
    /// A snapshot that is saved in steps is of what was sealed before.
    SnapshotOfOldSeal,
    /// A commit makes all trees' versions anew.
    CommitCopiesTrees,
    /// One commit does all that those before it could not, since somebody had the trees.
    CreditUnbounded,
    /// Changed nodes that nothing refers to any more are freed in one step.
    FreedAtOnce,
    /// Nobody says which keys cannot be read.
    DamageUnnamed,
    /// Of what the two ends of an iterator have met only the last counts.
    OneEndMeets,
    /// Messages are moved down without letting go of the trees.
    MovedInOneStep,
    /// Two threads change a tree at the same time.
    TreeTakenTwice,
    /// Whoever has to have all trees as they are does not wait for those who change one.
    TreesWithWorkOut,
    /// A checkpoint is begun while trees are changed.
    CheckpointOverWork,
    /// Whoever has to have all trees has them for all that is owed.
    TreesHeldToTheEnd,
    /// Of a removed tree the blocks are freed that it had when it was looked through.
    RemovedAsSeen,
    /// A commit waits for the room that other trees have used up.
    SlightWait,
    /// Each of several changes takes all the room there is for changed nodes.
    RoomOfEach,
}

#[cfg(test)]
pub(crate) use switch::{between, current, mutated, set, set_between};

/// What others may do at this moment: nothing, but in a test.
#[cfg(not(test))]
pub(crate) const fn between() {}

/// No defect, but that under a fuzzer no checksum keeps its bytes out (`fuzz/`).
#[cfg(not(test))]
pub(crate) const fn mutated(mutant: Mutant) -> bool {
    let ignored = matches!(
        mutant,
        Mutant::BlockChecksumIgnored | Mutant::FrameChecksumIgnored | Mutant::SuperblockChecksumIgnored
    );
    cfg!(fuzzing) && ignored
}

#[cfg(test)]
impl Mutant {
    pub const ALL: [Self; 123] = [
        Self::NoFlushBeforeSuperblock,
        Self::NoFlushAfterSuperblock,
        Self::SpaceReusedEarly,
        Self::OneSlot,
        Self::SyncWithoutFlush,
        Self::ChainIgnored,
        Self::FrameChecksumIgnored,
        Self::EpochIgnored,
        Self::EpochBeginForgotten,
        Self::ReplayTwice,
        Self::BlockChecksumIgnored,
        Self::SuperblockChecksumIgnored,
        Self::BufferAppliedTwice,
        Self::RangeEndInclusive,
        Self::UpsertsReversed,
        Self::RunsReversed,
        Self::DeletesDropped,
        Self::RangesStay,
        Self::RangeHidesNewer,
        Self::PivotOffByOne,
        Self::SnapshotNotHeld,
        Self::ReadersIgnored,
        Self::ViewNotBounded,
        Self::MsnForgotten,
        Self::ReserveIgnored,
        Self::FailureForgotten,
        Self::FullStops,
        Self::ConditionIgnored,
        Self::DroppedChildLeaks,
        Self::SplitKeepsPivot,
        Self::TreeNotLogged,
        Self::CheckpointBeforeDrain,
        Self::SealTooLate,
        Self::FailureChangesSlot,
        Self::DamagedLogEnds,
        Self::DurableTooFar,
        Self::FilterForgets,
        Self::StepUnbounded,
        Self::DebtUnbounded,
        Self::RestKeepsGarbage,
        Self::GivenUpStaysCounted,
        Self::AcceptedDamageReturns,
        Self::FoundMayBeLost,
        Self::ValuesLeak,
        Self::PlacesUncounted,
        Self::PlacesForgotten,
        Self::PlacesNotKept,
        Self::LostValueAccepted,
        Self::DiscardsUsedAgain,
        Self::OpenSnapshotForgotten,
        Self::RefusedBatchLeaks,
        Self::FreshUnbounded,
        Self::DamageSpreads,
        Self::LastRangeInvisible,
        Self::ChecksumOfFirstBlock,
        Self::EmptiedNodesStay,
        Self::NothingAhead,
        Self::AheadUnbounded,
        Self::CloseSaysNothing,
        Self::OpenStaysClosed,
        Self::ClosedBeforeIsClosed,
        Self::FrameBeforeValues,
        Self::HalfOpenedCloses,
        Self::SharedBlocksFreed,
        Self::CloneSharesBeyondRange,
        Self::CutKeepsBlocks,
        Self::CopiedBlocksKept,
        Self::MovedCountsAsKept,
        Self::CloneSharesWhatWasMoved,
        Self::MoveInTwoSteps,
        Self::MoveOvertaken,
        Self::WrittenOnTheWay,
        Self::MovedBeforeItCame,
        Self::AskedBeforeMove,
        Self::LastSharerForgotten,
        Self::GrowsSilently,
        Self::GroupCountsLate,
        Self::SyncCountsLate,
        Self::SyncTakesAll,
        Self::ConditionAskedEarly,
        Self::VerifyKeepsNothing,
        Self::AsksUnderLock,
        Self::AnswerGrowsOld,
        Self::DrainedCountsAsOld,
        Self::ViewNumberFirst,
        Self::PageOffByOne,
        Self::CutEntryMissed,
        Self::LongEntriesReadTwice,
        Self::WholeBlocksRead,
        Self::ScanNeverBegins,
        Self::ScanMissesCutEntries,
        Self::DamageWaitsUnbounded,
        Self::CellLostWhole,
        Self::PartsReadWhole,
        Self::KeysReadValues,
        Self::ContainsReadsValues,
        Self::ManyOneByOne,
        Self::BatchesWaitForLog,
        Self::FullBlocksShare,
        Self::SpareIsFree,
        Self::RangesUnbounded,
        Self::RoomAskedLate,
        Self::TicketSaysTooMuch,
        Self::TicketUnflushed,
        Self::EstimateForgetsBuffers,
        Self::EstimateOfSampleOnly,
        Self::BellUnrung,
        Self::ThreadOutlivesStore,
        Self::SnapshotInOneStep,
        Self::SnapshotOfOldSeal,
        Self::CommitCopiesTrees,
        Self::CreditUnbounded,
        Self::FreedAtOnce,
        Self::DamageUnnamed,
        Self::OneEndMeets,
        Self::MovedInOneStep,
        Self::TreesHeldToTheEnd,
        Self::RemovedAsSeen,
        Self::SlightWait,
        Self::TreeTakenTwice,
        Self::TreesWithWorkOut,
        Self::CheckpointOverWork,
        Self::RoomOfEach,
    ];
}

#[cfg(test)]
mod switch {
    use super::Mutant;
    use std::cell::Cell;

    thread_local! {
        static BETWEEN: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
        static CURRENT: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Whether this thread has the defect.
    pub(crate) fn mutated(mutant: Mutant) -> bool {
        CURRENT.get() == Some(mutant)
    }

    /// Does once what was given: what another thread would do at a moment when it can. Of threads that take turns another may go on.
    pub(crate) fn between() {
        match BETWEEN.take() {
            Some(others) => others(),
            None => crate::turns::turn(),
        }
    }

    /// What others do at the next such moment.
    pub(crate) fn set_between(others: Option<Box<dyn FnOnce()>>) {
        BETWEEN.set(others);
    }

    /// The defect of this thread.
    pub(crate) fn current() -> Option<Mutant> {
        CURRENT.get()
    }

    /// Gives this thread a defect, or none.
    pub(crate) fn set(mutant: Option<Mutant>) {
        CURRENT.set(mutant);
    }
}
