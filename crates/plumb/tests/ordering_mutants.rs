//! Kernels in which one rule of the series is taken out, each by a patch of `ordering_mutants/`: with `PLUMB_LONG` each is built and must
//! be found out, by what a power cut leaves of a program, or by the kernel's own tests; the kernel as it is must not be.
//!
//! All are built in one source tree, one after the other: the first takes as long as a kernel does, the others compile what their
//! patch changes.

#![allow(clippy::unwrap_used)]

mod linux_rig;
mod ordering_rig;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use linux::{Kernel, Recipe};
use linux_rig::is_long;
use ordering_rig::programs::{
    BEGUN_AND_SYNCED, CUT_OFF, DIRECT, GROWING, LARGE, MET_BY_A_COMMIT, MET_BY_A_COMMIT_WITHOUT_ORDER, OLD,
    OVERWRITTEN, OVERWRITTEN_AT_ONCE, PREALLOCATED, WRITTEN_BACK,
};
use ordering_rig::{RUN, Run, is_ready, reduced};

/// Distinct states within which a mutant is found.
const STATES_MAX: u64 = 10_000;
/// Of one seed.
const STATES: u64 = 3000;

/// A test for each of them, whose patch has the same name, and the list of all.
macro_rules! mutants {
    ($check:ident, $all:ident: $($(#[$about:meta])* $name:ident = $way:expr;)*) => {
        const $all: &[&str] = &[$(stringify!($name)),*];
        $(
            $(#[$about])*
            #[test]
            fn $name() {
                $check(stringify!($name), $way);
            }
        )*
    };
}

mutants! { by_power_cuts, BY_POWER_CUTS:
    fsync_passes_over_others_pages = Run { setup: OVERWRITTEN, script: BEGUN_AND_SYNCED, ..RUN };
    commit_passes_over_others_pages = Run { mount: "nodelalloc", setup: OLD, script: GROWING, ..RUN };
    direct_writes_are_not_reported = Run { setup: OLD, script: DIRECT, delay_every: 97, ..RUN };
    zeroed_extents_are_not_reported = Run { setup: OLD, script: PREALLOCATED, delay_every: 0, ..RUN };
    fsync_relies_on_the_commit_under_way = met(MET_BY_A_COMMIT);
    fsync_relies_on_a_commit_without_order = met(MET_BY_A_COMMIT_WITHOUT_ORDER);
    fsync_does_not_wait_for_its_data = Run { setup: LARGE, script: OVERWRITTEN_AT_ONCE, delay_every: 0, ..RUN };
    writeback_without_order = Run { setup: OLD, script: WRITTEN_BACK, delay_every: 0, ..RUN };
    extents_are_converted_later = Run { setup: OLD, script: GROWING, ..RUN };
    data_without_the_journals_stream = Run { setup: OLD, script: GROWING, ..RUN };
    blocks_without_an_epoch = Run { setup: OLD, script: GROWING, ..RUN };
    epoch_ends_with_the_first_block = Run { setup: OLD, script: GROWING, ..RUN };
    record_in_the_epoch_of_its_blocks = Run { setup: OLD, script: GROWING, ..RUN };
    record_without_an_epoch = Run { setup: OLD, script: GROWING, ..RUN };
    pin_follows_the_task = Run { ordering: "streams:one,pinned", setup: OLD, script: GROWING, ..RUN };
    flush_before_the_record = Run { setup: OLD, script: GROWING, ..RUN };
    no_flush_at_the_end = Run { setup: OLD, script: GROWING, ..RUN };
    tail_moves_before_the_flush = Run { script: CUT_OFF, delay_every: 0, ..RUN };
}

mutants! { by_the_kernels_own_tests, BY_THE_KERNELS_OWN_TESTS:
    clone_without_order = "the_last_part_of_a_split_write_closes";
    the_first_part_closes = "the_last_part_of_a_split_write_closes";
    count_without_the_last = "counted_epochs_say_how_much_they_hold";
    epoch_completes_out_of_turn = "few_epochs_are_under_way";
    error_without_a_break = "an_error_breaks_both_streams";
    merges_across_epochs = "writes_of_other_order_are_told_apart";
    merges_across_streams = "writes_of_other_order_are_told_apart";
    no_room_for_the_oldest = "later_epochs_leave_room_for_the_oldest";
    the_last_is_merged = "the_last_by_arrival_becomes_part_of_nothing";
}

/// A commit that is under way for long, without delays beside.
const fn met(script: &'static str) -> Run<'static> {
    Run { mount: "nodelalloc", setup: LARGE, script, delay_every: 0, ..RUN }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ordering_mutants")
}

fn patch(name: &str) -> PathBuf {
    folder().join(name.replace('_', "-")).with_extension("patch")
}

fn is_to_be_run() -> bool {
    if !is_long() {
        println!("skipped: builds kernels; PLUMB_LONG=1 runs it");
        return false;
    }
    is_ready()
}

/// Asserts that nothing is bad where no rule is taken out: once for all mutants that are found in the same way.
fn without_a_patch(name: &str, run: Run<'_>) {
    static GOOD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let key = format!("{run:?}");
    let is_known = GOOD.lock().unwrap().contains(&key);
    if !is_known {
        run.assert_good(name);
        GOOD.lock().unwrap().insert(key);
    }
}

/// The kernel as it is leaves nothing bad of the program in as many states as it takes to find the mutant, which is at most
/// [`STATES_MAX`]; and what is found is made small.
fn by_power_cuts(name: &str, run: Run<'_>) {
    if !is_to_be_run() {
        return;
    }
    let file = patch(name);
    let (mut looked_at, mut seed) = (0, 1);
    let found = loop {
        let run = Run { seed, states: STATES, ..run };
        without_a_patch(name, run);
        let found = Run { kernel_patch: Some(&file), ..run }.run();
        looked_at += found.distinct;
        // What the judge cannot read is no file system any more.
        if found.bad + found.unread > 0 {
            break found;
        }
        assert!(looked_at < STATES_MAX, "{name}: {looked_at} distinct states are good");
        seed += 1;
    };
    let (bad, unread) = (found.bad, found.unread);
    println!("{name}: found out after {looked_at} distinct states, {bad} bad, {unread} not to be read");
    let reproducers = found.reproducers();
    let smallest = reproducers.iter().filter(|(lost, _)| !lost.is_empty()).min_by_key(|(lost, _)| lost.len());
    if let Some((lost, what)) = smallest {
        println!("{name}: without entries {lost:?}: {what}");
    }
    // Of what can be read, the smallest state is told.
    assert!(looked_at <= STATES_MAX + STATES && (smallest.is_some() || bad == 0), "{name}: {:#}", found.report);
}

/// This test of the kernel's fails; that all pass on the kernel as it is, `ordering.rs` sees to.
fn by_the_kernels_own_tests(name: &str, fails: &str) {
    if !is_to_be_run() {
        return;
    }
    let mut recipe = Recipe::named(linux::ordering::KERNEL).unwrap();
    recipe.config(&reduced()).unwrap();
    recipe.patch(&patch(name)).unwrap();
    let kernel = Kernel::build(&recipe, &mut |_| ()).unwrap();
    let mut run = linux_rig::on_memory();
    run.kernel_parameters = vec!["kunit.enable=1".into()];
    let outcome = run.script("dmesg").run(&kernel).unwrap();
    let said = outcome.text();
    let not_ok: Vec<&str> = said.lines().filter(|line| line.contains("not ok")).collect();
    println!("{name}: {not_ok:?}");
    assert!(not_ok.iter().any(|line| line.ends_with(fails)), "{said}");
}

#[test]
fn every_patch_is_a_mutant_of_one_kind() {
    let mut known: Vec<PathBuf> =
        BY_POWER_CUTS.iter().chain(BY_THE_KERNELS_OWN_TESTS).map(|name| patch(name)).collect();
    let mut there: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    known.sort();
    there.sort();
    assert_eq!(known, there);
}
