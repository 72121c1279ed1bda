#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::*;

const MIB: u64 = 1 << 20;
/// 1000 MiB/s, 100 us: a pass over 10 MiB costs 100 reads.
const HOST: Host = Host {
    bandwidth_bytes_per_second: 1000 * MIB,
    latency_ns: 100_000,
    readahead_bytes: 128 << 10,
    memory_bytes: 64 * MIB,
    free_bytes: 64 * MIB,
};

/// The plans of a policy for reads of 4 KiB at these offsets.
fn plans(name: &str, file_bytes: u64, offsets: impl IntoIterator<Item = u64>) -> Vec<(usize, Plan)> {
    let policy = named(name).unwrap();
    let mut file = FileState::NEW;
    let opened = policy.observe(&mut file, &Event::Opened, file_bytes, &HOST).map(|plan| (0, plan));
    let reads = (1..).zip(offsets).filter_map(|(index, offset_bytes)| {
        let access = Access { offset_bytes, length_bytes: 4096, lane: 0 };
        policy.observe(&mut file, &Event::Read(access), file_bytes, &HOST).map(|plan| (index, plan))
    });
    opened.into_iter().chain(reads).collect()
}

/// Pages of a file of 10 MiB, in no order.
fn random(count: u64) -> impl Iterator<Item = u64> {
    let next =
        |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(1), next).map(|state| (state >> 33) % 2560 * 4096).take(count as usize)
}

#[test]
pub(crate) fn each_name_is_its_policy() {
    let sequential = || (0..2560).map(|i| i * 4096);
    for name in ["app-only", "os-only"] {
        assert!(plans(name, 10 * MIB, sequential()).is_empty());
    }
    let largest = |name| plans(name, 10 * MIB, sequential()).iter().map(|(_, plan)| plan.bytes()).max().unwrap();
    assert_eq!(largest("predict"), HOST.readahead_bytes);
    assert!(largest("predict+opt") > HOST.readahead_bytes);
    assert_eq!(plans("fetchall+opt", 10 * MIB, sequential()), [(0, Plan::contiguous(0, 10 * MIB))]);
    assert!(plans("fetchall+opt", 65 * MIB, sequential()).is_empty(), "does not fit");
    assert_eq!(named("os-only").unwrap().advice(), Advice::Dropped);
    assert!(named("nothing").is_none());
}

/// Bytes of regions after each read.
fn regions(file_bytes: u64, offsets: impl IntoIterator<Item = u64>) -> Vec<(usize, u64)> {
    let mut bytes = 0;
    let plans = plans("budget", file_bytes, offsets).into_iter().filter(|(_, plan)| !plan.is_window());
    plans
        .map(|(read, plan)| {
            (read, {
                bytes += plan.bytes();
                bytes
            })
        })
        .collect()
}

/// A read costs 100 us, a page of a pass 3.9: with a share `d` of a region read, what a pass saves in time by what it wastes in bytes is 1
/// where `(d / (1 - d))^2` is 0.039.
#[test]
pub(crate) fn regions_are_loaded_when_reads_have_paid_in_time_and_in_bytes() {
    let found = regions(10 * MIB, random(1000));
    assert_eq!(found.last().map(|(_, bytes)| *bytes), Some(10 * MIB), "each once");
    // 17 % of 2560 pages; some are read again, and regions are read by chance.
    let (first, last) = (found[0].0, found.last().unwrap().0);
    assert!(first >= 300 && last <= 1000, "{found:?}");
    // The same pages again cost nothing.
    assert_eq!(regions(10 * MIB, (0..100).flat_map(|_| random(300))), []);
    assert_eq!(regions(1000 * MIB, random(2500)), [], "does not fit");
}

#[test]
pub(crate) fn regions_come_as_fast_as_they_are_read() {
    let policy = named("budget").unwrap();
    let mut file = FileState::NEW;
    assert_eq!(file.bulk.under_way_bytes(1000, 10 * MIB), 1000);
    for offset_bytes in random(3000) {
        let access = Access { offset_bytes, length_bytes: 4096, lane: 0 };
        policy.observe(&mut file, &Event::Read(access), 10 * MIB, &HOST);
    }
    // Four fifths of the file were read after it was loaded, but for what is read twice.
    let found = file.bulk.under_way_bytes(1000, 10 * MIB);
    assert!((4 * MIB..7 * MIB).contains(&found), "{found}");
}

#[test]
pub(crate) fn what_readers_read_counts_beside_what_is_read_at_random() {
    let backward = || (0..160u64).rev().map(|piece| piece * 16_384).map(|at| (at, 16_384));
    let reads = |scanned: bool| {
        let scan = backward().take(if scanned { 160 } else { 0 });
        let mut file = FileState::NEW;
        let policy = named("budget").unwrap();
        let mut all = scan.chain(random(3000).map(|at| (at, 4096)));
        all.position(|(offset_bytes, length_bytes)| {
            let access = Access { offset_bytes, length_bytes, lane: 0 };
            let plan = policy.observe(&mut file, &Event::Read(access), 10 * MIB, &HOST);
            plan.is_some_and(|plan| !plan.is_window())
        })
    };
    // A fourth of the file was scanned; of the rest less has to be read.
    let (with, without) = (reads(true).unwrap() - 160, reads(false).unwrap());
    assert!(with * 5 < without * 4, "{with} {without}");
}

#[test]
pub(crate) fn the_region_that_is_read_most_is_loaded_first() {
    let found = plans("budget", 10 * MIB, random(200).map(|offset| 2 * MIB + offset % MIB));
    let regions: Vec<_> = found.iter().filter(|(_, plan)| !plan.is_window()).map(|(_, plan)| *plan).collect();
    assert_eq!(regions, [Plan::contiguous(2 * MIB, 3 * MIB)]);
}

/// Four reads at equal distances, then elsewhere: pages that were loaded and never read, against pages that were read.
#[test]
pub(crate) fn who_turns_again_and_again_pays_for_what_is_loaded() {
    let policy = named("budget").unwrap();
    let (mut file, file_bytes) = (FileState::NEW, 60 * MIB);
    let (mut read, mut loaded) = (BTreeSet::new(), BTreeSet::new());
    for start in random(600) {
        for i in 0..4 {
            let access = Access { offset_bytes: (start * 6 + i * 65_536) % file_bytes, length_bytes: 4096, lane: 0 };
            read.insert(access.offset_bytes / 4096);
            let plan = policy.observe(&mut file, &Event::Read(access), file_bytes, &HOST);
            for range in plan.iter().flat_map(Plan::ranges) {
                loaded.extend(range.start_bytes / 4096..range.end_bytes.div_ceil(4096));
            }
        }
    }
    // Until the first of them has turned, nobody knows.
    let unread = loaded.difference(&read).count();
    assert!(unread <= 2 * read.len(), "{unread} pages unread, {} read", read.len());
}

#[test]
pub(crate) fn a_mapping_is_loaded_if_it_is_large_cold_read_only_and_fits() {
    let policy = named("budget").unwrap();
    let good = Mapping { offset_bytes: 4096, length_bytes: 32 * MIB, resident_bytes: MIB, writable: false };
    let plan = |mapping| policy.observe(&mut FileState::default(), &Event::Mapped(mapping), 40 * MIB, &HOST);
    assert_eq!(plan(good), Some(Plan::contiguous(4096, 4096 + 32 * MIB)));
    for (name, loads) in
        [("app-only", false), ("os-only", false), ("predict", false), ("predict+opt", true), ("fetchall+opt", true)]
    {
        let event = Event::Mapped(good);
        let plan = named(name).unwrap().observe(&mut FileState::default(), &event, 40 * MIB, &HOST);
        assert_eq!(plan.is_some(), loads, "{name}");
    }
    assert_eq!(plan(Mapping { length_bytes: u64::MAX, ..good }), Some(Plan::contiguous(4096, 40 * MIB)));
    assert_eq!(plan(Mapping { writable: true, ..good }), None);
    assert_eq!(plan(Mapping { resident_bytes: 30 * MIB, ..good }), None);
    assert_eq!(plan(Mapping { length_bytes: 65536, resident_bytes: 0, ..good }), None);
    let large = Mapping { length_bytes: 100 * MIB, ..good };
    assert_eq!(policy.observe(&mut FileState::default(), &Event::Mapped(large), 200 * MIB, &HOST), None);
}
