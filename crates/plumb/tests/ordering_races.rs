//! Tasks that meet in writeback, fsync and commits, on the kernel `order`, whose scheduling points sleep by a seed: what a power cut
//! leaves is judged without a kernel, and some of it mounted. `ordering_mutants.rs` takes the rules of the series out of the kernel.

#![allow(clippy::unwrap_used)]

mod linux_rig;
mod ordering_rig;

use linux_rig::{PLUMB, is_long};
use ordering_rig::programs::{
    BEGUN_AND_SYNCED, DIRECT, GROWING, LARGE, LAST_BLOCKS, MET_BY_A_COMMIT, NEARLY_FULL, OLD, OVERWRITTEN,
};
use ordering_rig::{RUN, Run, is_ready};

#[test]
fn an_fsync_waits_for_what_another_task_has_not_submitted() {
    if !is_ready() {
        return;
    }
    for seed in 1..=if is_long() { 8 } else { 1 } {
        Run { setup: OVERWRITTEN, script: BEGUN_AND_SYNCED, seed, ..RUN }.assert_good("begun and synced");
    }
}

#[test]
fn a_commit_waits_for_what_another_task_has_not_submitted() {
    if !is_ready() {
        return;
    }
    for seed in 1..=if is_long() { 8 } else { 1 } {
        Run { mount: "nodelalloc", setup: OLD, script: GROWING, seed, ..RUN }.assert_good("growing, nodelalloc");
    }
}

#[test]
fn a_commit_waits_for_what_was_allocated_at_once_on_a_disk_that_is_nearly_full() {
    if !is_ready() {
        return;
    }
    for seed in 1..=if is_long() { 8 } else { 1 } {
        let found = Run { mkfs: "-b 4096 -m 0", setup: NEARLY_FULL, script: LAST_BLOCKS, seed, ..RUN };
        let found = found.assert_good("nearly full");
        let switched = found.report["acknowledgements"].as_u64();
        println!("nearly full, seed {seed}: {switched:?} blocks were allocated at once");
        assert!(switched >= Some(20), "{:#}", found.report);
    }
}

#[test]
fn a_commit_waits_for_what_is_written_past_the_page_cache() {
    if !is_ready() {
        return;
    }
    for seed in 1..=if is_long() { 8 } else { 1 } {
        Run { setup: OLD, script: DIRECT, seed, delay_every: 97, ..RUN }.assert_good("direct");
    }
}

#[test]
fn an_fsync_that_finds_a_commit_under_way_is_kept() {
    if !is_long() {
        println!("skipped: slow; PLUMB_LONG=1 runs it");
        return;
    }
    if !is_ready() {
        return;
    }
    for seed in 1..=if is_long() { 8 } else { 1 } {
        Run { mount: "nodelalloc", setup: LARGE, script: MET_BY_A_COMMIT, delay_every: 0, seed, ..RUN }
            .assert_good("met by a commit");
    }
}

#[test]
fn tasks_that_do_everything_to_few_files_lose_nothing() {
    if !is_ready() {
        return;
    }
    let full = format!("{OLD}; yes filler | head -c 38000000 > filler; sync");
    let kinds = [
        ("streams:task,counted", "", "-b 4096", OLD),
        ("streams:one,counted", "nodelalloc", "-b 4096", OLD),
        ("streams:cgroup,counted", "", "-b 1024", OLD),
        ("streams:one,pinned", "nodelalloc", "-b 1024", OLD),
        ("streams:task,counted", "", "-b 4096", &*full),
        ("", "", "-b 4096", OLD),
    ];
    for (number, (ordering, mount, mkfs, setup)) in (1..).zip(kinds) {
        for seed in 1..=if is_long() { 20 } else { 1 } {
            let seed = seed * 100 + number;
            let script = format!("exec {PLUMB} app races --tasks 3 --steps 16 --seed {seed}");
            let states = if is_long() { 3000 } else { 500 };
            let run = Run { ordering, mount, mkfs, setup, script: &script, seed, states, ..RUN };
            run.assert_good(&format!("{ordering} {mount} {mkfs}"));
        }
    }
}
