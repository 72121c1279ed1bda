//! What moving parts of one file costs and saves.

use std::collections::BTreeMap;

use super::assumed::{Accesses, Assumed};
use super::file::{FileFacts, FilePlan, LeftAlone, Move, WholeCost};
use super::metadata::metadata_bytes;
use super::skip::SkipReason;
use super::ties::{for_good_bytes, ties};
use super::whole;
use super::whole_extents::grown;
use crate::ByteRange;
use crate::analysis::Touch;
use crate::extents::{Backing, Direction, ExtentKind, ExtentMap, MetadataLayout, RequestLimits, moved, requests};
use crate::migrate::can_join;

/// What holds for every file of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Of the device below.
    pub limits: RequestLimits,
    /// Move shared extents too, which takes up the room of a copy.
    pub shared: bool,
    /// Whether writes go to where the data lies. Where they do not (Btrfs), no move can save
    /// a write's requests, and traced writes count for nothing.
    pub writes_in_place: bool,
    /// Btrfs: how it keeps its trees, of which a plan for parts of a file may write more than one for the whole.
    pub metadata: Option<MetadataLayout>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { limits: RequestLimits::default(), shared: false, writes_in_place: true, metadata: None }
    }
}

/// Times that the ranges of one window are gone through. Each but the first is for what the one before it changed, so that
/// two are enough unless pieces of several ranges lie in each other's way.
const MAX_ROUNDS: usize = 16;

/// The plan for one file: each range that `assumed` touches, that holds nothing but movable data and gaps, that lies in
/// several pieces, and that takes fewer requests once it is one.
///
/// `backing` has the allocated extents, where the file system frees them as a whole only.
pub fn plan_file(
    file: FileFacts,
    map: &ExtentMap,
    backing: Option<&Backing>,
    assumed: Assumed<'_>,
    options: &PlanOptions,
) -> FilePlan {
    let mut moves = Vec::new();
    let mut left_alone = BTreeMap::new();
    let mut before = 0_u64;
    for candidate in assumed.candidates(map) {
        let counted = counted(candidate.accesses, options);
        let window = cost(map, &counted(candidate.range), options);
        before = before.saturating_add(window);
        let runs = movable_runs(map, candidate.range, file.block_bytes, options);
        let of_window = chosen(map, runs, &counted, options);
        if !of_window.is_empty() || map.piece_count(candidate.range) > 1 {
            note_left_alone(map, candidate.range, options, &mut left_alone);
        }
        moves.extend(of_window);
    }
    let may_move = |kind| is_movable(kind, options);
    if let Some(ranges) = backing.and_then(|backing| grown(map, backing, &moves, &may_move)) {
        moves = of_ranges(map, &ranges, file.block_bytes, assumed, options);
    }
    if let (Some(backing), Some(layout)) = (backing, &options.metadata)
        && let Some(whole) = cheaper_whole(map, backing, layout, &moves, &file, assumed, options)
    {
        moves = whole;
    }
    let ties = ties(map, backing, &moves);
    let whole = backing.filter(|_| !ties.is_empty() && !matches!(assumed, Assumed::Whole { .. }));
    let whole = whole.map(|backing| {
        let moves = everything(map, file.block_bytes, assumed, options);
        let bytes = moves.iter().map(|to_move| to_move.bytes).sum();
        WholeCost { bytes, for_good_bytes: for_good_bytes(&super::ties::ties(map, Some(backing), &moves)) }
    });
    let left_alone = left_alone.into_iter().map(|(reason, bytes)| LeftAlone { reason, bytes }).collect();
    FilePlan {
        for_good_bytes: for_good_bytes(&ties),
        for_good_is_estimated: !ties.is_empty() && backing.is_some_and(|backing| !backing.is_exact()),
        ties,
        whole,
        left_alone,
        ..FilePlan::of_moves(file, map.piece_count(map.whole()), before, moves)
    }
}

/// Moves of everything that lies in pieces, if that writes and takes up less than `parts` do, metadata included.
fn cheaper_whole(
    map: &ExtentMap,
    backing: &Backing,
    layout: &MetadataLayout,
    parts: &[Move],
    file: &FileFacts,
    assumed: Assumed<'_>,
    options: &PlanOptions,
) -> Option<Vec<Move>> {
    if parts.is_empty() || matches!(assumed, Assumed::Whole { .. }) {
        return None;
    }
    let cost = |moves: &[Move]| {
        let data_bytes: u64 = moves.iter().map(|to_move| to_move.bytes).sum();
        data_bytes + for_good_bytes(&ties(map, Some(backing), moves)) + metadata_bytes(backing, moves, layout)
    };
    let runs = whole::stretches(map).flat_map(|range| movable_runs(map, range, file.block_bytes, options));
    let (parts_bytes, least_bytes) = (cost(parts), runs.map(|run| run.bytes).sum::<u64>());
    if parts_bytes <= least_bytes {
        return None;
    }
    let whole = everything(map, file.block_bytes, assumed, options);
    (cost(&whole) < parts_bytes).then_some(whole)
}

/// The moves of mode `whole`.
fn everything(map: &ExtentMap, block_bytes: u64, assumed: Assumed<'_>, options: &PlanOptions) -> Vec<Move> {
    of_ranges(map, &whole::stretches(map).collect::<Vec<_>>(), block_bytes, assumed, options)
}

/// The moves of ranges that were chosen otherwise, each with what it saves once those before it are made.
fn of_ranges(
    map: &ExtentMap,
    ranges: &[ByteRange],
    block_bytes: u64,
    assumed: Assumed<'_>,
    options: &PlanOptions,
) -> Vec<Move> {
    let counted = |range| {
        let touches = assumed.touching(range, map.size_bytes());
        touches.filter(|touch| options.writes_in_place || touch.direction == Direction::Read).collect::<Vec<_>>()
    };
    let mut moves: Vec<Move> = Vec::new();
    for range in ranges {
        for run in movable_runs(map, *range, block_bytes, options) {
            let to_move = gain(map, &run, (&moves, &[]), &counted(run.range), options);
            moves.push(to_move);
        }
    }
    moves
}

/// The runs of one window that are worth moving.
///
/// Each is looked at as if those chosen before it were moved: a request that covers several of them, and what lies
/// between, may merge pieces of one with pieces of another, so that what each saves by itself would not add up.
fn chosen(
    map: &ExtentMap,
    mut runs: Vec<Run>,
    counted: &dyn Fn(ByteRange) -> Vec<Touch>,
    options: &PlanOptions,
) -> Vec<Move> {
    let mut chosen: Vec<Move> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let (runs_before, mut latest) = (runs.len(), Vec::new());
        runs.retain(|run| {
            let to_move = gain(map, run, (&chosen, &latest), &counted(run.range), options);
            let is_chosen = to_move.saved() > 0;
            if is_chosen {
                latest.push(to_move);
            }
            !is_chosen
        });
        chosen.extend(latest);
        chosen.sort_by_key(|to_move| to_move.range);
        if runs.is_empty() || runs.len() == runs_before {
            break;
        }
    }
    chosen
}

/// The accesses that count, by the range that they touch.
fn counted<'a>(accesses: Accesses<'a>, options: &PlanOptions) -> impl Fn(ByteRange) -> Vec<Touch> + 'a {
    let writes = options.writes_in_place;
    move |range| accesses.touching(range).filter(|touch| writes || touch.direction == Direction::Read).collect()
}

/// Requests of every access.
fn cost(map: &ExtentMap, touches: &[Touch], options: &PlanOptions) -> u64 {
    let one = |touch: &Touch| requests(map, touch.range, &options.limits, touch.direction).saturating_mul(touch.count);
    touches.iter().map(one).fold(0, u64::saturating_add)
}

/// Data in `pieces` stretches of the device, with gaps in between at most.
struct Run {
    range: ByteRange,
    bytes: u64,
    pieces: u32,
    /// Where the last piece of it ends on the device.
    physical_end: Option<u64>,
}

/// The longest stretches of a window that may be moved together, where they lie in more than one piece.
///
/// Windows begin and end on blocks but for a file's last one; extents always do.
fn movable_runs(map: &ExtentMap, window: ByteRange, block_bytes: u64, options: &PlanOptions) -> Vec<Run> {
    let window = aligned(window, block_bytes, map.size_bytes());
    let mut runs: Vec<Run> = Vec::new();
    let mut is_open = false;
    for piece in map.pieces(window).filter(|piece| piece.kind != ExtentKind::Unwritten) {
        if !is_movable(piece.kind, options) {
            is_open = false;
            continue;
        }
        let physical_end = piece.physical.checked_add(piece.range.len());
        match runs.last_mut() {
            Some(run) if is_open && can_join(piece.range.start - run.range.end) => {
                run.range.end = piece.range.end;
                run.bytes += piece.range.len();
                run.pieces = run.pieces.saturating_add(u32::from(run.physical_end != Some(piece.physical)));
                run.physical_end = physical_end;
            }
            _ => runs.push(Run { range: piece.range, bytes: piece.range.len(), pieces: 1, physical_end }),
        }
        is_open = true;
    }
    runs.retain(|run| run.pieces > 1);
    runs
}

fn is_movable(kind: ExtentKind, options: &PlanOptions) -> bool {
    kind == ExtentKind::Data || (kind == ExtentKind::Shared && options.shared)
}

/// `range` grown to whole blocks, and cut at the file's end.
fn aligned(range: ByteRange, block_bytes: u64, size_bytes: u64) -> ByteRange {
    let block_bytes = block_bytes.max(1);
    let end = range.end.checked_next_multiple_of(block_bytes).unwrap_or(u64::MAX);
    ByteRange { start: range.start / block_bytes * block_bytes, end: end.min(size_bytes) }
}

/// What moving `run` saves of `touches`, which all touch it, once those that are `chosen` are moved: two lists, each in the
/// order of the file.
fn gain(map: &ExtentMap, run: &Run, chosen: (&[Move], &[Move]), touches: &[Touch], options: &PlanOptions) -> Move {
    let start = touches.iter().map(|touch| touch.range.start).fold(run.range.start, u64::min);
    let end = touches.iter().map(|touch| touch.range.end).fold(run.range.end, u64::max);
    let span = ByteRange { start, end };
    let mut ranges: Vec<ByteRange> = within(chosen.0, span).chain(within(chosen.1, span)).collect();
    ranges.sort_unstable();
    let now = moved(&map.slice(span), &ranges);
    let then = moved(&now, &[run.range]);
    Move {
        range: run.range,
        bytes: run.bytes,
        pieces: run.pieces,
        requests_before: cost(&now, touches, options),
        requests_after: cost(&then, touches, options),
    }
}

/// The parts of the moves that lie in `span`.
fn within(moves: &[Move], span: ByteRange) -> impl Iterator<Item = ByteRange> {
    let first = moves.partition_point(|to_move| to_move.range.end <= span.start);
    let rest = moves.get(first..).unwrap_or_default().iter();
    rest.map_while(move |to_move| to_move.range.intersection(&span))
}

/// Adds what of a split window may not be moved, by reason.
fn note_left_alone(
    map: &ExtentMap,
    range: ByteRange,
    options: &PlanOptions,
    left_alone: &mut BTreeMap<SkipReason, u64>,
) {
    for piece in map.pieces(range).filter(|piece| !is_movable(piece.kind, options)) {
        let reason = match piece.kind {
            ExtentKind::Data => continue,
            ExtentKind::Shared => SkipReason::Shared,
            ExtentKind::Unwritten => SkipReason::Unwritten,
            ExtentKind::Delayed => SkipReason::Delayed,
            ExtentKind::Encoded => SkipReason::Encoded,
            ExtentKind::Inline => SkipReason::Inline,
            ExtentKind::Unknown => SkipReason::UnknownPlace,
        };
        let bytes = left_alone.entry(reason).or_default();
        *bytes = bytes.saturating_add(piece.range.len());
    }
}
