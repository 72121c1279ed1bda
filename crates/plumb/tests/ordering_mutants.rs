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
use linux_rig::{is_long, kernel_with_streams};
use ordering_rig::commands::{controlled, during, forced, logged};
use ordering_rig::programs::{
    BARRIER_ALONE, BARRIER_MEETS_A_COMMIT, BEGUN_AND_SYNCED, CUT_OFF, DIRECT, GROWING, IN_ORDER, LARGE, LAST_BLOCKS,
    MET_BY_A_COMMIT, MET_BY_A_COMMIT_WITHOUT_ORDER, NEARLY_FULL, NOTHING_OLD, OLD, OVERWRITTEN, OVERWRITTEN_AT_ONCE,
    PREALLOCATED, PREALLOCATED_ENCRYPTED, TWO_BLOCKS, WRITTEN_BACK,
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
    merges_across_epochs = Run { setup: OLD, script: GROWING, ..RUN };
    count_without_the_last = Run { setup: OLD, script: GROWING, ..RUN };
    barrier_ends_no_epoch = barrier(BARRIER_ALONE);
    barrier_relies_on_the_commit_under_way = barrier(BARRIER_MEETS_A_COMMIT);
    encrypted_zeroes_are_not_reported = Run {
        mkfs: "-b 4096 -O encrypt", is_reduced: true, setup: OLD, script: PREALLOCATED_ENCRYPTED, delay_every: 0,
        check: NOTHING_OLD, states: 0, mounted: 300, ..RUN
    };
}

/// With delayed allocation, where it is left for want of room.
#[test]
fn commit_passes_over_others_pages_on_a_full_disk() {
    let run = Run { mkfs: "-b 4096 -m 0", setup: NEARLY_FULL, script: LAST_BLOCKS, ..RUN };
    by_power_cuts("commit_passes_over_others_pages", run);
}

mutants! { by_the_kernels_own_tests, BY_THE_KERNELS_OWN_TESTS:
    clone_without_order = "the_last_part_of_a_split_write_closes";
    the_first_part_closes = "the_last_part_of_a_split_write_closes";
    epoch_completes_out_of_turn = "few_epochs_are_under_way";
    error_without_a_break = "an_error_breaks_both_streams";
    merges_across_streams = "writes_of_other_order_are_told_apart";
    no_room_for_the_oldest = "later_epochs_leave_room_for_the_oldest";
    the_last_is_merged = "the_last_by_arrival_becomes_part_of_nothing";
}

mutants! { by_a_write_that_fails, BY_A_WRITE_THAT_FAILS:
    journal_is_not_written_again = ("streams", |aborts, _| aborts > 0);
    broken_stream_is_not_opened_again = ("streams", |_, without_order| without_order >= APPENDS);
    written_again_though_relied_on = ("streams,fsync-as-barrier", |aborts, _| aborts == 0);
}

/// Programs' fsync is a barrier, and nothing is promised but its order.
const fn barrier(script: &'static str) -> Run<'static> {
    Run { fsync_as: "barrier", setup: TWO_BLOCKS, script, check: IN_ORDER, delay_every: 0, ..RUN }
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
        let run = Run { seed, states: run.states.min(STATES), ..run };
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
    // Where nothing is lost, what is missing had not been sent yet.
    let smallest = reproducers.iter().min_by_key(|(lost, _)| (lost.is_empty(), lost.len()));
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

/// Fsyncs after the one that failed.
const APPENDS: usize = 20;
/// A block of the journal fails, and the record behind it.
const FAILED: &str = r#"
for i in 1 2 3; do echo $i >> first; sync first; done
control inject error write-fault --operation write --nth 2 --times 1
perl -e 'use IO::Handle; open(F, ">", "new") or die $!; syswrite(F, "x" x 65536); F->sync' || true
for i in $(seq 20); do echo $i >> other && sync other || true; done
dmesg | grep -ci abort || true"#;

/// How often the kernel says that a journal was aborted is not as it should be where a write fails, or how many commits are made without
/// order then.
fn by_a_write_that_fails(name: &str, (ordering, is_found): (&str, fn(usize, usize) -> bool)) {
    if !is_to_be_run() {
        return;
    }
    let mut recipe = Recipe::named(linux::ordering::KERNEL).unwrap();
    let as_it_is = kernel_with_streams().unwrap();
    recipe.config(&reduced()).unwrap();
    recipe.patch(&patch(name)).unwrap();
    let mutant = Kernel::build(&recipe, &mut |_| ()).unwrap();
    let looked_at = |kernel: &Kernel| {
        let folder = tempfile::tempdir().unwrap();
        let (outcome, records) = logged(&controlled(ordering, FAILED), kernel, folder.path());
        let said = outcome.text();
        let aborts = said.lines().last().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{said}"));
        (aborts, forced(&during(&outcome, records)))
    };
    let ((aborts, without_order), (before, before_without)) = (looked_at(&mutant), looked_at(&as_it_is));
    println!("{name}: {aborts} aborts and {without_order} commits without order, {before} and {before_without} before");
    assert!(is_found(aborts, without_order) && !is_found(before, before_without), "{name}");
}

/// Each is in one of the lists, and in that for people.
#[test]
fn every_patch_is_a_mutant_of_one_kind() {
    let lists = [BY_POWER_CUTS, BY_THE_KERNELS_OWN_TESTS, BY_A_WRITE_THAT_FAILS];
    let mut known: Vec<PathBuf> = lists.into_iter().flatten().map(|name| patch(name)).collect();
    let mut there: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    there.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    known.sort();
    there.sort();
    assert_eq!(known, there);
    let about = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let unnamed = known.iter().map(|path| format!("| `{}` |", path.file_stem().unwrap().display()));
    let unnamed: Vec<String> = unnamed.filter(|row| !about.contains(row)).collect();
    assert!(unnamed.is_empty() && about.matches("| `").count() == known.len(), "{unnamed:?}");
}
