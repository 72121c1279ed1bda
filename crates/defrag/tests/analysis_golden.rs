//! Windows, merging, hotness and readahead against what the published tool does.
//!
//! The expected values are those of the artifact's own analysis for the same accesses (all of
//! them aligned to blocks), and, where the artifact is wrong, what it should have said.
#![allow(clippy::unwrap_used)]

use defrag::analysis::{Hotness, READAHEAD_BYTES, Touch, Window, hottest, merge, readahead, windows};
use defrag::extents::Direction;
use defrag::{Access, ByteRange, FileId, IoKind};
use proptest::prelude::*;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

fn access(kind: IoKind, start: u64, length: u64) -> Access {
    let file = FileId { device: 1, inode: 2, generation: None };
    Access { file, range: ByteRange::new(start, length).unwrap(), kind, count: 1 }
}

fn buffered(start_kib: u64, length_kib: u64) -> Access {
    access(IoKind::BufferedRead, start_kib * KIB, length_kib * KIB)
}

/// Windows as (start KiB, end KiB, count).
fn kib(windows: &[Window]) -> Vec<(u64, u64, u64)> {
    windows.iter().map(|window| (window.range.start / KIB, window.range.end / KIB, window.count)).collect()
}

fn of(accesses: &[Access]) -> Vec<(u64, u64, u64)> {
    kib(&windows(accesses, 64 * MIB, READAHEAD_BYTES))
}

#[test]
fn small_sequential_reads_become_readahead_windows() {
    // The first read is not sequential yet; the second opens a window of 128 KiB from its own start;
    // those inside it are absorbed; the first whose end is beyond it opens the next.
    let reads: Vec<_> = (0..80).map(|index| buffered(index * 4, 4)).collect();
    assert_eq!(of(&reads), [(0, 4, 1), (4, 132, 1), (132, 260, 1), (260, 388, 1)]);
}

#[test]
fn a_sequential_read_longer_than_the_window_stays_as_it_is() {
    let reads = [buffered(0, 256), buffered(256, 256), buffered(512, 4)];
    // The second is the new window's end; the third is beyond it and opens one of 128 KiB.
    assert_eq!(of(&reads), [(0, 256, 1), (256, 512, 1), (512, 640, 1)]);
}

#[test]
fn sequential_reads_of_128_kib_stay_neighbours() {
    let reads: Vec<_> = (0..4).map(|index| buffered(index * 128, 128)).collect();
    assert_eq!(of(&reads), [(0, 128, 1), (128, 256, 1), (256, 384, 1), (384, 512, 1)]);
}

#[test]
fn another_access_turns_readahead_off() {
    // After the jump the window is gone: the next sequential read opens a new one, though the first
    // window had its bytes; that one overlaps the first window and adds to it.
    let reads = [buffered(0, 4), buffered(4, 4), buffered(1024, 4), buffered(4, 4), buffered(8, 4)];
    assert_eq!(of(&reads), [(0, 4, 1), (4, 136, 3), (1024, 1028, 1)]);
}

#[test]
fn direct_reads_and_writes_are_taken_as_they_are() {
    let direct: Vec<_> = (0..4).map(|index| access(IoKind::DirectRead, index * 4 * KIB, 4 * KIB)).collect();
    assert_eq!(of(&direct), [(0, 4, 1), (4, 8, 1), (8, 12, 1), (12, 16, 1)]);
    let writes: Vec<_> = (0..3).map(|index| access(IoKind::BufferedWrite, index * 4 * KIB, 4 * KIB)).collect();
    assert_eq!(of(&writes), [(0, 4, 1), (4, 8, 1), (8, 12, 1)]);
    // A buffered read right behind a direct one is sequential.
    let mixed = [access(IoKind::DirectRead, 0, 4 * KIB), buffered(4, 4)];
    assert_eq!(of(&mixed), [(0, 4, 1), (4, 132, 1)]);
}

#[test]
fn a_stride_keeps_the_real_requests() {
    let reads: Vec<_> = (0..3).map(|index| access(IoKind::DirectRead, index * 416 * KIB, 128 * KIB)).collect();
    assert_eq!(of(&reads), [(0, 128, 1), (416, 544, 1), (832, 960, 1)]);
}

#[test]
fn overlapping_ones_merge_and_neighbours_do_not() {
    let direct = |start, length| access(IoKind::DirectRead, start * KIB, length * KIB);
    let reads = [direct(16, 16), direct(0, 8), direct(4, 8), direct(12, 4), direct(20, 4), direct(16, 16)];
    // 0..8 and 4..12 overlap; 12..16 touches both of its neighbours and overlaps neither.
    assert_eq!(of(&reads), [(0, 12, 2), (12, 16, 1), (16, 32, 3)]);
    let merged = windows(&reads, 64 * MIB, READAHEAD_BYTES);
    let twice = Touch { range: ByteRange { start: 16 * KIB, end: 32 * KIB }, direction: Direction::Read, count: 2 };
    assert!(merged[2].touches.contains(&twice), "{merged:?}");
}

#[test]
fn hotness_counts_windows_and_rounds_down() {
    let counts = [5, 1, 9, 9, 2, 7, 3];
    let all: Vec<Window> = counts
        .iter()
        .zip(0_u64..)
        .map(|(count, place)| Window {
            range: ByteRange::new(place * 8 * KIB, 4 * KIB).unwrap(),
            count: *count,
            touches: Vec::new(),
        })
        .collect();
    let kept = |percent: &str| -> Vec<u64> {
        let hottest = hottest(all.clone(), percent.parse::<Hotness>().unwrap());
        hottest.iter().map(|window| window.count).collect()
    };
    assert_eq!(kept("100"), counts);
    assert_eq!(kept("50"), [9, 9, 7], "3 of 7, in the order of the file");
    assert_eq!(kept("15"), [9], "1.05 of 7; of equals the first");
    assert_eq!(kept("14"), Vec::<u64>::new(), "0.98 of 7");
    assert_eq!(kept("0"), Vec::<u64>::new());
    for bad in ["101", "-1", "", "half", "300"] {
        assert!(bad.parse::<Hotness>().is_err(), "{bad}");
    }
}

#[test]
fn what_readahead_was_seen_to_send_is_taken() {
    let mut accesses: Vec<_> = (0..8).map(|index| buffered(index * 4, 4)).collect();
    accesses.push(access(IoKind::Readahead, 0, 16 * KIB));
    accesses.push(access(IoKind::Readahead, 16 * KIB, 64 * KIB));
    accesses.push(access(IoKind::Mapped, 300 * KIB, 4 * KIB));
    accesses.push(access(IoKind::DirectRead, 400 * KIB, 4 * KIB));
    assert_eq!(of(&accesses), [(0, 16, 1), (16, 80, 1), (400, 404, 1)]);
}

/// What the artifact gets wrong.
mod corrected {
    use super::*;

    #[test]
    fn the_end_of_the_file_is_the_end_of_the_window() {
        // The artifact's window of this file of 204,800 bytes ends at 262,144, and rewriting it made the file grow.
        let reads: Vec<_> = (0..50).map(|index| buffered(index * 4, 4)).collect();
        let windows = windows(&reads, 204_800, READAHEAD_BYTES);
        assert_eq!(windows.last().unwrap().range, ByteRange { start: 132 * KIB, end: 204_800 });
        let beyond = [buffered(4096, 4)];
        assert!(super::windows(&beyond, 204_800, READAHEAD_BYTES).is_empty());
    }

    #[test]
    fn unaligned_ends_are_rounded_up() {
        let odd = [access(IoKind::DirectRead, 100, 4000), access(IoKind::DirectRead, 10_000, 1)];
        assert_eq!(of(&odd), [(0, 8, 1), (8, 12, 1)]);
    }

    #[test]
    fn unaligned_reads_can_be_sequential() {
        let reads: Vec<_> = (0..200).map(|index| access(IoKind::BufferedRead, index * 1000, 1000)).collect();
        // Each window begins in the page in which the last one ended, so that they overlap, as those of
        // aligned reads of 12 KiB do in the artifact: three requests instead of two hundred.
        assert_eq!(of(&reads), [(0, 252, 3)]);
        let reads: Vec<_> = (0..20).map(|index| buffered(index * 12, 12)).collect();
        assert_eq!(of(&reads), [(0, 12, 1), (12, 260, 2)]);
    }

    #[test]
    fn positions_beyond_4_gib() {
        let far = (1 << 40) + 4096;
        let reads = [access(IoKind::DirectRead, far, 4096)];
        assert_eq!(windows(&reads, u64::MAX, READAHEAD_BYTES)[0].range.start, far);
    }
}

fn any_access() -> impl Strategy<Value = Access> {
    let kind = prop_oneof![
        Just(IoKind::BufferedRead),
        Just(IoKind::BufferedWrite),
        Just(IoKind::DirectRead),
        Just(IoKind::Mapped)
    ];
    (kind, 0_u64..600_000, 1_u64..200_000).prop_map(|(kind, start, length)| access(kind, start, length))
}

proptest! {
    /// Every byte of every access within the file is in exactly one window, and windows are sorted.
    #[test]
    fn windows_cover_what_was_accessed(accesses in prop::collection::vec(any_access(), 0..60), size in 0_u64..700_000) {
        let windows = windows(&accesses, size, READAHEAD_BYTES);
        for pair in windows.windows(2) {
            prop_assert!(pair[0].range.end <= pair[1].range.start);
        }
        for window in &windows {
            prop_assert!(window.range.end <= size && !window.range.is_empty());
            prop_assert_eq!(window.count, window.touches.iter().map(|touch| touch.count).sum::<u64>());
            for touch in &window.touches {
                prop_assert_eq!(window.range.intersection(&touch.range), Some(touch.range));
            }
        }
        for access in &accesses {
            let Some(part) = access.range.intersection(&ByteRange { start: 0, end: size }) else { continue };
            let covered: u64 =
                windows.iter().filter_map(|window| window.range.intersection(&part)).map(|common| common.len()).sum();
            prop_assert_eq!(covered, part.len(), "{:?}", access);
        }
    }

    /// Merging counts every request once, in whatever order they come.
    #[test]
    fn merging_loses_no_request(accesses in prop::collection::vec(any_access(), 0..60)) {
        let requests = readahead(&accesses, u64::MAX, READAHEAD_BYTES);
        let total: u64 = requests.iter().map(|request| request.count).sum();
        let mut reversed = requests.clone();
        reversed.reverse();
        let merged = merge(requests);
        prop_assert_eq!(merged.iter().map(|window| window.count).sum::<u64>(), total);
        prop_assert_eq!(merged, merge(reversed));
    }
}
