//! Lanes: overlapping spans of one track, laid out so that none overlap.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use units::Nanos;

use crate::{Span, Track};

/// A track's share of the spans that can be drawn in one row.
pub(crate) struct Lane<'a> {
    pub(crate) track: Track,
    /// Number within the track, from 0.
    pub(crate) number: usize,
    /// By time; each starts no earlier than its predecessor ends.
    pub(crate) spans: Vec<&'a Span>,
}

/// Lays `spans` out: tracks in their order, each on as few lanes as it has
/// spans open at once, an early span on a low lane.
pub(crate) fn lay_out(spans: &[Span]) -> Vec<Lane<'_>> {
    let mut tracks: BTreeMap<Track, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        tracks.entry(span.track).or_default().push(span);
    }
    let mut lanes = Vec::new();
    for (track, mut spans) in tracks {
        spans.sort_by_key(|span| (span.start, span.end));
        let first = lanes.len();
        let mut free: BTreeSet<usize> = BTreeSet::new();
        let mut busy: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
        for span in spans {
            while let Some(&Reverse((end, number))) = busy.peek()
                && end <= span.start
            {
                busy.pop();
                free.insert(number);
            }
            let number = free.pop_first().unwrap_or_else(|| {
                let number = lanes.len() - first;
                lanes.push(Lane { track, number, spans: Vec::new() });
                number
            });
            lanes[first + number].spans.push(span);
            busy.push(Reverse((span.end, number)));
        }
    }
    lanes
}
