//! Each deliberate defect is noticed by one of the proofs.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use super::below::Below;
use super::{
    apart, beside, between, bounds, clones, contained, crash, damage, faults, full, grow, live, no_block, paced, parts,
    past, ranges, reads, refill, refused, rest, saved, schedules, sequence, sizes, spare, tickets, together, twice,
    values, views, workers,
};
use crate::mutant::{Mutant, set};

type Proof = Box<dyn Fn() -> Result<(), String>>;

/// The proofs, quick ones first.
fn proofs() -> Vec<(&'static str, Proof)> {
    vec![
        ("log", Box::new(crate::log::behind_a_lost_frame)),
        ("round", Box::new(crate::log::of_an_earlier_round)),
        ("opening", Box::new(|| faults::opening(0))),
        ("families", Box::new(crate::families::never_had)),
        ("families of ranges", Box::new(crate::families::of_a_range)),
        ("families of moves", Box::new(crate::families::of_moves)),
        ("moves", Box::new(|| (0..200).try_for_each(schedules::moves))),
        ("twice", Box::new(|| twice::torn_twice().map(drop))),
        ("tickets", Box::new(tickets::kept)),
        ("live", Box::new(|| (0..2).try_for_each(|seed| live::live(seed, 120)))),
        ("views", Box::new(|| views::in_any_order(2).map(drop))),
        ("full", Box::new(|| full::fill_and_empty(2, 4096, usize::MAX))),
        ("crash", Box::new(|| (0..4).try_for_each(|seed| crash::story(Below::Memory, seed, 50, 1).map(drop)))),
        ("device", Box::new(|| crash::story(Below::Device("hdd-7200-1tb"), 0, 40, 0).map(drop))),
        ("group commit", Box::new(between::group_commit)),
        ("syncs", Box::new(between::syncs)),
        ("conditions", Box::new(between::conditions)),
        ("answers", Box::new(between::answers)),
        ("late values", Box::new(between::late_values)),
        ("moved meanwhile", Box::new(between::moved)),
        ("verified meanwhile", Box::new(between::verified)),
        ("views of a moment", Box::new(between::views)),
        ("clones", Box::new(|| (0..3).try_for_each(|seed| clones::calls(seed, 80, false).map(drop)))),
        ("ranges", Box::new(|| ranges::nothing_else_is_kept().and_then(|()| ranges::moved()))),
        ("grow", Box::new(|| grow::grows(0))),
        ("paced", Box::new(|| paced::puts(0, 3000))),
        ("sizes", Box::new(|| [8, 64].into_iter().try_for_each(sizes::of_ranges))),
        ("saved in steps", Box::new(saved::waits)),
        ("shares of a save", Box::new(saved::shares)),
        ("compacted in steps", Box::new(saved::compacted)),
        ("trees in steps", Box::new(saved::trees)),
        ("removed meanwhile", Box::new(saved::removed_meanwhile)),
        ("slight trees", Box::new(paced::slight_trees)),
        ("freed in steps", Box::new(crate::engine::freed_in_steps)),
        ("saved behind a seal", Box::new(saved::behind_a_seal)),
        ("commits beside trees", Box::new(bounds::beside_trees)),
        ("full memory", Box::new(full::bounded)),
        ("thread ends", Box::new(beside::ends)),
        ("thread works", Box::new(beside::works)),
        ("workers", Box::new(|| (0..200).try_for_each(workers::work))),
        ("room of changes", Box::new(crate::tree::room_is_shared)),
        ("refused", Box::new(|| refused::checkpoints(0))),
        ("no block", Box::new(|| no_block::at_every_request(0, 5).map(drop))),
        ("values", Box::new(values::lives)),
        ("rest", Box::new(|| rest::space(1))),
        ("accepted damage", Box::new(|| damage::accepted(0, damage::End::Killed))),
        ("closed log", Box::new(|| damage::log(0, 400, damage::End::Closed))),
        ("opened again", Box::new(|| damage::reopened(0))),
        ("damaged log", Box::new(|| damage::log(0, 400, damage::End::Killed))),
        ("long blocks", Box::new(|| damage::long_blocks(9, 10))),
        ("covered", Box::new(|| damage::covered(9, 10))),
        ("flips", Box::new(|| damage::flips(1, 300).map(drop))),
        ("superblocks", Box::new(|| damage::superblocks(1))),
        ("refused batches", Box::new(bounds::refused)),
        ("changed nodes", Box::new(|| bounds::fresh(true))),
        ("contained", Box::new(|| contained::blocks(0, 30).map(drop))),
        ("parts of values", Box::new(parts::read_little)),
        ("keys alone", Box::new(apart::keys_alone)),
        ("keys together", Box::new(together::faster)),
        ("frames", Box::new(between::frames)),
        ("blocks in sequence", Box::new(sequence::written_once)),
        ("spare space", Box::new(spare::fits)),
        ("ranges in memory", Box::new(bounds::ranges_in_memory)),
        ("batches without room", Box::new(full::nothing_of_refused)),
        ("past damage", Box::new(|| past::blocks(0, false, 5).map(drop))),
        ("damage between two ends", Box::new(|| past::blocks(4, false, 1).map(drop))),
        ("waiting above damage", Box::new(contained::waiting)),
        ("refill", Box::new(|| refill::rounds(refill::Emptied::ByKey, 12))),
        ("reads", Box::new(|| reads::alike(1, false))),
        ("reads of pages", Box::new(|| reads::alike(1, true))),
        ("reads of a get", Box::new(reads::gets_read_little)),
        ("reads of a scan", Box::new(reads::scans_read_little)),
        ("read ahead", Box::new(|| reads::share("samsung-860evo-250gb", true, 40_000).and_then(reads::is_enough))),
        ("runs", Box::new(rest::runs)),
        ("faults", Box::new(|| faults::every_request(1, 13))),
    ]
}

/// Whether a proof fails or panics with a defect.
pub(super) fn notices(proof: impl FnOnce() -> Result<(), String>, mutant: Option<Mutant>) -> bool {
    set(mutant);
    let result = catch_unwind(AssertUnwindSafe(proof));
    set(None);
    !matches!(result, Ok(Ok(())))
}

/// The proof that is asked first: the quickest that notices the defect. Where it does not any more the others are asked.
fn expected(mutant: Mutant) -> &'static str {
    match mutant {
        Mutant::EpochIgnored => "log",
        Mutant::ChainIgnored => "round",
        Mutant::SpaceReusedEarly | Mutant::TreeNotLogged | Mutant::PlacesNotKept | Mutant::HalfOpenedCloses => {
            "opening"
        }
        Mutant::SharedBlocksFreed | Mutant::LastSharerForgotten => "families",
        Mutant::CloneSharesBeyondRange => "families of ranges",
        Mutant::CutKeepsBlocks | Mutant::CopiedBlocksKept => "clones",
        Mutant::MoveOvertaken | Mutant::MoveInTwoSteps => "moves",
        Mutant::WrittenOnTheWay => "runs",
        Mutant::MovedBeforeItCame => "late values",
        Mutant::AskedBeforeMove => "moved meanwhile",
        Mutant::MovedCountsAsKept | Mutant::CloneSharesWhatWasMoved => "families of moves",
        Mutant::FrameChecksumIgnored | Mutant::EpochBeginForgotten => "twice",
        Mutant::BufferAppliedTwice
        | Mutant::RangeEndInclusive
        | Mutant::UpsertsReversed
        | Mutant::DeletesDropped
        | Mutant::RangesStay
        | Mutant::RangeHidesNewer
        | Mutant::PivotOffByOne
        | Mutant::SnapshotNotHeld
        | Mutant::ReadersIgnored
        | Mutant::ViewNotBounded
        | Mutant::ConditionIgnored
        | Mutant::DroppedChildLeaks
        | Mutant::SplitKeepsPivot
        | Mutant::FilterForgets
        | Mutant::GivenUpStaysCounted
        | Mutant::ValuesLeak
        | Mutant::PlacesUncounted
        | Mutant::DiscardsUsedAgain
        | Mutant::LastRangeInvisible => "live",
        Mutant::ReplayTwice | Mutant::MsnForgotten | Mutant::PlacesForgotten | Mutant::OpenSnapshotForgotten => "views",
        Mutant::ReserveIgnored => "full",
        Mutant::NoFlushBeforeSuperblock
        | Mutant::NoFlushAfterSuperblock
        | Mutant::OneSlot
        | Mutant::SyncWithoutFlush
        | Mutant::BlockChecksumIgnored
        | Mutant::CheckpointBeforeDrain
        | Mutant::SealTooLate
        | Mutant::DurableTooFar
        | Mutant::LostValueAccepted
        | Mutant::FrameBeforeValues => "crash",
        Mutant::GroupCountsLate | Mutant::SyncCountsLate => "group commit",
        Mutant::SyncTakesAll => "syncs",
        Mutant::ConditionAskedEarly | Mutant::AnswerGrowsOld => "conditions",
        Mutant::AsksUnderLock | Mutant::DrainedCountsAsOld => "answers",
        Mutant::VerifyKeepsNothing => "verified meanwhile",
        Mutant::ViewNumberFirst => "views of a moment",
        Mutant::DebtUnbounded | Mutant::GrowsSilently => "grow",
        Mutant::StepUnbounded => "paced",
        Mutant::TicketSaysTooMuch | Mutant::TicketUnflushed => "tickets",
        Mutant::EstimateForgetsBuffers | Mutant::EstimateOfSampleOnly => "sizes",
        Mutant::BellUnrung => "thread works",
        Mutant::TreeTakenTwice | Mutant::TreesWithWorkOut | Mutant::CheckpointOverWork => "workers",
        Mutant::RoomOfEach => "room of changes",
        Mutant::OneEndMeets => "damage between two ends",
        Mutant::MovedInOneStep => "compacted in steps",
        Mutant::TreesHeldToTheEnd => "trees in steps",
        Mutant::RemovedAsSeen => "removed meanwhile",
        Mutant::SlightWait => "slight trees",
        Mutant::ThreadOutlivesStore => "thread ends",
        Mutant::CommitCopiesTrees => "commits beside trees",
        Mutant::FreedAtOnce => "freed in steps",
        Mutant::CreditUnbounded => "shares of a save",
        Mutant::SnapshotInOneStep => "saved in steps",
        Mutant::SnapshotOfOldSeal => "saved behind a seal",
        Mutant::FailureChangesSlot => "refused",
        Mutant::RestKeepsGarbage | Mutant::ScanMissesCutEntries => "values",
        Mutant::RunsReversed => "rest",
        Mutant::DamagedLogEnds | Mutant::AcceptedDamageReturns | Mutant::FoundMayBeLost => "accepted damage",
        Mutant::CloseSaysNothing => "closed log",
        Mutant::OpenStaysClosed | Mutant::ClosedBeforeIsClosed => "opened again",
        Mutant::SuperblockChecksumIgnored => "superblocks",
        Mutant::ChecksumOfFirstBlock => "long blocks",
        Mutant::RefusedBatchLeaks => "refused batches",
        Mutant::FreshUnbounded => "changed nodes",
        Mutant::DamageSpreads | Mutant::DamageUnnamed => "contained",
        Mutant::CellLostWhole => "past damage",
        Mutant::PartsReadWhole => "parts of values",
        Mutant::KeysReadValues | Mutant::ContainsReadsValues => "keys alone",
        Mutant::ManyOneByOne => "keys together",
        Mutant::BatchesWaitForLog => "frames",
        Mutant::FullBlocksShare => "blocks in sequence",
        Mutant::SpareIsFree => "spare space",
        Mutant::RangesUnbounded => "ranges in memory",
        Mutant::RoomAskedLate => "batches without room",
        Mutant::DamageWaitsUnbounded => "waiting above damage",
        Mutant::EmptiedNodesStay => "refill",
        Mutant::PageOffByOne | Mutant::CutEntryMissed | Mutant::WholeBlocksRead | Mutant::LongEntriesReadTwice => {
            "reads of a get"
        }
        Mutant::AheadUnbounded | Mutant::ScanNeverBegins => "reads of a scan",
        Mutant::NothingAhead => "read ahead",
        Mutant::FailureForgotten => "faults",
        Mutant::FullStops => "no block",
    }
}

/// The proof that notices a defect.
fn noticed_by(mutant: Option<Mutant>) -> Option<&'static str> {
    let first = mutant.map(expected);
    let mut proofs = proofs();
    proofs.sort_by_key(|(name, _)| Some(*name) != first);
    proofs.into_iter().find(|(_, proof)| notices(proof, mutant)).map(|(name, _)| name)
}

#[test]
fn every_defect_is_noticed() {
    assert_eq!(noticed_by(None), None, "without a defect there is nothing to notice");
    // To look at some of them: their names, or parts of names, with commas.
    let only = std::env::var("PLUMB_MUTANTS").unwrap_or_default();
    let chosen = |mutant: &Mutant| only.split(',').any(|part| format!("{mutant:?}").contains(part));
    let waiting = Mutex::new(Mutant::ALL.into_iter().filter(chosen));
    let unnoticed = Mutex::new(Vec::new());
    // A defect is its thread's own.
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some(mutant) = next else { break };
                    match noticed_by(Some(mutant)) {
                        Some(proof) => println!("{mutant:?}: {proof}"),
                        None => unnoticed.lock().unwrap().push(mutant),
                    }
                }
            });
        }
    });
    let unnoticed = unnoticed.into_inner().unwrap();
    assert!(unnoticed.is_empty(), "nobody noticed {unnoticed:?}");
}
