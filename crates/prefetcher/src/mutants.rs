//! Deliberate defects, which the tests must notice: for each there is a check that fails with it. Outside of tests none exists.
//!
//! Of the recorder, and of who says what is in memory; those of the policies are in `prefetch`.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mutant {
    /// A record that nobody has taken is written over.
    RingOverwrites,
    /// What finds no room in the ring is not counted.
    LossUncounted,
    /// A record is taken before it is complete.
    TakenEarly,
    /// The place of a killed writer is waited for.
    DeadWaitedFor,
    /// What the program advised is taken for a read.
    AdviceIsRead,
    /// A name is everybody's who has the place.
    NameOfAnother,
    /// A record is of the file that has its place now.
    PlaceOfAnother,
    /// A call may end before it begins.
    EndsBeforeItBegins,
    /// A file that grows while it is read stays as long as it was.
    SizeStays,
    /// What was loaded is not kept.
    LoadsForgotten,
    /// A range of which a page is in memory is all there.
    SomeIsAll,
    /// Pages that were there before the programs in the kernel began are not.
    BeforeForgotten,
    /// What was there before counts more than what has been seen since.
    BeforeStays,
    /// A word of bits counts whole, where a range begins or ends within it.
    EdgesWhole,
    /// A file is asked about without an end.
    QuestionsUnbounded,
    /// One page in memory is a window in memory.
    PageIsWindow,
    /// A window of which nobody knows is in memory.
    UnknownIsThere,
    /// Everybody may know what of a file is in memory.
    EverybodyMayKnow,
    /// Who has a file open for writing may not know.
    WritersMayNot,
    /// A file that was found and not opened is as good as an open one.
    FoundIsOpen,
    /// Another file behind the descriptor's number is as good.
    AnyFile,
    /// A plan may lead out of its file.
    PlanBeyondEnd,
    /// What the kernel reads ahead is a reason to stand down.
    KernelIsSomebody,
    /// What somebody else has loaded is none.
    NeverStandsDown,
}

#[cfg(test)]
pub(crate) use switch::mutated;

/// No defect.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn mutated(_mutant: Mutant) -> bool {
    false
}

#[cfg(test)]
mod switch {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static CURRENT: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Whether this thread has the defect.
    pub(crate) fn mutated(mutant: Mutant) -> bool {
        CURRENT.get() == Some(mutant)
    }

    /// Gives this thread a defect, or none.
    pub(super) fn set(mutant: Option<Mutant>) {
        CURRENT.set(mutant);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::{Mutant, switch};
    use crate::{agent, executor, residency, shared};

    const ALL: [Mutant; 24] = [
        Mutant::RingOverwrites,
        Mutant::LossUncounted,
        Mutant::TakenEarly,
        Mutant::DeadWaitedFor,
        Mutant::AdviceIsRead,
        Mutant::NameOfAnother,
        Mutant::PlaceOfAnother,
        Mutant::EndsBeforeItBegins,
        Mutant::SizeStays,
        Mutant::LoadsForgotten,
        Mutant::SomeIsAll,
        Mutant::BeforeForgotten,
        Mutant::BeforeStays,
        Mutant::EdgesWhole,
        Mutant::QuestionsUnbounded,
        Mutant::PageIsWindow,
        Mutant::UnknownIsThere,
        Mutant::EverybodyMayKnow,
        Mutant::WritersMayNot,
        Mutant::FoundIsOpen,
        Mutant::AnyFile,
        Mutant::PlanBeyondEnd,
        Mutant::KernelIsSomebody,
        Mutant::NeverStandsDown,
    ];

    /// The first says whether the ring is ever empty: others would not end where it never is.
    const CHECKS: [fn(); 13] = [
        shared::ring_tests::records_are_taken_in_order_and_what_has_no_room_is_counted,
        shared::ring_tests::a_killed_writers_place_is_given_up,
        shared::ring_tests::a_name_is_that_of_its_generation,
        executor::recording_tests::a_place_that_another_file_has_by_now_is_nobodys,
        executor::recording_tests::what_was_loaded_is_kept,
        executor::open_tests::another_file_behind_the_number_is_refused,
        executor::open_tests::a_plan_ends_with_its_file,
        executor::standing_tests::who_is_ahead_is_told_from_the_kernel,
        residency::tests::a_window_is_there_but_for_a_tenth,
        residency::halving::tests::halves_find_what_a_look_at_each_would,
        residency::bits::tests::what_was_seen_counts_and_what_was_before_where_nothing_was,
        residency::bits::tests::pages_of_a_range_are_counted_to_its_ends,
        agent::permission_tests::owners_and_writers_may_know_and_others_may_not,
    ];

    #[test]
    fn every_defect_is_noticed() {
        for check in CHECKS {
            check();
        }
        let unnoticed: Vec<Mutant> = ALL
            .into_iter()
            .filter(|mutant| {
                switch::set(Some(*mutant));
                let unnoticed = CHECKS.iter().all(|check| catch_unwind(check).is_ok());
                switch::set(None);
                unnoticed
            })
            .collect();
        assert!(unnoticed.is_empty(), "{unnoticed:?}");
    }
}
