//! Plans against what their moves really come to.
#![allow(clippy::unwrap_used)]

use defrag::analysis::{READAHEAD_BYTES, Window, windows};
use defrag::extents::{Backing, Direction, Extent, ExtentFlags, ExtentKind, ExtentMap, Reference, moved, requests};
use defrag::plan::{
    Assumed, FileFacts, FilePlan, Mode, PlanOptions, Planner, Reuse, Room, SkipReason, WholeCost, dry_run_text,
    plan_file,
};
use defrag::{Access, ByteRange, FileId, IoKind};
use proptest::prelude::*;

const BLOCK: u64 = 4096;
const KIB: u64 = 1024;
const ID: FileId = FileId { device: 1, inode: 2, generation: None };

fn facts(size_bytes: u64) -> FileFacts {
    FileFacts { path: "file".into(), id: ID, size_bytes, block_bytes: BLOCK }
}

/// The paper's layout: repeated, 32 pieces of 4 KiB and one of 128 KiB, none beside another on the device.
fn paper_layout(size_bytes: u64) -> ExtentMap {
    let (mut logical, mut physical, mut extents) = (0, 0, Vec::new());
    while logical < size_bytes {
        for length in std::iter::repeat_n(4 * KIB, 32).chain([128 * KIB]) {
            extents.push(Extent { logical, physical, length, flags: ExtentFlags::empty() });
            logical += length;
            physical += length + 1024 * KIB;
        }
    }
    ExtentMap::new(extents, size_bytes)
}

fn direct_reads(size_bytes: u64, length: u64, step: u64) -> Vec<Window> {
    let reads: Vec<Access> = (0..size_bytes / step)
        .map(|index| Access {
            file: ID,
            range: ByteRange::new(index * step, length).unwrap(),
            kind: IoKind::DirectRead,
            count: 1,
        })
        .collect();
    windows(&reads, size_bytes, READAHEAD_BYTES)
}

/// 64 MiB: half of the file's 128 KiB windows are split in 32.
#[test]
fn the_papers_layout_costs_half_and_a_quarter() {
    let size = 64 << 20;
    let map = paper_layout(size);
    let options = PlanOptions::default();
    let whole = plan_file(facts(size), &map, None, Assumed::Whole { window_bytes: READAHEAD_BYTES }, &options);
    assert_eq!((whole.bytes(), whole.requests_before, whole.requests_after), (size, 8448, 512));

    let bypass = plan_file(facts(size), &map, None, Assumed::Bypass { window_bytes: READAHEAD_BYTES }, &options);
    assert_eq!((bypass.bytes(), bypass.requests_before, bypass.requests_after), (size / 2, 8448, 512));

    let sequential = direct_reads(size, 128 * KIB, 128 * KIB);
    let traced = plan_file(facts(size), &map, None, Assumed::Traced(&sequential), &options);
    assert_eq!(traced.moves, bypass.moves);

    // 128 KiB of each 416 KiB: 157 reads and a last one, as published for this layout.
    let stride = direct_reads(size, 128 * KIB, 416 * KIB);
    let traced = plan_file(facts(size), &map, None, Assumed::Traced(&stride), &options);
    assert_eq!((stride.len(), traced.requests_after), (157, 157));
    assert!((2600..2700).contains(&traced.requests_before), "{}", traced.requests_before);
    let share = traced.bytes() as f64 / size as f64;
    assert!(share < 0.30, "{share} of the file is to be written");
}

#[test]
fn what_is_contiguous_already_is_left() {
    let extent = |logical, physical| Extent { logical, physical, length: 128 * KIB, flags: ExtentFlags::empty() };
    // Two pieces, but each read of 128 KiB lies in one of them.
    let map = ExtentMap::new(vec![extent(0, 0), extent(128 * KIB, 1 << 30)], 256 * KIB);
    let options = PlanOptions::default();
    let plan = |assumed| plan_file(facts(256 * KIB), &map, None, assumed, &options);
    assert!(plan(Assumed::Bypass { window_bytes: READAHEAD_BYTES }).moves.is_empty());
    // No read is split, so that a second run of the whole would write all of it for nothing.
    assert!(plan(Assumed::Whole { window_bytes: READAHEAD_BYTES }).moves.is_empty());
    // One read across the border does split.
    let across = direct_reads(256 * KIB, 256 * KIB, 256 * KIB);
    assert_eq!(plan(Assumed::Traced(&across)).saved(), 1);
}

#[test]
fn shared_data_moves_only_when_asked() {
    let extent = |index: u64| Extent {
        logical: index * BLOCK,
        physical: index * 3 * BLOCK,
        length: BLOCK,
        flags: ExtentFlags::SHARED,
    };
    let map = ExtentMap::new((0..32).map(extent).collect(), 32 * BLOCK);
    let plan = |shared| {
        let options = PlanOptions { shared, ..PlanOptions::default() };
        plan_file(facts(32 * BLOCK), &map, None, Assumed::Bypass { window_bytes: READAHEAD_BYTES }, &options)
    };
    let kept = plan(false);
    assert!(kept.moves.is_empty());
    let mut planner = Planner::new(Mode::Bypass);
    planner.add(kept);
    let planned = planner.finish(None);
    assert_eq!(planned.skipped[0].reason, SkipReason::Shared);
    assert_eq!(plan(true).bytes(), 32 * BLOCK);
}

#[test]
fn no_move_can_help_writes_that_go_elsewhere() {
    let map = paper_layout(1 << 20);
    let write = Access { file: ID, range: ByteRange { start: 0, end: 128 * KIB }, kind: IoKind::DirectWrite, count: 9 };
    let windows = windows(&[write], 1 << 20, READAHEAD_BYTES);
    let plan = |writes_in_place| {
        let options = PlanOptions { writes_in_place, ..PlanOptions::default() };
        plan_file(facts(1 << 20), &map, None, Assumed::Traced(&windows), &options)
    };
    assert_eq!((plan(true).requests_before, plan(true).requests_after), (9 * 32, 9));
    assert!(plan(false).moves.is_empty());
}

#[test]
fn a_plan_survives_json() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let map = paper_layout(1 << 20);
    let mut planner = Planner::new(Mode::Whole);
    for path in [OsStr::new("a b"), OsStr::from_bytes(b"caf\xe9")] {
        let file = FileFacts { path: path.into(), ..facts(1 << 20) };
        planner.add(plan_file(
            file,
            &map,
            None,
            Assumed::Whole { window_bytes: READAHEAD_BYTES },
            &PlanOptions::default(),
        ));
    }
    let plan = planner.finish(Some(1 << 20));
    assert!(plan.files.len() == 1 && plan.skipped[0].reason == SkipReason::OverBudget);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<defrag::plan::Plan>(&text).unwrap(), plan);
}

fn flags() -> impl Strategy<Value = ExtentFlags> {
    prop_oneof![
        8 => Just(ExtentFlags::empty()),
        1 => Just(ExtentFlags::SHARED),
        1 => Just(ExtentFlags::UNWRITTEN),
        1 => Just(ExtentFlags::ENCODED),
    ]
}

/// A file of blocks and holes, its end somewhere in the last block; what follows in the file lies behind on the device, or
/// before, touching or not.
fn layout() -> impl Strategy<Value = ExtentMap> {
    let one = (1_u64..40, 0_u64..8, prop_oneof![1 => Just(0_u64), 2 => 1_u64..9], 0_u8..4, flags());
    (prop::collection::vec(one, 1..40), 0..BLOCK).prop_map(|(list, cut)| {
        let (mut logical, mut physical, mut held, mut extents) = (0, 1_u64 << 30, 0, Vec::new());
        for (blocks, hole, gap, before, flags) in list {
            logical += if hole == 7 { BLOCK } else { 0 };
            let length = blocks * BLOCK;
            physical = if before == 0 { physical - gap * BLOCK - length } else { physical + held + gap * BLOCK };
            extents.push(Extent { logical, physical, length, flags });
            logical += length;
            held = length;
        }
        ExtentMap::new(extents, logical - cut)
    })
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let kind = prop_oneof![Just(IoKind::BufferedRead), Just(IoKind::DirectRead), Just(IoKind::DirectWrite)];
    let one = (kind, 0_u64..3_000_000, 1_u64..400_000, 1_u64..9);
    let access = one.prop_map(|(kind, start, length, count)| Access {
        file: ID,
        range: ByteRange::new(start, length).unwrap(),
        kind,
        count,
    });
    prop::collection::vec(access, 0..30)
}

/// The requests of every access in `windows`.
fn total(map: &ExtentMap, windows: &[Window], options: &PlanOptions) -> u64 {
    let touches = windows.iter().flat_map(|window| &window.touches);
    touches.map(|touch| requests(map, touch.range, &options.limits, touch.direction) * touch.count).sum()
}

proptest! {
    #[test]
    fn plans_keep_their_word(map in layout(), accesses in accesses(), mode in 0_usize..3, shared: bool) {
        let size = map.size_bytes();
        let windows = windows(&accesses, size, READAHEAD_BYTES);
        let window_bytes = READAHEAD_BYTES;
        let assumed = [Assumed::Traced(&windows), Assumed::Bypass { window_bytes }, Assumed::Whole { window_bytes }][mode];
        let options = PlanOptions { shared, ..PlanOptions::default() };
        let plan = plan_file(facts(size), &map, None, assumed, &options);
        let mut end = 0;
        for to_move in &plan.moves {
            let range = to_move.range;
            prop_assert!(range.start >= end && range.end <= size && !range.is_empty());
            prop_assert!(range.start % BLOCK == 0 && (range.end % BLOCK == 0 || range.end == size));
            end = range.end;
            let movable = map.bytes_of(range, ExtentKind::Data)
                + if shared { map.bytes_of(range, ExtentKind::Shared) } else { 0 };
            prop_assert_eq!(movable, to_move.bytes);
            let data = map.bytes_of(range, ExtentKind::Data) + map.bytes_of(range, ExtentKind::Shared);
            prop_assert_eq!(data, movable, "what has to stay in {:?}", to_move);
            prop_assert_eq!(map.bytes_of(range, ExtentKind::Encoded), 0);
            let pieces = map.stretch_count(range);
            prop_assert!(pieces > 1 && u64::from(to_move.pieces) == pieces);
        }
        let ranges: Vec<ByteRange> = plan.moves.iter().map(|to_move| to_move.range).collect();
        let after = moved(&map, &ranges);
        let stretches = direct_reads(size, window_bytes, window_bytes);
        let last = ByteRange { start: size / window_bytes * window_bytes, end: size };
        let assumed_reads = |map: &ExtentMap| match mode {
            0 => total(map, &windows, &options),
            _ => total(map, &stretches, &options) + requests(map, last, &options.limits, Direction::Read),
        };
        prop_assert_eq!(plan.requests_before, assumed_reads(&map));
        prop_assert_eq!(plan.requests_after, assumed_reads(&after));
        // A second run finds nothing.
        let again = plan_file(facts(size), &after, None, assumed, &options);
        prop_assert!(again.moves.is_empty(), "{:?}", again.moves);
    }

    #[test]
    fn budgets_are_kept_and_spent_on_the_best(maps in prop::collection::vec(layout(), 1..6), budget in 0_u64..4_000_000, most in 1_usize..40) {
        let plans: Vec<FilePlan> = maps
            .iter()
            .map(|map| plan_file(facts(map.size_bytes()), map, None, Assumed::Bypass { window_bytes: READAHEAD_BYTES }, &PlanOptions::default()))
            .collect();
        let plan_of = |budget, most| {
            let mut planner = Planner::with_max_moves(Mode::Bypass, most);
            plans.iter().for_each(|plan| planner.add(plan.clone()));
            planner.finish(budget)
        };
        let plan = plan_of(Some(budget), 1 << 20);
        prop_assert!(plan.totals.bytes_to_move <= budget);
        prop_assert_eq!(plan.totals.files, plans.len() as u64);
        // What was left out and would still have fit is no better than the worst that was taken.
        let all = plan_of(None, 1 << 20);
        let left = budget - plan.totals.bytes_to_move;
        let taken: Vec<_> = plan.files.iter().flat_map(|file| &file.moves).collect();
        for to_move in all.files.iter().flat_map(|file| &file.moves) {
            prop_assert!(taken.contains(&to_move) || to_move.bytes > left);
        }
        for pair in all.files.windows(2) {
            let value = |file: &FilePlan| file.saved() as f64 / file.bytes() as f64;
            prop_assert!(value(&pair[0]) >= value(&pair[1]) - 1e-12);
        }
        let saved: u64 = all.files.iter().map(FilePlan::saved).sum();
        prop_assert_eq!(all.totals.requests_before - all.totals.requests_after, saved);
        let few = plan_of(None, most);
        prop_assert!(few.totals.moves <= most as u64);
        prop_assert_eq!(few.totals.files_to_move + few.skipped_by_reason.values().sum::<u64>(), plans.len() as u64);
        let text = dry_run_text(&all, usize::MAX);
        prop_assert_eq!(text.lines().filter(|line| line.starts_with("  bytes ")).count() as u64, all.totals.moves);
        let short = dry_run_text(&all, 2);
        prop_assert!(!short.lines().any(|line| line.starts_with("  bytes ")), "{}", short);
        prop_assert_eq!(short.lines().next(), text.lines().next());
    }
}

/// Eight exbibytes of hole with two blocks at either end.
#[test]
fn holes_cost_no_time() {
    let extent = |block: u64| Extent {
        logical: block * BLOCK,
        physical: (block % 7) << 20,
        length: BLOCK,
        flags: ExtentFlags::empty(),
    };
    let size = i64::MAX as u64 / BLOCK * BLOCK;
    let last = size / BLOCK - 1;
    let map = ExtentMap::new([0, 1, last - 1, last].map(extent).to_vec(), size);
    for assumed in [Assumed::Bypass { window_bytes: READAHEAD_BYTES }, Assumed::Whole { window_bytes: READAHEAD_BYTES }]
    {
        let plan = plan_file(facts(size), &map, None, assumed, &PlanOptions::default());
        assert_eq!((plan.moves.len(), plan.requests_before, plan.requests_after), (2, 4, 2));
    }
}

/// Data, hole, data: a request across the hole is one where both sides lie side by side.
#[test]
fn data_on_both_sides_of_a_hole_is_placed_together() {
    let extent =
        |block: u64, flags| Extent { logical: block * BLOCK, physical: (block + 1) << 20, length: BLOCK, flags };
    let data = |block| extent(block, ExtentFlags::empty());
    let map = ExtentMap::new(vec![data(0), extent(1, ExtentFlags::UNWRITTEN), data(2), data(7), data(31)], 32 * BLOCK);
    let bypass = Assumed::Bypass { window_bytes: READAHEAD_BYTES };
    let plan = plan_file(facts(32 * BLOCK), &map, None, bypass, &PlanOptions::default());
    assert_eq!((plan.requests_before, plan.requests_after, plan.bytes()), (4, 1, 4 * BLOCK));
    assert_eq!(plan.moves[0].range, map.whole());
    let after = moved(&map, &[map.whole()]);
    assert_eq!((after.stretch_count(map.whole()), after.bytes_of(map.whole(), ExtentKind::Unwritten)), (1, BLOCK));
}

/// An extent of a file of `blocks`, `overwritten` of which lie elsewhere.
fn overwritten(blocks: u64, overwritten: &[u64]) -> (ExtentMap, Backing) {
    let (mut extents, mut references) = (Vec::new(), Vec::new());
    let old = 1 << 40;
    for block in 0..blocks {
        let logical = block * BLOCK;
        let is_new = overwritten.contains(&block);
        let physical = if is_new { (1 << 30) + 3 * logical } else { old + logical };
        extents.push(Extent { logical, physical, length: BLOCK, flags: ExtentFlags::empty() });
        let range = ByteRange { start: logical, end: logical + BLOCK };
        references.push(Reference { range, extent: if is_new { physical } else { old }, movable: true });
    }
    (ExtentMap::new(extents, blocks * BLOCK), Backing::exact(references))
}

/// Parts of an extent that stays cost their room, and where they are more than half of it all of it is moved.
#[test]
fn parts_of_an_extent_are_counted_or_the_whole_is_moved() {
    let bypass = Assumed::Bypass { window_bytes: READAHEAD_BYTES };
    // Of 32 windows of 32 blocks each, one in eight or seven in eight have a block that lies elsewhere.
    for is_whole in [false, true] {
        let blocks: Vec<u64> =
            (0..32).filter(|window| (window % 8 > 0) == is_whole).map(|window| window * 32 + 5).collect();
        let (map, backing) = overwritten(1024, &blocks);
        let size = map.size_bytes();
        let plan = plan_file(facts(size), &map, Some(&backing), bypass, &PlanOptions::default());
        let windows = blocks.len() as u64;
        let expected = if is_whole { (size, 0, 1) } else { (windows * 128 * KIB, windows * 31 * BLOCK, blocks.len()) };
        assert_eq!((plan.bytes(), plan.for_good_bytes, plan.moves.len()), expected);
        assert_eq!(plan.requests_after, size.div_ceil(128 * KIB));
        // Where space is taken up for good, it is said what takes up none.
        let whole = (!is_whole).then_some(WholeCost { bytes: size, for_good_bytes: 0 });
        assert_eq!(plan.whole, whole);
        // A budget has to pay for both.
        let mut planner = Planner::new(Mode::Bypass);
        planner.add(plan.clone());
        let cut = planner.finish(Some(plan.cost_bytes() - 1));
        assert!(cut.totals.bytes_to_move + cut.totals.for_good_bytes < plan.cost_bytes());
        assert!(is_whole || cut.totals.moves + 1 == windows);
    }
}

/// An estimate without the file system's items says no less than they do.
#[test]
fn an_estimate_errs_on_the_safe_side() {
    let (map, backing) = overwritten(512, &[3, 70, 71, 200]);
    let bypass = Assumed::Bypass { window_bytes: READAHEAD_BYTES };
    let plan = |backing| plan_file(facts(map.size_bytes()), &map, Some(backing), bypass, &PlanOptions::default());
    let (exact, estimated) = (plan(&backing), plan(&Backing::estimated(&map)));
    assert!(estimated.for_good_is_estimated && !exact.for_good_is_estimated);
    assert!(estimated.for_good_bytes >= exact.for_good_bytes && exact.for_good_bytes > 0);
}

proptest! {
    /// Whatever parts of whatever extents a file refers to: the space that a plan says is taken up for good is what extents keep that
    /// still have something of the file, and to move whole extents costs no more than to move parts.
    #[test]
    fn space_is_accounted_for(
        owners in prop::collection::vec((0_u64..6, prop::bool::weighted(0.05)), 1..200), window in 1_u64..33, budget in prop::option::of(0_u64..400_000),
        free in prop::option::of(0_u64..400_000),
    ) {
        let (mut extents, mut references) = (Vec::new(), Vec::new());
        for (block, (extent, unwritten)) in (0..).zip(owners) {
            let (logical, physical) = (block * BLOCK, ((extent + 1) << 40) + block * BLOCK);
            let flags = if unwritten { ExtentFlags::UNWRITTEN } else { ExtentFlags::empty() };
            extents.push(Extent { logical, physical, length: BLOCK, flags });
            let range = ByteRange { start: logical, end: logical + BLOCK };
            references.push(Reference { range, extent, movable: !unwritten });
        }
        let size = extents.len() as u64 * BLOCK;
        let map = ExtentMap::new(extents, size);
        let backing = Backing::exact(references.clone());
        let assumed = Assumed::Bypass { window_bytes: window * BLOCK };
        let plan = |backing| plan_file(facts(size), &map, backing, assumed, &PlanOptions::default());
        let for_good = |plan: &FilePlan| -> u64 {
            let is_moved = |reference: &&Reference| {
                reference.movable && plan.moves.iter().any(|to_move| to_move.range.intersection(&reference.range).is_some())
            };
            let of_extent = |extent| {
                let (moved, stay) =
                    references.iter().filter(|reference| reference.extent == extent).partition::<Vec<&Reference>, _>(is_moved);
                if stay.is_empty() { 0 } else { moved.len() as u64 * BLOCK }
            };
            (0..6).map(of_extent).sum()
        };
        let (parts, chosen) = (plan(None), plan(Some(&backing)));
        prop_assert_eq!(chosen.for_good_bytes, for_good(&chosen));
        prop_assert!(chosen.cost_bytes() <= parts.bytes() + for_good(&parts));
        prop_assert!(chosen.requests_after <= parts.requests_after);
        let mut planner = Planner::new(Mode::Bypass);
        let room = Room { free_bytes: free.unwrap_or(0) + 5000, keep_free_bytes: 5000, reuse: Reuse::AtCommit };
        if free.is_some() {
            planner.set_room(ID.device, room);
        }
        planner.add(chosen);
        let within = planner.finish(budget);
        for file in &within.files {
            prop_assert_eq!(file.for_good_bytes, for_good(file));
        }
        let totals = within.totals;
        prop_assert!(budget.is_none_or(|budget| totals.bytes_to_move + totals.for_good_bytes <= budget));
        prop_assert!(free.is_none_or(|free| totals.for_good_bytes <= free && totals.peak_bytes <= free));
    }
}
