//! The story of one request: where its time went.

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::{RequestId, Span};

/// What one request went through.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Path {
    /// The request.
    pub request: RequestId,
    /// When its first span starts.
    pub start: Nanos,
    /// When its last span ends.
    pub end: Nanos,
    /// Its spans, by start, outer layers first.
    pub hops: Vec<Hop>,
    /// Time inside the path in which none of its spans was open.
    pub unrecorded: Nanos,
}

/// One step of a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hop {
    /// The span.
    pub span: Span,
    /// The part of the path's time that is this step's own: in which it was
    /// open and no deeper layer worked for the request. For a queue or a
    /// command, that is time spent waiting. The own times of all hops and the
    /// unrecorded time add up to the path's duration.
    pub own: Nanos,
}

impl Path {
    /// From its first nanosecond to its last.
    pub fn duration(&self) -> Nanos {
        self.end.since(self.start)
    }

    /// `time` as a fraction of the duration; zero for a path without duration.
    pub fn share(&self, time: Nanos) -> f64 {
        match self.duration() {
            Nanos::ZERO => 0.0,
            duration => time.0 as f64 / duration.0 as f64,
        }
    }
}

impl Hop {
    /// How long the span was open.
    pub fn duration(&self) -> Nanos {
        self.span.end.since(self.span.start)
    }
}

/// Collects what `request` went through; `None` if no span is its own.
///
/// Every instant belongs to the deepest layer that is open then
/// ([`Layer`](crate::Layer) orders them); among equals, to the span that ends last,
/// because the request waits for that one.
pub fn follow(spans: &[Span], request: RequestId) -> Option<Path> {
    let mut hops: Vec<Hop> =
        spans.iter().filter(|span| span.request == request).map(|span| Hop { span: *span, own: Nanos::ZERO }).collect();
    hops.sort_by_key(|hop| (hop.span.start, hop.span.track.layer(), std::cmp::Reverse(hop.span.end), hop.span.track));
    let start = hops.first()?.span.start;
    let end = hops.iter().map(|hop| hop.span.end).max()?;

    let mut edges: Vec<Nanos> = hops.iter().flat_map(|hop| [hop.span.start, hop.span.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut unrecorded = Nanos::ZERO;
    for edge in edges.windows(2) {
        let (from, to) = (edge[0], edge[1]);
        let owner = hops
            .iter_mut()
            .filter(|hop| hop.span.start <= from && to <= hop.span.end)
            .max_by_key(|hop| (hop.span.track.layer(), hop.span.end));
        match owner {
            Some(hop) => hop.own += to - from,
            None => unrecorded += to - from,
        }
    }
    Some(Path { request, start, end, hops, unrecorded })
}
