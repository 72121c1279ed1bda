//! Deliberate defects, which the tests must notice: for each there is a check that fails with it. Outside of tests none exists.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mutant {
    /// Two accesses confirm a reader.
    ConfirmsAtOnce,
    /// A reader is given windows however little it has read.
    WasteUnbounded,
    /// Readers that end soon are forgotten.
    NoDoubts,
    /// Windows stay as small as the first.
    WindowStays,
    /// Each of several readers is given as much as one alone.
    WindowNotShared,
    /// A window goes beyond the end of the file.
    EndIgnored,
    /// Only forward neighbours are known.
    BackwardUnknown,
    /// Distances are not looked at.
    StridesUnknown,
    /// Each access asks for a window.
    MarkIgnored,
    /// An unconfirmed reader moves away from where it was.
    SlotsMove,
    /// Windows grow though their pages are there.
    ResidentGrows,
    /// What is not carried out is not asked for again.
    DroppedForgotten,
    /// A file that was read at random is not looked at again.
    RandomForever,
    /// An access within what is planned for a reader, but not the next one, is another's.
    SkipsUnknown,
    /// Threads that read parts of their own are taken for one reader.
    LanesMixed,
    /// What readers lose does not count.
    LossesForgotten,
    /// What is ahead of readers that have not been seen for long is sure to be read.
    IdleTrusted,
    /// Forward readers get windows beside the kernel's.
    KernelDoubled,
    /// The kernel's window ahead of a reader is taken for a program's.
    KernelIsSomebody,
    /// What readers of a file that is wanted leave behind counts as lost.
    WantedLost,
    /// What readers pass does not count as read.
    ReadersUncounted,
    /// Regions are loaded as fast as the device can, whoever waits behind.
    PassesPush,
    /// Of a file, more bytes are loaded than its reads pay for.
    PassUnbounded,
    /// A pass over a file begins with its first random reads.
    PassAtOnce,
    /// The same page pays each time it is read.
    RereadsPay,
    /// Mappings that may be written are loaded.
    WritableMapped,
    /// Whole files are loaded whatever is free.
    BudgetIgnored,
    /// What is read stays in the ledger.
    ReadStays,
    /// The newest gives way.
    NewestGoes,
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
    use crate::{ledger, policy, streams};

    const ALL: [Mutant; 29] = [
        Mutant::ConfirmsAtOnce,
        Mutant::WasteUnbounded,
        Mutant::NoDoubts,
        Mutant::WindowStays,
        Mutant::WindowNotShared,
        Mutant::EndIgnored,
        Mutant::BackwardUnknown,
        Mutant::StridesUnknown,
        Mutant::MarkIgnored,
        Mutant::SlotsMove,
        Mutant::ResidentGrows,
        Mutant::DroppedForgotten,
        Mutant::RandomForever,
        Mutant::SkipsUnknown,
        Mutant::LanesMixed,
        Mutant::LossesForgotten,
        Mutant::IdleTrusted,
        Mutant::KernelDoubled,
        Mutant::KernelIsSomebody,
        Mutant::WantedLost,
        Mutant::ReadersUncounted,
        Mutant::PassesPush,
        Mutant::PassUnbounded,
        Mutant::PassAtOnce,
        Mutant::RereadsPay,
        Mutant::WritableMapped,
        Mutant::BudgetIgnored,
        Mutant::ReadStays,
        Mutant::NewestGoes,
    ];

    const CHECKS: [fn(); 26] = [
        streams::tests::a_strided_reader_finds_everything_loaded,
        streams::tests::backward_and_forward_readers_find_everything_loaded,
        streams::tests::up_to_sixteen_readers_may_take_turns,
        streams::tests::threads_that_share_a_reader_are_one,
        streams::tests::a_reader_that_skips_stays_the_same,
        streams::tests::windows_double_up_to_the_limit_and_stop_at_the_end,
        streams::tests::readers_of_a_device_that_answers_many_at_once_share_a_window,
        streams::tests::a_plan_that_was_dropped_is_made_again_and_a_resident_one_is_not,
        streams::tests::who_turns_just_after_confirmation_wastes_at_most_twice_what_it_reads,
        streams::tests::who_turns_again_and_again_is_not_believed,
        streams::tests::random_reads_load_next_to_nothing,
        streams::tests::a_reader_after_long_random_reading_is_found,
        policy::tests::each_name_is_its_policy,
        streams::tests::threads_with_parts_of_their_own_are_not_one,
        streams::tests::forward_readers_are_left_to_a_kernel_that_keeps_up,
        streams::tests::who_ends_again_and_again_loses_little,
        streams::tests::the_kernels_own_window_is_no_reason_to_stand_down,
        streams::tests::what_others_will_read_is_not_lost,
        streams::tests::a_few_short_scans_lose_next_to_nothing,
        policy::tests::regions_are_loaded_when_reads_have_paid_in_time_and_in_bytes,
        policy::tests::regions_come_as_fast_as_they_are_read,
        policy::tests::what_readers_read_counts_beside_what_is_read_at_random,
        policy::tests::the_region_that_is_read_most_is_loaded_first,
        policy::tests::who_turns_again_and_again_pays_for_what_is_loaded,
        policy::tests::a_mapping_is_loaded_if_it_is_large_cold_read_only_and_fits,
        ledger::tests::the_oldest_gives_way_and_neighbours_are_one,
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
