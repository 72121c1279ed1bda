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

#[test]
pub(crate) fn regions_are_loaded_when_random_reads_have_cost_as_much() {
    let found = regions(10 * MIB, random(1000));
    assert_eq!(found.last().map(|(_, bytes)| *bytes), Some(10 * MIB), "each once");
    for (reads, bytes) in &found {
        // A read costs as much as 100 KiB. A page in four is sampled: few reads may seem to be more than they are.
        let paid = *reads as u64 * (100 << 10) * 2 + MIB;
        assert!(*bytes <= paid, "{bytes} after {reads} reads");
    }
    assert!(found.last().unwrap().0 < 200, "{found:?}");
    // The same pages again cost nothing.
    let again = regions(10 * MIB, (0..100).flat_map(|_| random(40)));
    assert!(again.last().unwrap().1 < 6 * MIB, "{again:?}");
    assert_eq!(regions(1000 * MIB, random(2000)), [], "does not fit");
}

#[test]
pub(crate) fn the_region_that_is_read_most_is_loaded_first() {
    // Pages of the second half of the third MiB.
    let found = plans("budget", 10 * MIB, random(60).map(|offset| 5 * MIB / 2 + offset % (MIB / 2)));
    let (_, first) = found.iter().find(|(_, plan)| !plan.is_window()).unwrap();
    assert!((5 * MIB / 2 - 160 * 1024..3 * MIB).contains(&first.start_bytes), "{first:?}");
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
    assert!(loaded.len() > 1000, "regions are loaded all the same");
}

#[test]
pub(crate) fn a_mapping_is_loaded_if_it_is_large_cold_read_only_and_fits() {
    let policy = named("budget").unwrap();
    let good = Mapping { offset_bytes: 4096, length_bytes: 32 * MIB, resident_bytes: MIB, writable: false };
    let plan = |mapping| policy.observe(&mut FileState::default(), &Event::Mapped(mapping), 40 * MIB, &HOST);
    assert_eq!(plan(good), Some(Plan::contiguous(4096, 4096 + 32 * MIB)));
    assert_eq!(plan(Mapping { length_bytes: u64::MAX, ..good }), Some(Plan::contiguous(4096, 40 * MIB)));
    assert_eq!(plan(Mapping { writable: true, ..good }), None);
    assert_eq!(plan(Mapping { resident_bytes: 30 * MIB, ..good }), None);
    assert_eq!(plan(Mapping { length_bytes: 65536, resident_bytes: 0, ..good }), None);
    let large = Mapping { length_bytes: 100 * MIB, ..good };
    assert_eq!(policy.observe(&mut FileState::default(), &Event::Mapped(large), 200 * MIB, &HOST), None);
}
