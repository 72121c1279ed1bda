#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::plan::Range;

const MIB: u64 = 1 << 20;
const LIMITS: Limits = Limits {
    file_bytes: 256 * MIB,
    window_bytes: 8 * MIB,
    ahead_bytes: 64 * MIB,
    forward: true,
    shared: false,
    kept: false,
};

fn read(offset_bytes: u64, length_bytes: u64) -> Access {
    Access { offset_bytes, length_bytes, lane: 1 }
}

/// What a file's reads found loaded, and what was loaded.
#[derive(Default)]
struct Outcome {
    reads: usize,
    /// Reads whose bytes had all been planned before.
    covered: usize,
    read_pages: u64,
    loaded_pages: u64,
    /// Loaded, and read later.
    used_pages: u64,
    plans: usize,
}

impl Outcome {
    fn wasted_pages(&self) -> u64 {
        self.loaded_pages - self.used_pages
    }
}

fn pages(start_bytes: u64, end_bytes: u64) -> std::ops::Range<u64> {
    start_bytes / PAGE_BYTES..end_bytes.div_ceil(PAGE_BYTES)
}

/// Carries every plan out at once, into a cache that forgets nothing.
fn run(limits: &Limits, accesses: impl IntoIterator<Item = Access>) -> Outcome {
    let mut streams = Streams::NEW;
    let count = limits.file_bytes.div_ceil(PAGE_BYTES) as usize;
    // 0 not there, 1 read, 2 loaded ahead.
    let mut cache = vec![0u8; count];
    let mut outcome = Outcome::default();
    for access in accesses {
        let end = (access.offset_bytes + access.length_bytes).min(limits.file_bytes);
        let of_access = pages(access.offset_bytes, end);
        outcome.reads += 1;
        outcome.covered += usize::from(of_access.clone().all(|page| cache[page as usize] != 0));
        outcome.read_pages += of_access.end - of_access.start;
        for page in of_access {
            outcome.used_pages += u64::from(cache[page as usize] == 2);
            cache[page as usize] = 1;
        }
        let Some(plan) = streams.observe(access, limits) else { continue };
        outcome.plans += 1;
        check(&plan, limits);
        for Range { start_bytes, end_bytes } in plan.ranges() {
            for page in pages(start_bytes, end_bytes) {
                if cache[page as usize] == 0 {
                    outcome.loaded_pages += 1;
                    cache[page as usize] = 2;
                }
            }
        }
    }
    outcome
}

/// Whatever the state: a plan has ranges, within the file and the limits.
fn check(plan: &Plan, limits: &Limits) {
    assert!(plan.count >= 1 && plan.count <= crate::MAX_RANGES, "{plan:?}");
    assert!(plan.length_bytes > 0, "{plan:?}");
    assert!(plan.bytes() <= limits.window_bytes.max(PAGE_BYTES), "{plan:?} {limits:?}");
    for range in plan.ranges() {
        assert!(range.start_bytes < range.end_bytes && range.end_bytes <= limits.file_bytes, "{plan:?} {limits:?}");
    }
}

#[test]
pub(crate) fn a_strided_reader_finds_everything_loaded() {
    let outcome = run(&LIMITS, (0..1024).map(|i| read(i * 256 * 1024, 16384)));
    assert!(outcome.covered >= 1019, "{}", outcome.covered);
    assert_eq!(outcome.loaded_pages, outcome.used_pages, "only what it reads");
    assert!(outcome.plans < 20, "a plan a window: {}", outcome.plans);
}

#[test]
pub(crate) fn backward_and_forward_readers_find_everything_loaded() {
    let backward = run(&LIMITS, (0..4000).rev().map(|i| read(i * 16384, 16384)));
    assert!(backward.covered >= 3990, "{}", backward.covered);
    let forward = run(&LIMITS, (0..4000).map(|i| read(i * 16384, 16384)));
    assert!(forward.covered >= 3990, "{}", forward.covered);
    // Blocks of any size, as of a table that is compressed.
    let mut at = 200 * MIB;
    let uneven = run(
        &LIMITS,
        (0..10_000u64).map(|i| {
            let length = 3000 + i * 7919 % 2000;
            at -= length;
            read(at, length)
        }),
    );
    assert!(uneven.covered >= 9900, "{}", uneven.covered);
}

#[test]
pub(crate) fn up_to_sixteen_readers_may_take_turns() {
    for readers in [2, 4, 8, 16] {
        let region = LIMITS.file_bytes / readers;
        let turns = (0..500).flat_map(|i| (0..readers).map(move |r| read(r * region + i * 32768, 8192)));
        let outcome = run(&LIMITS, turns);
        let missed = outcome.reads - outcome.covered;
        assert!(missed as u64 <= readers * 8, "{readers} readers missed {missed} of {}", outcome.reads);
    }
}

#[test]
pub(crate) fn threads_that_share_a_reader_are_one() {
    let mut order: Vec<u64> = (0..4000).collect();
    // Each is at most three places from its own.
    for group in order.chunks_mut(4) {
        group.rotate_left(1);
    }
    let outcome = run(&LIMITS, order.iter().map(|i| Access { lane: (*i % 4) as u32, ..read(i * 16384, 16384) }));
    assert!(outcome.covered >= 3900, "{}", outcome.covered);
    let outcome = run(&LIMITS, (0..1000).map(|i| Access { lane: (i * 7 % 5) as u32, ..read(i * 65536, 4096) }));
    assert!(outcome.covered >= 990, "{}", outcome.covered);
}

/// Sixteen threads at equal places of their parts, so that the distance from one to the next is always the same.
#[test]
pub(crate) fn threads_with_parts_of_their_own_are_not_one() {
    let part = LIMITS.file_bytes / 16;
    let turns = (1..=256u64).flat_map(|turn| {
        (0..16u64).map(move |lane| Access { lane: lane as u32, ..read((lane + 1) * part - turn * 65536, 65536) })
    });
    let outcome = run(&LIMITS, turns);
    assert_eq!(outcome.wasted_pages(), 0);
    assert!(outcome.covered >= 250 * 16, "{}", outcome.covered);
}

#[test]
pub(crate) fn gaps_do_not_stop_a_reader() {
    let gaps = (0..8000u64).map(|i| read(i * 14_000 + i * 7919 % 2000, 8192));
    let outcome = run(&LIMITS, gaps);
    assert!(outcome.covered + 20 >= outcome.reads, "{} of {}", outcome.covered, outcome.reads);
    assert!(outcome.wasted_pages() <= outcome.read_pages * 2, "{}", outcome.wasted_pages());
}

#[test]
pub(crate) fn a_reader_that_skips_stays_the_same() {
    let skipping = (0..1020).filter(|i| i % 10 != 9).map(|i| read(i * 256 * 1024, 16384));
    let outcome = run(&LIMITS, skipping);
    assert!(outcome.plans < 20, "{} plans", outcome.plans);
    assert!(outcome.covered + 8 >= outcome.reads, "{} of {}", outcome.covered, outcome.reads);
}

#[test]
pub(crate) fn windows_double_up_to_the_limit_and_stop_at_the_end() {
    let mut streams = Streams::NEW;
    let plans: Vec<Plan> = (0..16384).filter_map(|i| streams.observe(read(i * 16384, 16384), &LIMITS)).collect();
    let sizes: Vec<u64> = plans.iter().map(Plan::bytes).collect();
    assert_eq!(sizes[0], 4 * 16384, "as much as was read");
    let read = |plan: &Plan| plan.start_bytes;
    assert!(plans.iter().all(|plan| plan.bytes() <= read(plan)), "never more than it has come: {sizes:?}");
    assert_eq!(sizes.iter().max(), Some(&LIMITS.window_bytes));
    let end = plans.iter().flat_map(Plan::ranges).map(|range| range.end_bytes).max();
    assert_eq!(end, Some(LIMITS.file_bytes));
}

/// Sixteen threads read parts of their own in steps, of which no whole number is in a part: what is ahead of one at its end is nobody's.
#[test]
pub(crate) fn readers_of_a_device_that_answers_many_at_once_share_a_window() {
    let part_bytes = LIMITS.file_bytes / 16;
    let steps = part_bytes / (320 << 10);
    let accesses = (0..steps * 16).map(|turn| Access {
        offset_bytes: turn % 16 * part_bytes + turn / 16 * (320 << 10),
        length_bytes: 64 << 10,
        lane: (turn % 16) as u32,
    });
    let outcome = run(&Limits { window_bytes: MIB, shared: true, ..LIMITS }, accesses);
    assert!(outcome.wasted_pages() * 10 < outcome.read_pages, "{} of {}", outcome.wasted_pages(), outcome.read_pages);
    assert!(outcome.covered * 10 > outcome.reads * 8, "{} of {}", outcome.covered, outcome.reads);
}

#[test]
pub(crate) fn a_plan_that_was_dropped_is_made_again_and_a_resident_one_is_not() {
    let mut streams = Streams::NEW;
    let mut reads = (0..1000).map(|i| read(i * 16384, 16384));
    let first = reads.by_ref().find_map(|access| streams.observe(access, &LIMITS)).unwrap();
    streams.dropped(&first);
    let again = reads.by_ref().find_map(|access| streams.observe(access, &LIMITS)).unwrap();
    assert!(again.start_bytes <= first.start_bytes + 16384 && again.bytes() >= first.bytes(), "{first:?} {again:?}");
    let mut before = again;
    for _ in 0..6 {
        streams.resident(&before);
        let next = reads.by_ref().find_map(|access| streams.observe(access, &LIMITS)).unwrap();
        assert_eq!(next.start_bytes, before.start_bytes + before.bytes());
        assert!(next.bytes() <= BASE_WINDOW_BYTES, "no larger while somebody is ahead of it: {next:?}");
        before = next;
    }
    let mut larger = || reads.by_ref().find_map(|access| streams.observe(access, &LIMITS)).unwrap();
    let (_, second, third) = (larger(), larger(), larger());
    assert!(second.bytes() < third.bytes(), "{second:?} {third:?}");
    streams.wasted(third.bytes());
    let smaller = reads.by_ref().find_map(|access| streams.observe(access, &LIMITS)).unwrap();
    assert!(smaller.bytes() <= third.bytes(), "{third:?} {smaller:?}");
}

#[test]
pub(crate) fn who_turns_just_after_confirmation_wastes_at_most_twice_what_it_reads() {
    for (length, stride) in [(4096, 8192 * 4), (16384, 16384), (100, 5000), (65536, 1 << 20)] {
        let mut state = 7u64;
        let turns = (0..2000).flat_map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let start = (state >> 20) % (LIMITS.file_bytes - 8 * MIB);
            (0..4).map(move |i| read(start + i * stride, length))
        });
        let outcome = run(&LIMITS, turns);
        assert!(outcome.wasted_pages() <= 2 * outcome.read_pages, "{length}: {}", outcome.wasted_pages());
        assert!(outcome.plans > 0, "the adversary is taken for a reader");
    }
}

/// Four reads at equal distances, then elsewhere, and so on.
#[test]
pub(crate) fn who_turns_again_and_again_is_not_believed() {
    let turns = (0..3000u64).flat_map(|turn| {
        let start = turn * 7_919_003 % (240 * MIB) / 4096 * 4096;
        (0..4).map(move |i| read(start + i * 40_960, 4096))
    });
    // Whether what is lost counts, or others will read it.
    for kept in [false, true] {
        let outcome = run(&Limits { kept, ..LIMITS }, turns.clone());
        let (wasted, read) = (outcome.wasted_pages(), outcome.read_pages);
        assert!(wasted * 10 <= read, "{wasted} of {read}");
    }
}

#[test]
pub(crate) fn random_reads_load_next_to_nothing() {
    let mut state = 3u64;
    let random = (0..20_000).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        read((state >> 30) % (LIMITS.file_bytes / 4096) * 4096, 4096)
    });
    let outcome = run(&LIMITS, random);
    assert!(outcome.wasted_pages() * 50 < outcome.read_pages, "{} of {}", outcome.wasted_pages(), outcome.read_pages);
}

#[test]
pub(crate) fn a_reader_after_long_random_reading_is_found() {
    let mut state = 5u64;
    let random = (0..5000).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        read((state >> 30) % (200 * MIB / 4096) * 4096, 4096)
    });
    let outcome = run(&LIMITS, random.chain((0..3000).map(|i| read(210 * MIB + i * 8192, 8192))));
    assert!(outcome.covered >= 1900, "{}", outcome.covered);
}

#[test]
pub(crate) fn forward_readers_are_left_to_a_kernel_that_keeps_up() {
    let limits = Limits { forward: false, ..LIMITS };
    let forward = run(&limits, (0..4000).map(|i| read(i * 16384, 16384)));
    assert_eq!((forward.plans, forward.loaded_pages), (0, 0));
    // What leaves something out the kernel takes for random.
    let gaps = run(&limits, (0..4000).map(|i| read(i * 24576, 16384)));
    assert!(gaps.covered >= 3900, "{}", gaps.covered);
    let late = (0..1000).map(|i| read(i * 16384, 16384)).chain((0..4000).map(|i| read(16_384_000 + i * 24576, 16384)));
    let late = run(&limits, late);
    assert!(late.covered >= 3800, "{}", late.covered);
    let backward = run(&limits, (0..4000).rev().map(|i| read(i * 16384, 16384)));
    assert!(backward.covered >= 3990, "{}", backward.covered);
}

/// As the short scans of YCSB: each ends somewhere, and what is ahead of it then is lost.
#[test]
pub(crate) fn who_ends_again_and_again_loses_little() {
    let scans = |count: u64, reads: u64| {
        let start = move |scan: u64| scan * 7_919_003 % (240 * MIB) / 4096 * 4096;
        (0..count).flat_map(move |scan| (0..reads).map(move |i| read(start(scan) + i * 8192, 8192)))
    };
    let outcome = run(&LIMITS, scans(1000, 50));
    let allowed = outcome.read_pages / u64::from(LOSS_SHARE) + u64::from(LOSS_ALLOWED_PAGES);
    assert!(outcome.wasted_pages() <= allowed + 256, "{} of {}", outcome.wasted_pages(), outcome.read_pages);
    // Who goes on for long after that is served again.
    let outcome = run(&LIMITS, scans(20, 50).chain((0..20_000).map(|i| read(i * 8192, 8192))));
    assert!(outcome.covered >= 17_000, "{}", outcome.covered);
}

/// The first ones of a file, of whose readers nobody knows yet whether they have ended.
#[test]
pub(crate) fn a_few_short_scans_lose_next_to_nothing() {
    // A scan, and reads at random beside it, as those of other threads.
    let scan = |scan: u64| (0..50).map(move |i| read(scan * (16 * MIB) + i * 4096, 4096));
    let random =
        |scan: u64| (0..100).map(move |i| Access { lane: 2, ..read((scan * 100 + i) * 7_919_003 % (250 * MIB), 4096) });
    let outcome = run(&LIMITS, (0..8).flat_map(|index| scan(index).chain(random(index))));
    assert!(outcome.wasted_pages() <= 3 * u64::from(LOSS_ALLOWED_PAGES), "{}", outcome.wasted_pages());
}

/// Whatever the kernel has loaded for it, a window of its own size is there; beyond nothing is.
#[test]
pub(crate) fn the_kernels_own_window_is_no_reason_to_stand_down() {
    let mut streams = Streams::NEW;
    let mut sizes = Vec::new();
    for access in (0..2000).map(|i| read(i * 16384, 16384)) {
        let Some(plan) = streams.observe(access, &LIMITS) else { continue };
        if plan.bytes() <= BASE_WINDOW_BYTES { streams.reached(&plan) } else { sizes.push(plan.bytes()) }
    }
    assert_eq!(sizes.first(), Some(&(2 * BASE_WINDOW_BYTES)));
    assert_eq!(sizes.last(), Some(&LIMITS.window_bytes));
}

#[test]
pub(crate) fn what_others_will_read_is_not_lost() {
    let start = |scan: u64| scan * 7_919_003 % (240 * MIB) / 4096 * 4096;
    let scans = || (0..1000).flat_map(|scan| (0..50).map(move |i| read(start(scan) + i * 8192, 8192)));
    let (lost, kept) = (run(&LIMITS, scans()), run(&Limits { kept: true, ..LIMITS }, scans()));
    let missed = |outcome: &Outcome| outcome.reads - outcome.covered;
    assert!(missed(&kept) * 4 < missed(&lost), "{} {}", missed(&kept), missed(&lost));
}

/// A state of any bits: what another process may have left.
fn garbage() -> impl Strategy<Value = Streams> {
    prop::collection::vec(any::<u8>(), size_of::<Streams>()).prop_map(|bytes| {
        let mut streams = Streams::NEW;
        // SAFETY: `Streams` is integers alone, so any bytes are one; the buffer has its size, and the copy needs no alignment.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut streams).cast::<u8>(), size_of::<Streams>());
        }
        // Kinds are drawn from a few values of many.
        for stream in &mut streams.slots {
            stream.make_kind_likely();
        }
        streams
    })
}

fn any_access() -> impl Strategy<Value = Access> {
    let near = (0..1u64 << 22, 0..100_000u64, 0..4u32);
    let wild = (any::<u64>(), any::<u64>(), any::<u32>());
    prop_oneof![near, wild].prop_map(|(offset_bytes, length_bytes, lane)| Access { offset_bytes, length_bytes, lane })
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let usual = (0..1u64 << 24, 0..1u64 << 23, 0..1u64 << 26);
    let wild = (any::<u64>(), any::<u64>(), any::<u64>());
    let limits = |((file_bytes, window_bytes, ahead_bytes), forward, shared, kept)| Limits {
        file_bytes,
        window_bytes,
        ahead_bytes,
        forward,
        shared,
        kept,
    };
    (prop_oneof![usual, wild], any::<bool>(), any::<bool>(), any::<bool>()).prop_map(limits)
}

proptest! {
    #[test]
    fn any_state_is_safe_and_plans_are_within_limits(
        mut streams in garbage(),
        accesses in prop::collection::vec((any_access(), any_limits(), 0..5u8), 1..60),
        follow in any::<bool>(),
    ) {
        for (index, (mut access, limits, answer)) in accesses.into_iter().enumerate() {
            if follow {
                // The next of a reader that is there, so that its numbers are used.
                access = streams.slots[index % STREAMS].next_access(access.length_bytes % 70_000);
            }
            if let Some(plan) = streams.observe(access, &limits) {
                check(&plan, &limits);
                match answer {
                    0 => streams.resident(&plan),
                    1 => streams.dropped(&plan),
                    2 => streams.wasted(plan.bytes()),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn waste_is_bounded_for_any_accesses(
        runs in prop::collection::vec((0..200u64, 1..40u64, 1..20_000u64, -40_000..40_000i64, 0..3u32), 1..40),
    ) {
        let limits = Limits { file_bytes: 16 * MIB, window_bytes: 2 * MIB, ahead_bytes: 4 * MIB, forward: true, shared: false, kept: false };
        let accesses = runs.into_iter().flat_map(|(start, count, length_bytes, stride, lane)| {
            (0..count as i64).filter_map(move |i| {
                let offset_bytes = (start * 65536).checked_add_signed(i * stride)?;
                (offset_bytes < limits.file_bytes).then_some(Access { offset_bytes, length_bytes, lane })
            })
        });
        let outcome = run(&limits, accesses);
        prop_assert!(outcome.wasted_pages() <= 2 * outcome.read_pages);
    }
}
