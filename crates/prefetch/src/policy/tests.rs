#![allow(clippy::unwrap_used)]

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

#[test]
pub(crate) fn a_pass_begins_when_random_reads_have_cost_as_much() {
    let found = plans("budget", 10 * MIB, random(1000));
    let passes: Vec<_> = found.iter().filter(|(_, plan)| plan.bytes() == 10 * MIB).collect();
    assert_eq!(passes.len(), 1, "once");
    // A page in two is sampled, and some share a bit.
    assert!((70..160).contains(&passes[0].0), "{}", passes[0].0);
    assert!(plans("budget", 10 * MIB, random(50)).iter().all(|(_, plan)| plan.bytes() < 10 * MIB));
    // The same pages again cost nothing.
    let again = (0..100).flat_map(|_| random(40));
    assert!(plans("budget", 10 * MIB, again).iter().all(|(_, plan)| plan.bytes() < 10 * MIB));
    assert!(plans("budget", 1000 * MIB, random(2000)).iter().all(|(_, plan)| plan.bytes() < 10 * MIB));
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
