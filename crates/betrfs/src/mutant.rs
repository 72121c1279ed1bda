//! Deliberate defects, so that tests can show that they would be noticed. Outside of the tests there are none.

/// One defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mutant {
    /// Counts of a directory are written after its entries, in a batch of their own.
    CountOutsideOfBatch,
    /// A new entry is not counted.
    CountForgotten,
    /// An inode that loses its last name while it is open is not listed as an orphan.
    OrphanNotRecorded,
    /// A mount leaves orphans alone.
    OrphansStay,
    /// An orphan that gets a name stays listed as one.
    LinkedOrphanStays,
    /// Opening does not keep an inode.
    OpenNotCounted,
    /// A file's size and data are written one after the other.
    SizeBeforeData,
    /// Data comes in a batch before the size.
    DataBeforeSize,
    /// Truncation leaves the first granule behind the end.
    RangeOneShort,
    /// Truncation leaves the rest of the last granule.
    TailNotZeroed,
    /// Punching a hole leaves patches.
    HoleKeepsPatches,
    /// A granule that is written whole keeps its patches.
    PatchesNotCleared,
    /// A patch behind the end of the file shows what is below its block.
    BelowShowsThrough,
    /// Of two patches the older one counts.
    PatchesReversed,
    /// An inode does not say that its blocks have patches.
    PatchedNotSaid,
    /// A cookie leads on behind the entry after its own.
    CookieOfNext,
    /// What is removed or cut keeps what lies beside its entry.
    BesideLeaks,
    /// What goes beside an entry, or away from there, leaves what was at its other place.
    BesideTwice,
    /// What lies beside an entry is looked for beside the name of today.
    BesideFollowsName,
    /// A hole leaves what lies beside an entry.
    HoleKeepsBeside,
    /// What lies beside entries is listed as one.
    BesideListed,
    /// What lies beside an entry comes in a batch before its inode.
    BesideEarly,
    /// Many names have the same cookie, and a directory is read on behind them all.
    CookieReused,
    /// A read does not see what was written and is held.
    GatheredNotSeen,
    /// Nor does a lookup.
    GatheredNotFound,
    /// fsync leaves what is held.
    GatheredNotSynced,
    /// What is held takes no room.
    HeldNotCounted,
    /// Nobody hears of what was held and has no room any more.
    LossNotSaid,
    /// Changes overtake what is held.
    GatheredOvertaken,
    /// That another file was read overtakes what is held.
    AccessOvertakes,
    /// Accesses that are held come with writes from before them.
    AccessEarly,
    /// A read of a file fails where there is no room to note it.
    AccessNeedsRoom,
    /// Accesses that are held are forgotten.
    AccessForgotten,
    /// fsync returns at once.
    SyncDoesNothing,
    /// A write that is to be durable when it returns is as any other.
    SyncWriteWaits,
    /// Numbers that were given are not remembered across mounts.
    NumberReused,
    /// The old name stays.
    RenameKeepsOldName,
    /// What a rename replaces keeps its count.
    RenameLeaksReplaced,
    /// The old name goes before the new one comes.
    RenameInTwoBatches,
    /// A renamed inode is looked for where it was.
    PlaceNotMoved,
    /// A directory that moves is not counted elsewhere.
    ParentLinksForgotten,
    /// An exchange leaves the counts of directories.
    ExchangeNotCounted,
    /// A directory may be moved below itself.
    DirectoryBelowItself,
    /// What is removed keeps its data.
    DataLeaks,
    /// What is removed keeps its extended attributes.
    XattrsLeak,
    /// An inode that was looked up goes into memory though it has changed since.
    OldInodeKept,
    /// Bytes that were written and are gone stay in memory.
    RecentStays,
    /// A read finds bytes in memory that were written after its moment.
    RecentOfLater,
    /// What is removed stays in memory.
    StaleCache,
    /// Memory has a change that the store refused.
    ChangeSeenEarly,
    /// A directory counts as empty when it has no directories.
    RmdirByLinks,
    /// A second name leaves the inode in the entry of its first.
    LinkMovesNothing,
    /// Whoever adds may use the space that removing needs.
    ReserveIgnored,
    /// A removed tree is taken apart only where it was removed.
    TreeSpared,
    /// Removed directories are taken apart from lower to higher numbers, once.
    TreeUpwards,
    /// Whoever asks may remove a tree.
    TreeForEverybody,
    /// A mount removes a directory and leaves what is in it.
    MountPurgesTrees,
    /// Whoever asks may copy a tree.
    CloneForEverybody,
    /// A copy that is being made is not listed as an orphan.
    CloneNotListed,
    /// A copy that is being made is taken apart as removed trees are.
    CloneTakenApart,
    /// Names of one inode are names of several in a copy.
    CloneSplitsLinks,
    /// A copy is of many moments.
    CloneOfNow,
    /// Keys below a path lack the number that makes them its own, so that what is made at an old path meets what lies there still.
    PathWithoutNumber,
    /// What is deeper comes before what is in a directory itself.
    PathsUpwards,
    /// A path that is too long for a key is tried nevertheless.
    LongPathKept,
    /// The format does not say that keys begin with paths.
    PathsNotSaid,
    /// An inode that lies elsewhere than its path says does not say so.
    PlaceNotSaid,
    /// What is to be moved is not listed.
    DebtForgotten,
    /// What has been moved stays listed.
    DebtStays,
    /// What is moved goes in a batch before it comes.
    MoveInTwoBatches,
    /// A step of a move does not say how far it has come.
    MoveForgetsEnd,
    /// What is just behind the part that was moved is looked for in it.
    MoveOnBothSides,
    /// A move of data leaves what was where it was.
    MoveLeavesOld,
    /// A move of data leaves patches.
    MoveWithoutPatches,
    /// What lies beside an entry stays where the entry was.
    MoveWithoutBeside,
    /// Entries by number are not moved.
    MoveWithoutLinks,
    /// What is owed is never paid.
    NothingIsMoved,
}

#[cfg(test)]
pub(crate) use switch::{mutated, set};

/// No defect.
#[cfg(not(test))]
pub(crate) const fn mutated(_mutant: Mutant) -> bool {
    false
}

#[cfg(test)]
impl Mutant {
    pub const ALL: [Self; 62] = [
        Self::CountOutsideOfBatch,
        Self::CountForgotten,
        Self::OrphanNotRecorded,
        Self::OrphansStay,
        Self::LinkedOrphanStays,
        Self::OpenNotCounted,
        Self::SizeBeforeData,
        Self::DataBeforeSize,
        Self::RangeOneShort,
        Self::TailNotZeroed,
        Self::HoleKeepsPatches,
        Self::PatchesNotCleared,
        Self::BelowShowsThrough,
        Self::PatchesReversed,
        Self::PatchedNotSaid,
        Self::CookieOfNext,
        Self::CookieReused,
        Self::BesideLeaks,
        Self::BesideTwice,
        Self::BesideFollowsName,
        Self::HoleKeepsBeside,
        Self::BesideListed,
        Self::BesideEarly,
        Self::SyncDoesNothing,
        Self::SyncWriteWaits,
        Self::GatheredNotSeen,
        Self::GatheredNotFound,
        Self::GatheredNotSynced,
        Self::HeldNotCounted,
        Self::LossNotSaid,
        Self::GatheredOvertaken,
        Self::AccessOvertakes,
        Self::AccessEarly,
        Self::AccessNeedsRoom,
        Self::AccessForgotten,
        Self::NumberReused,
        Self::RenameKeepsOldName,
        Self::RenameLeaksReplaced,
        Self::RenameInTwoBatches,
        Self::PlaceNotMoved,
        Self::ParentLinksForgotten,
        Self::ExchangeNotCounted,
        Self::DirectoryBelowItself,
        Self::DataLeaks,
        Self::XattrsLeak,
        Self::OldInodeKept,
        Self::RecentStays,
        Self::RecentOfLater,
        Self::StaleCache,
        Self::ChangeSeenEarly,
        Self::RmdirByLinks,
        Self::LinkMovesNothing,
        Self::ReserveIgnored,
        Self::TreeSpared,
        Self::TreeUpwards,
        Self::TreeForEverybody,
        Self::MountPurgesTrees,
        Self::CloneForEverybody,
        Self::CloneNotListed,
        Self::CloneTakenApart,
        Self::CloneSplitsLinks,
        Self::CloneOfNow,
    ];

    /// Those of the schema with paths.
    pub const OF_PATHS: [Self; 15] = [
        Self::PathWithoutNumber,
        Self::PathsUpwards,
        Self::LongPathKept,
        Self::PathsNotSaid,
        Self::PlaceNotSaid,
        Self::DebtForgotten,
        Self::DebtStays,
        Self::MoveInTwoBatches,
        Self::MoveForgetsEnd,
        Self::MoveOnBothSides,
        Self::MoveLeavesOld,
        Self::MoveWithoutPatches,
        Self::MoveWithoutBeside,
        Self::MoveWithoutLinks,
        Self::NothingIsMoved,
    ];
}

#[cfg(test)]
mod switch {
    use super::Mutant;
    use std::cell::Cell;

    thread_local! {
        static CURRENT: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Whether this thread has the defect.
    pub(crate) fn mutated(mutant: Mutant) -> bool {
        CURRENT.get() == Some(mutant)
    }

    /// Gives this thread a defect, or none.
    pub(crate) fn set(mutant: Option<Mutant>) {
        CURRENT.set(mutant);
    }
}
